/** What is left of an operation that failed in the end: enough, as plain JSON, to try it again under its own identity. */
import { randomUUID } from "node:crypto";
import { fromBase64, toBase64 } from "../../core/bytes.ts";
import { systemTimer } from "../../core/clock.ts";
import { NevertwiceError } from "../../core/errors.ts";
import { checkedPart } from "../../core/identity.ts";
import type { RunRequest } from "../../core/request.ts";

export interface DeadLetter {
  /** Random; the same over every replay. */
  readonly id: string;
  readonly operation: string;
  readonly domain?: string;
  readonly scope?: string;
  /** The key's text. */
  readonly key: string;
  /** What the request means, as it was given. Bytes stand in `fingerprintBytes` instead. */
  readonly fingerprint?: unknown;
  readonly fingerprintBytes?: { readonly base64: string };
  readonly error: { readonly name: string; readonly message: string; readonly code?: string | number };
  /** Invocations of the work in the call that failed. */
  readonly attempts: number;
  /** Milliseconds since the epoch. */
  readonly failedAt: number;
  /** How many replays have failed. */
  readonly replays: number;
  /** As JSON can say it when the operation failed; left out if it cannot. */
  readonly context?: unknown;
  readonly args?: unknown;
}

/** May be async. Whatever it throws breaks nothing. */
export type DeadLetters = (entry: DeadLetter) => unknown;

/** Where the letters of one operation come from, and where they go. */
export interface Letters {
  readonly send: DeadLetters | undefined;
  /** The entry that is being replayed. */
  readonly previous: DeadLetter | undefined;
  /** The fingerprint as it was before the work could change it. */
  readonly meaning: Pick<DeadLetter, "fingerprint" | "fingerprintBytes">;
  readonly context: unknown;
  readonly args: unknown;
}

/** A caller waits this long for its letter to be taken. */
const TAKE_MS = 5_000;

export function letterOf(
  { operation, domain, scope, key }: RunRequest,
  { previous, meaning, context, args }: Letters,
  error: unknown,
  attempts: number,
): DeadLetter {
  return JSON.parse(
    JSON.stringify({
      id: previous?.id ?? randomUUID(),
      operation,
      domain,
      scope,
      key: typeof key === "string" ? key : key.text,
      ...meaning,
      error: briefly(error),
      attempts,
      failedAt: Date.now(),
      replays: previous === undefined ? 0 : previous.replays + 1,
      context: previous === undefined ? asJson(context) : previous.context,
      args: previous === undefined ? asJson(args) : previous.args,
    }),
  );
}

export function meaningOf(fingerprint: unknown): Letters["meaning"] {
  if (fingerprint instanceof Uint8Array) return { fingerprintBytes: { base64: toBase64(fingerprint) } };
  return { fingerprint: asJson(fingerprint) };
}

/** True once the letter was taken; false if that failed or took too long. */
export function deliver(send: DeadLetters, entry: DeadLetter): Promise<boolean> {
  return new Promise((resolve) => {
    const cancel = systemTimer.after(TAKE_MS, () => resolve(false));
    const taken = (async () => send(entry))();
    taken
      .then(
        () => resolve(true),
        () => resolve(false),
      )
      .finally(cancel);
  });
}

/** The request that failed, again. Fails with `options-invalid` on what is no dead letter. */
export function requestOf(entry: DeadLetter): RunRequest {
  const { id, operation, domain, scope, key, fingerprint, fingerprintBytes, replays } = entry ?? {};
  checkedPart(id, "the dead letter's id", "options-invalid");
  checkedPart(key, "the dead letter's key", "options-invalid");
  checkedPart(operation, "the dead letter's operation", "options-invalid");
  if (!Number.isSafeInteger(replays) || replays < 0)
    throw new NevertwiceError("options-invalid", "the dead letter's replays must be a whole number.");
  const meaning = fingerprintBytes === undefined ? fingerprint : fromBase64(fingerprintBytes.base64);
  return { operation, domain, scope, key, fingerprint: meaning };
}

function briefly(error: unknown): DeadLetter["error"] {
  try {
    if (!(error instanceof Error)) return { name: typeof error, message: textOf(error) };
    const { name, message, code } = error as Error & { readonly code?: unknown };
    const fields = { name: textOf(name), message: textOf(message) };
    return typeof code === "string" || typeof code === "number" ? { ...fields, code } : fields;
  } catch {
    // A getter of its own threw; that something failed is said all the same.
    return { name: "Error", message: "an error that cannot be read" };
  }
}

/** Anything may be thrown, also what has no text. */
function textOf(thrown: unknown): string {
  return typeof thrown === "object" && thrown !== null
    ? (JSON.stringify(asJson(thrown)) ?? "an object")
    : String(thrown);
}

/** A copy that JSON can say, with bigints as their digits; undefined if there is none. */
function asJson(value: unknown): unknown {
  try {
    const text = JSON.stringify(value, (_, part) => (typeof part === "bigint" ? String(part) : part));
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}
