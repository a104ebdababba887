/** What a code means: the section of docs/errors.md that explains it, at the address that every problem names. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect } from "preact/hooks";
import { useLoaded } from "../loading.ts";
import { Mark } from "../parts/icons.tsx";
import { Empty, Shown } from "../parts/states.tsx";

interface Explained {
  readonly status: string;
  readonly isRetryable: boolean;
  readonly short: string;
  readonly paragraphs: readonly string[];
}

export function ErrorPage({ code }: { readonly code: string }): JSX.Element {
  const loaded = useLoaded(() => import("../../../../docs/errors.md?raw"), code);
  useEffect(() => {
    document.title = `${code} · nevertwice`;
  }, [code]);
  return (
    <main class="article">
      <a class="brand" href="/">
        <Mark /> nevertwice
      </a>
      <h1>
        <code>{code}</code>
      </h1>
      <Shown loaded={loaded}>
        {({ default: text }) => {
          const explained = explainedIn(text, code);
          return explained === undefined ? (
            <Empty icon="question" title="No such error" />
          ) : (
            <Explanation explained={explained} />
          );
        }}
      </Shown>
    </main>
  );
}

function Explanation({ explained }: { readonly explained: Explained }): JSX.Element {
  const { status, isRetryable, short, paragraphs } = explained;
  return (
    <>
      <p class="muted">
        {short}. HTTP status {status}.{" "}
        {isRetryable ? "The same request may succeed later." : "The same request will not succeed by itself."}
      </p>
      {paragraphs.map((paragraph) => (
        <p key={paragraph}>{inline(paragraph)}</p>
      ))}
    </>
  );
}

/** Its row in the table, and its section. */
function explainedIn(text: string, code: string): Explained | undefined {
  const row = text.split("\n").find((line) => line.startsWith(`| [\`${code}\`]`));
  const section = text.split(/^## /m).find((part) => part.startsWith(`\`${code}\`\n`));
  if (row === undefined || section === undefined) return undefined;
  const [status = "", retryable = "", short = ""] = row
    .split("|")
    .slice(2)
    .map((cell) => cell.trim());
  const paragraphs = section
    .split(/\n{2,}/)
    .slice(1)
    .map((part) => part.replace(/\s+/g, " ").trim());
  return {
    status,
    isRetryable: retryable === "yes",
    short: short.charAt(0).toUpperCase() + short.slice(1),
    paragraphs: paragraphs.filter(Boolean),
  };
}

const PIECES = /(\*\*[^*]+\*\*|`[^`]+`|\[[^\]]+\]\([^)]+\))/;

/** Bold, code, and the words of links: where they lead is not on this server. */
function inline(text: string): ComponentChildren {
  return text.split(PIECES).map((piece, index) => {
    if (piece.startsWith("**")) return <strong key={index}>{piece.slice(2, -2)}</strong>;
    if (piece.startsWith("`")) return <code key={index}>{piece.slice(1, -1)}</code>;
    if (!PIECES.test(piece)) return piece;
    const words = /^\[([^\]]+)\]/.exec(piece)?.[1] ?? "";
    const own = /\(#([a-z-]+)\)$/.exec(piece)?.[1];
    const shown = words.replaceAll("`", "");
    return own === undefined ? (
      shown
    ) : (
      <a key={index} href={`/errors/${own}`}>
        {shown}
      </a>
    );
  });
}
