/** The problems of a manifest. Each has its place and its fix, and all problems are reported together. */
import { NevertwiceError } from "../../core/errors.ts";
import type { Path } from "./toml-lines.ts";

/** Something that is wrong in a manifest, and where. */
export interface ManifestProblem {
  /** The path, relative to the working directory if possible; `manifest` for an object. */
  readonly file: string;
  /** Undefined for an object. */
  readonly line: number | undefined;
  /** `contract.retry.strategy`; empty for the whole file. */
  readonly at: string;
  /** What is wrong, and what to do about it, in a sentence. */
  readonly problem: string;
  /** How to fix it. */
  readonly fix: string;
}

/** Reports a problem at a path of one document. */
export type Report = (path: Path, problem: string, fix: string) => void;

const problemsKey = "problems";

/** A `manifest-invalid` error that lists every problem by file and line, one on each line. */
export function manifestInvalid(problems: readonly ManifestProblem[]): NevertwiceError {
  const inOrder = unique(problems).sort(
    (a, b) => order(a.file, b.file) || (a.line ?? 0) - (b.line ?? 0) || order(a.at, b.at),
  );
  const texts = inOrder.map(problemText);
  const [first = "the problem is unknown"] = texts;
  const message =
    texts.length === 1
      ? first
      : `there are ${texts.length} problems.\n${texts.map((text) => `  ${text}`).join("\n")}`;
  const error = new NevertwiceError("manifest-invalid", message);
  Object.defineProperty(error, problemsKey, { value: inOrder });
  return error;
}

/** The problems of a `manifest-invalid` error. Empty for any other error. */
export function manifestProblems(error: unknown): readonly ManifestProblem[] {
  if (typeof error !== "object" || error === null || !(problemsKey in error)) return [];
  const { problems } = error;
  return Array.isArray(problems) ? problems : [];
}

/** `charge.node.toml:12: contract.timeout is "5"; write …`. Editors and terminals can open this form of path. */
export function problemText({ file, line, problem, fix }: ManifestProblem): string {
  return `${line === undefined ? file : `${file}:${line}`}: ${problem}; ${fix}.`;
}

/** The problem of a node that is used twice is reported once. */
function unique(problems: readonly ManifestProblem[]): ManifestProblem[] {
  return [...new Map(problems.map((problem) => [problemText(problem), problem])).values()];
}

function order(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
