/** What an import needs to know about another library: where its keys are, and how to read one. */
import type { Source, SourceEntry } from "./source.ts";

/** A value for functions, or the response of an HTTP handler. */
export type OutcomeForm = "value" | "response";

export interface PeerKey {
  readonly status: "completed";
  /** The parts of its key, for the templates of `--operation`, `--scope` and `--key`. */
  readonly fields: Readonly<Record<string, string>>;
  readonly outcome: { readonly value: unknown } | { readonly error: unknown };
  /** What the request meant, if the library stored that; a digest of another kind cannot be converted. */
  readonly meaning?: unknown;
  /** Null: it never expires. */
  readonly leftMs: number | null;
}

/** `unfinished`: the work was running, or had failed and may be retried. `not-recognized`: another program wrote the entry. */
export type PeerReading =
  | PeerKey
  | { readonly status: "unfinished" | "expired" | "not-recognized" }
  | { readonly status: "refused"; readonly reason: string };

export interface PeerOptions {
  /** The first part of its keys, as the library was configured. */
  readonly prefix: string | undefined;
  readonly form: OutcomeForm;
  /** The keys are taken apart by `--match`, so the library's own way may fail. */
  readonly isMatched: boolean;
}

export interface Peer {
  /** The names in `fields`; undefined if the source has them (`Source.columns`). */
  readonly fields: readonly string[] | undefined;
  /** The templates of an identity, unless flags give others. */
  readonly templates: { readonly operation: string; readonly scope: string; readonly key: string };
  readonly form: OutcomeForm;
  open(source: string, prefix: string | undefined): Promise<Source>;
  read(entry: SourceEntry, options: PeerOptions): PeerReading;
}

export function refused(reason: string): PeerReading {
  return { status: "refused", reason };
}

/** The JSON object in a text; undefined if it is none. */
export function objectIn(text: unknown): Readonly<Record<string, unknown>> | undefined {
  if (typeof text !== "string") return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** An error as it is replayed: other libraries store its name and message. */
export function toError(stored: unknown): Error {
  const { name, message } = isObject(stored) ? stored : { name: undefined, message: stored };
  const error = new Error(typeof message === "string" ? message : "the work failed before the import");
  if (typeof name === "string" && name !== "") error.name = name;
  return error;
}
