/** An action as it is asked for: under which key, with which parameters, and the digest that a retry is known by. */
import { hash } from "node:crypto";
import { lengthPrefixed, utf8Bytes } from "../core/bytes.ts";
import { MAX_PART_BYTES } from "../core/identity.ts";

export type ActionName =
  | "placeHold"
  | "confirm"
  | "release"
  | "expire"
  | "giveBack"
  | "declare"
  | "adjust"
  | "suspend"
  | "resume"
  | "close";

/** What the caller gave, without the key. Nothing here is trusted to be of its type before it was judged. */
export type Parameters = Readonly<Record<string, unknown>>;

export interface Asked {
  readonly action: ActionName;
  readonly parameters: Parameters;
  readonly digest: string;
  /** The hashed identity of namespace, scope and key. */
  readonly keyId: string;
  readonly namespace: string;
  readonly scope: string;
  readonly key: string;
  /** What a new commitment is called, drawn before anything is decided. */
  readonly newId: string;
}

/**
 * The parameters as every store can keep them and read them back. No action takes anything but numbers and texts that are
 * not long: anything else becomes a note of what it was, and is refused like it.
 */
export function keepable(parameters: Parameters): Parameters {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given.map(([name, value]) => [name, isKeepable(value) ? value : noteOf(value)]));
}

function isKeepable(value: unknown): boolean {
  if (typeof value === "string") return utf8Bytes(value) <= MAX_PART_BYTES;
  return typeof value === "boolean" || value === null || Number.isFinite(value);
}

function noteOf(value: unknown): object {
  return typeof value === "object"
    ? { type: "object" }
    : { type: typeof value, sha256: hash("sha256", String(value), "hex") };
}

export const DIGEST_VERSION = "1";

/** SHA-256 over the action and its parameters by name, each with its length before it; the version comes first. */
export function digestOf(action: ActionName, parameters: Parameters): string {
  const named = Object.keys(parameters)
    .filter((name) => parameters[name] !== undefined)
    .sort()
    .flatMap((name) => [name, typedText(parameters[name])]);
  const text = ["nevertwice/reservation", DIGEST_VERSION, action, ...named].map(lengthPrefixed).join("");
  return `${DIGEST_VERSION}:${hash("sha256", text, "hex")}`;
}

/** The names of parameters that two requests do not share. */
export function differences(a: Parameters, b: Parameters): string[] {
  const names = [...new Set([...Object.keys(a), ...Object.keys(b)])].sort();
  return names.filter((name) => typedText(a[name]) !== typedText(b[name]));
}

/** `1` and `"1"` are two things, and so are two lone surrogates, of which UTF-8 makes one. */
function typedText(value: unknown): string {
  if (typeof value === "string" && !value.isWellFormed()) return `ill-formed ${JSON.stringify(value)}`;
  return `${typeof value} ${typeof value === "object" ? JSON.stringify(value) : String(value)}`;
}
