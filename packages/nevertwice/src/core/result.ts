/** The result of a call: the values that `tryRun` returns, and the errors that `run` throws for them. */
import type { Ending } from "./ending.ts";
import { type ErrorSubject, isNevertwiceError, NevertwiceError } from "./errors.ts";
import { type Identity, toErrorSubject } from "./identity.ts";
import { decodeOutcome, type NotKeptReason, type Outcome } from "./outcome.ts";
import type { Settlement } from "./round.ts";
import type { SettlementResult } from "./settlement.ts";
import type { RecordState } from "./store.ts";
import { TimedOut } from "./store-call.ts";

/** The result of a call. Every expected ending is a value; only what the work threw is thrown. */
export type RunResult<T> =
  | {
      readonly status: "ran";
      /** What the work returned. For a duplicate, the stored value. */
      readonly value: T;
      /** Whether the store confirmed the outcome in time. If not, the guard keeps trying in the background. */
      readonly recorded: boolean;
    }
  | { readonly status: "replayed"; readonly value: T }
  | { readonly status: "already-done" }
  | {
      readonly status: "pending";
      /** How long the other attempt holds the key if it does not renew, in milliseconds. */
      readonly leaseLeftMs: number;
      /** How long the other attempt has run, by the store's clock, if it is known. */
      readonly elapsedMs?: number | undefined;
    }
  | {
      readonly status: "conflict";
      /** The state of the record that has another fingerprint. */
      readonly state: RecordState;
    }
  /** `reason`: why this attempt could not continue the steps of an earlier one. */
  | {
      readonly status: "unknown";
      /** The fence of the lapsed claim, which `guard.resolve` needs. */
      readonly fence: number;
      /** Why the outcome is unknown, if more is known than that. */
      readonly reason?: string | undefined;
    }
  | {
      readonly status: "unavailable";
      /** Says why the store did not answer; its code is `unavailable`, `store-full` or `store-unsafe`. */
      readonly error: NevertwiceError;
    }
  /** The work ran, but another attempt held the key when the outcome was to be recorded. */
  | { readonly status: "lease-lost"; readonly value: T }
  | { readonly status: "not-kept"; readonly reason: NotKeptReason };

/** The result for the first caller, once the store has answered the completion. */
export function toResult<T>(
  ending: Ending & { kind: "complete" },
  verdict: SettlementResult,
  { isUnclaimed, call }: Settlement,
): RunResult<T> {
  if (verdict.status === "superseded" && !isUnclaimed)
    return replay(decodeOutcome(verdict.outcome), call.decode);
  if ("thrown" in ending.content) throw ending.content.thrown;
  const value = ending.content.value as T;
  if (verdict.status === "overtaken" && !isUnclaimed) return { status: "lease-lost", value };
  return { status: "ran", value, recorded: verdict.status === "recorded" };
}

/** The outcome as the duplicate's own `decode` shows it. */
export function shownOutcome(outcome: Outcome, decode: ((kept: unknown) => unknown) | undefined): Outcome {
  if (decode === undefined || outcome.kind !== "value") return outcome;
  const { origin } = outcome;
  try {
    return { kind: "value", value: decode(outcome.value), origin };
  } catch {
    // The work is done, but its value cannot be shown. This must not look like an error of the work.
    return { kind: "not-kept", reason: "unreadable", origin };
  }
}

/** `decode` comes from the present request. Throws the error of the original. */
export function replay<T>(outcome: Outcome, decode?: (kept: unknown) => unknown): RunResult<T> {
  const shown = shownOutcome(outcome, decode);
  switch (shown.kind) {
    case "value":
      return { status: "replayed", value: shown.value as T };
    case "thrown":
      throw shown.error;
    case "not-kept":
      return { status: "not-kept", reason: shown.reason };
  }
}

export function closed(): NevertwiceError {
  return new NevertwiceError(
    "guard-closed",
    "the guard is closed and takes no new work. Create another guard, or send the request to another process.",
  );
}

/** How long the call waited for the store, its identity, and what the caller should do now. */
interface UnavailableDetails {
  readonly waitedMs?: number | undefined;
  readonly identity?: Identity | undefined;
  readonly advice?: string;
}

/** The store's own error with the identity of this call added; any other error becomes the cause of `unavailable`. */
export function unavailable(
  cause: unknown,
  { waitedMs, identity, advice = "The work was not run; try again." }: UnavailableDetails = {},
): NevertwiceError {
  if (isNevertwiceError(cause)) return identity === undefined ? cause : copyForCall(cause, identity);
  const reason = cause instanceof Error ? cause.message : String(cause);
  const after = waitedMs === undefined ? "" : ` That was the last failure, after ${waitedMs} ms.`;
  const problem = cause instanceof TimedOut ? `${reason}.` : `the store cannot answer: ${reason}.${after}`;
  const subject = identity && toErrorSubject(identity);
  return new NevertwiceError("unavailable", `${problem} ${advice}`, { cause, waitedMs, ...subject });
}

/** A copy with the identity of the call: a store may refuse many calls with the same error object. */
function copyForCall(error: NevertwiceError, identity: Identity): NevertwiceError {
  if (error.keyHash !== undefined) return error;
  const { code, message, stack, cause } = error;
  const details = "cause" in error ? { cause } : {};
  const copy = new NevertwiceError(code, message.slice(`${code}: `.length), details);
  Object.defineProperty(copy, "stack", { value: stack, writable: true, configurable: true });
  const { scopeHash, ...always } = toErrorSubject(identity);
  return Object.assign(copy, error, always, scopeHash !== undefined && { scopeHash });
}

export function refused(error: unknown, details?: UnavailableDetails): RunResult<never> {
  return { status: "unavailable", error: unavailable(error, details) };
}

type RefusedResult = Exclude<RunResult<unknown>, { readonly status: "ran" | "replayed" }>;

/** The call that a refusal belongs to. */
interface RefusedCall {
  readonly identity: Identity;
  /** The same guard is running this key now. */
  readonly isRunningHere: boolean;
}

/** Kept apart from the results, since callers compare, log and store them. */
const refusedCalls = new WeakMap<object, RefusedCall>();

/** A copy of a refusal, or of a result that is not recorded, whose call is remembered. Any other result is returned unchanged. */
export function withCallDetails<T>(
  identity: Identity,
  result: RunResult<T>,
  isRunning: (id: string) => boolean,
): RunResult<T> {
  if (result.status === "replayed" || (result.status === "ran" && result.recorded)) return result;
  // A store may answer many calls with the same object.
  const copy = { ...result };
  refusedCalls.set(copy, { identity, isRunningHere: copy.status === "pending" && isRunning(identity.id) });
  return copy;
}

/** A call from inside its own work waits for itself. Only this message tells the developer so. */
const ITSELF =
  "This process is running that key itself: if the work calls it again, it waits for itself. Give the inner work another key or operation.";

/** The identity of the call for an error about this result; empty for a result that no guard of this copy of the package made. */
export function errorSubjectFor(result: RunResult<unknown>): ErrorSubject {
  const call = refusedCalls.get(result);
  return call === undefined ? {} : toErrorSubject(call.identity);
}

/** The hint for a call that waits for itself, with a space in front; empty for any other call. */
export function itselfHint(result: RunResult<unknown>): string {
  return refusedCalls.get(result)?.isRunningHere ? ` ${ITSELF}` : "";
}

/**
 * The error that `run` throws for a result without a value. It names the operation and the hash of the key.
 * `isForDeveloper` adds a hint for the author of the call that is not meant for clients.
 */
export function toError(result: RefusedResult, isForDeveloper = false): NevertwiceError {
  const subject = errorSubjectFor(result);
  switch (result.status) {
    case "already-done":
      return new NevertwiceError(
        "already-done",
        "the work for this key is done, and the policy refuses duplicates.",
        subject,
      );
    case "pending":
      return new NevertwiceError(
        "pending",
        `another attempt is doing this work; try again later.${isForDeveloper ? itselfHint(result) : ""}`,
        { ...subject, leaseLeftMs: result.leaseLeftMs, elapsedMs: result.elapsedMs },
      );
    case "conflict":
      return new NevertwiceError(
        "conflict",
        "this key was used for a different request; use a new key for new work.",
        { ...subject, state: result.state },
      );
    case "unknown":
      return new NevertwiceError(
        "unknown",
        result.reason ??
          "the outcome of an earlier attempt is unknown: check whether its effect happened, then resolve it.",
        { ...subject, fence: result.fence },
      );
    case "unavailable":
      return result.error;
    case "lease-lost":
      return new NevertwiceError(
        "lease-lost",
        "the work ran, but another attempt held the key when the outcome was to be recorded.",
        subject,
      );
    case "not-kept":
      return new NevertwiceError(
        "not-kept",
        `the work is done and was not repeated, but its outcome cannot be replayed (${result.reason}).`,
        { ...subject, reason: result.reason },
      );
  }
}
