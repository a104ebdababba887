/** A manifest that was read: its table, the lines of its values, the manifests that it uses, and the code that it names. */
import type { Path } from "./toml-lines.ts";

export interface Document {
  /** The name that problems show. */
  readonly file: string;
  /** Distinguishes documents. A document that is used twice has one identity. */
  readonly identity: unknown;
  readonly table: Readonly<Record<string, unknown>>;
  /** Returns undefined for a manifest that is an object. */
  readonly findLine: (path: Path) => number | undefined;
  /** The manifest that each node of this network uses, by the node's name; a fault if it could not be read. */
  readonly uses: ReadonlyMap<string, Document | ManifestFault>;
  /** Finds the code that a value refers to. */
  readonly findCode: (value: unknown) => Code | ManifestFault;
}

export interface Code {
  readonly code: unknown;
}

/** A problem without its place. The caller knows the place and reports it. */
export interface ManifestFault {
  readonly problem: string;
  readonly fix: string;
}

export function isManifestFault(value: object): value is ManifestFault {
  return "fix" in value;
}
