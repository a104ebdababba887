/** A manifest as it was read: its table, where its values stand, the manifests it uses, and the code it names. */
import type { Path } from "./toml-lines.ts";

export interface Document {
  /** What people are told it is called. */
  readonly file: string;
  /** Tells documents apart, and is the same for one that is used twice. */
  readonly identity: unknown;
  readonly table: Readonly<Record<string, unknown>>;
  /** Undefined for an object that was never a file. */
  readonly lineOf: (path: Path) => number | undefined;
  /** What a node of this network uses, by the node's name; what went wrong, where it could not be read. */
  readonly uses: ReadonlyMap<string, Document | Fault>;
  /** The code that a value names. */
  readonly codeOf: (value: unknown) => Code | Fault;
}

export interface Code {
  readonly code: unknown;
}

/** As in a problem, for whoever knows the place. */
export interface Fault {
  readonly problem: string;
  readonly fix: string;
}

export function isFault(value: object): value is Fault {
  return "fix" in value;
}

/** A table of TOML, or an object that may stand for one. */
export function isTable(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}
