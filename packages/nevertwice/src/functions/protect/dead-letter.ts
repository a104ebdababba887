/** The dead letter of an operation that failed: plain JSON that is enough to try the operation again with the same identity. */
import { newUuid } from "#platform";
import { fromBase64, toBase64 } from "../../core/bytes.ts";
import { systemTimer } from "../../core/clock.ts";
import { NevertwiceError } from "../../core/errors.ts";
import { checkedPart } from "../../core/identity.ts";
import { parseJson } from "../../core/parse-json.ts";
import type { RunRequest } from "../../core/request.ts";

/**
 * A failed operation with all that a replay needs. It is plain data, so any queue or table can keep it as
 * JSON.
 */
export interface DeadLetter {
  /** Random; the same in every replay. */
  readonly id: string;
  /** The operation of the request. */
  readonly operation: string;
  /** The domain of the request, if it had one. */
  readonly domain?: string;
  /** The scope of the request, if it had one. */
  readonly scope?: string;
  /** The key's text. */
  readonly key: string;
  /** The fingerprint of the request. Bytes are in `fingerprintBytes` instead. */
  readonly fingerprint?: unknown;
  /** The fingerprint of the request if it was bytes. */
  readonly fingerprintBytes?: {
    /** The bytes in base64. */
    readonly base64: string;
  };
  /** What the work or its policy threw in the end. */
  readonly error: {
    /** The name of the error. */
    readonly name: string;
    /** The message of the error. */
    readonly message: string;
    /** The code of the error, if it had one. */
    readonly code?: string | number;
  };
  /** Invocations of the work in the call that failed. */
  readonly attempts: number;
  /** Milliseconds since the epoch. */
  readonly failedAt: number;
  /** How many replays have failed. */
  readonly replays: number;
  /** A JSON copy made when the operation failed; absent if JSON cannot represent it. */
  readonly context?: unknown;
  /** A JSON copy of the arguments; absent if JSON cannot represent them. */
  readonly args?: unknown;
}

/** May be async. If it throws, the call is not affected, and the guard's observers get `dead-letter-lost`. */
export type DeadLetters = (entry: DeadLetter) => unknown;

/** What the dead letter of an operation is made of, and where it is sent. */
export interface DeadLetterSource {
  readonly send: DeadLetters | undefined;
  /** The entry that is being replayed. */
  readonly previous: DeadLetter | undefined;
  /** The fingerprint as it was before the work could change it. */
  readonly meaning: Pick<DeadLetter, "fingerprint" | "fingerprintBytes">;
  readonly context: unknown;
  readonly args: unknown;
}

/** How long a caller waits for `deadLetters` to accept the entry. */
const ACCEPT_MS = 5_000;

export function createDeadLetter(
  { operation, domain, scope, key }: RunRequest,
  { previous, meaning, context, args }: DeadLetterSource,
  error: unknown,
  attempts: number,
): DeadLetter {
  return parseJson(
    JSON.stringify({
      id: previous?.id ?? newUuid(),
      operation,
      domain,
      scope,
      key: typeof key === "string" ? key : key.text,
      ...meaning,
      error: describeError(error),
      attempts,
      failedAt: Date.now(),
      replays: previous === undefined ? 0 : previous.replays + 1,
      context: previous === undefined ? asJson(context) : previous.context,
      args: previous === undefined ? asJson(args) : previous.args,
    }),
  ) as DeadLetter;
}

export function copyFingerprint(fingerprint: unknown): DeadLetterSource["meaning"] {
  if (fingerprint instanceof Uint8Array) return { fingerprintBytes: { base64: toBase64(fingerprint) } };
  return { fingerprint: asJson(fingerprint) };
}

/** Resolves with undefined after the letter was accepted, or else with the reason: what `send` threw, or a timeout. */
export function deliver(
  send: DeadLetters,
  entry: DeadLetter,
): Promise<{ readonly cause: unknown } | undefined> {
  return new Promise((resolve) => {
    const late = { cause: new Error(`deadLetters did not accept the entry within ${ACCEPT_MS} ms`) };
    const cancel = systemTimer.after(ACCEPT_MS, () => resolve(late));
    const taken = (async () => send(entry))();
    taken
      .then(
        () => resolve(undefined),
        (cause: unknown) => resolve({ cause }),
      )
      .finally(cancel);
  });
}

/** The request of the dead letter. Throws `options-invalid` for a value that is not a dead letter. */
export function requestFromLetter(entry: DeadLetter): RunRequest {
  const { id, operation, domain, scope, key, fingerprint, fingerprintBytes, replays } = entry ?? {};
  checkedPart(id, "the dead letter's id", "options-invalid");
  checkedPart(key, "the dead letter's key", "options-invalid");
  checkedPart(operation, "the dead letter's operation", "options-invalid");
  if (!Number.isSafeInteger(replays) || replays < 0)
    throw new NevertwiceError(
      "options-invalid",
      "the dead letter's replays must be a whole number: pass the entry as deadLetters got it.",
    );
  const meaning = fingerprintBytes === undefined ? fingerprint : fromBase64(fingerprintBytes.base64);
  return { operation, domain, scope, key, fingerprint: meaning };
}

function describeError(error: unknown): DeadLetter["error"] {
  try {
    if (!(error instanceof Error)) return { name: typeof error, message: describeThrown(error) };
    const { name, message, code } = error as Error & { readonly code?: unknown };
    const fields = { name: describeThrown(name), message: describeThrown(message) };
    return typeof code === "string" || typeof code === "number" ? { ...fields, code } : fields;
  } catch {
    // A getter of the error threw. The letter still says that something failed.
    return { name: "Error", message: "an error that cannot be read" };
  }
}

/** A thrown value as text. Some thrown objects cannot be converted to a string. */
function describeThrown(thrown: unknown): string {
  return typeof thrown === "object" && thrown !== null
    ? (JSON.stringify(asJson(thrown)) ?? "an object")
    : String(thrown);
}

/** A JSON copy with bigints as digits; undefined if JSON cannot represent the value. */
function asJson(value: unknown): unknown {
  try {
    const text = JSON.stringify(value, (_, part) => (typeof part === "bigint" ? String(part) : part));
    return text === undefined ? undefined : parseJson(text);
  } catch {
    return undefined;
  }
}
