/** The page that explains an error code, at the address in the `type` of every problem: its section of docs/errors.md. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect } from "preact/hooks";
import { useLoaded } from "../load-state.ts";
import { Mark } from "../parts/icons.tsx";
import { Empty, Shown } from "../parts/states.tsx";

interface ErrorExplanation {
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
          const explained = findExplanation(text, code);
          return explained === undefined ? (
            <Empty icon="question" title="Unknown error code" />
          ) : (
            <Explanation explained={explained} />
          );
        }}
      </Shown>
    </main>
  );
}

function Explanation({ explained }: { readonly explained: ErrorExplanation }): JSX.Element {
  const { status, isRetryable, short, paragraphs } = explained;
  return (
    <>
      <p class="muted">
        {short}. HTTP status {status}.{" "}
        {isRetryable
          ? "The same request may succeed later."
          : "Sending the same request again does not help."}
      </p>
      {paragraphs.map((paragraph) => (
        <p key={paragraph}>{inline(paragraph)}</p>
      ))}
    </>
  );
}

/** Reads the row of the code in the table, and its section. */
function findExplanation(text: string, code: string): ErrorExplanation | undefined {
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

/** Renders bold text, code and links. A link to another page becomes plain text, since this server does not have it. */
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
