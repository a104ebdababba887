/** What is wrong with a manifest: where, what, and what to write instead. All that is found is reported together. */
import { NevertwiceError } from "../../core/errors.ts";
import type { Path } from "./toml-lines.ts";

export interface ManifestProblem {
  /** As it was given, or from the working directory; `manifest` for an object that was never a file. */
  readonly file: string;
  /** Undefined for an object. */
  readonly line: number | undefined;
  /** `contract.retry.strategy`; empty for the whole file. */
  readonly at: string;
  readonly problem: string;
  /** What to do about it. */
  readonly fix: string;
}

/** Where to put a finding that is made in one document. */
export type Report = (path: Path, problem: string, fix: string) => void;

const problemsKey = "problems";

/** `manifest-invalid` with every problem, in the order of files and lines, each on a line of its own. */
export function manifestInvalid(problems: readonly ManifestProblem[]): NevertwiceError {
  const inOrder = unique(problems).sort(
    (a, b) => order(a.file, b.file) || (a.line ?? 0) - (b.line ?? 0) || order(a.at, b.at),
  );
  const texts = inOrder.map(problemText);
  const [first = "nothing is known"] = texts;
  const message =
    texts.length === 1
      ? first
      : `there are ${texts.length} problems.\n${texts.map((text) => `  ${text}`).join("\n")}`;
  const error = new NevertwiceError("manifest-invalid", message);
  Object.defineProperty(error, problemsKey, { value: inOrder });
  return error;
}

/** What a `manifest-invalid` is about, piece by piece; empty for any other error. */
export function manifestProblems(error: unknown): readonly ManifestProblem[] {
  if (typeof error !== "object" || error === null || !(problemsKey in error)) return [];
  const { problems } = error;
  return Array.isArray(problems) ? problems : [];
}

/** `charge.node.toml:12: contract.timeout is "5"; write …`, which editors and terminals know how to open. */
export function problemText({ file, line, problem, fix }: ManifestProblem): string {
  return `${line === undefined ? file : `${file}:${line}`}: ${problem}; ${fix}.`;
}

/** One node that is used twice is wrong once. */
function unique(problems: readonly ManifestProblem[]): ManifestProblem[] {
  return [...new Map(problems.map((problem) => [problemText(problem), problem])).values()];
}

function order(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
