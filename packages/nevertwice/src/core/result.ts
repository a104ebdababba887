/** What became of a call: the values that `tryRun` answers, and the errors that `run` throws for them. */
import type { Ending } from "./attempt.ts";
import { isNevertwiceError, NevertwiceError } from "./errors.ts";
import { decodeOutcome, type NotKeptReason, type Outcome } from "./outcome.ts";
import type { Settlement, Verdict } from "./settling.ts";
import type { RecordState } from "./store.ts";

/** What became of a call. What is expected is a value; only what the work threw is thrown. */
export type RunResult<T> =
  | {
      readonly status: "ran";
      readonly value: T;
      /** Whether the store confirmed the outcome in time; if not, the guard goes on trying. */
      readonly recorded: boolean;
    }
  | { readonly status: "replayed"; readonly value: T }
  | { readonly status: "already-done" }
  | { readonly status: "pending"; readonly leaseLeftMs: number }
  | { readonly status: "conflict"; readonly state: RecordState }
  | { readonly status: "unknown"; readonly fence: number }
  | { readonly status: "unavailable"; readonly error: NevertwiceError }
  /** The work ran, but another attempt held the key when its outcome was to be recorded. */
  | { readonly status: "lease-lost"; readonly value: T }
  | { readonly status: "not-kept"; readonly reason: NotKeptReason };

/** What the first caller is told, once the store has said where its record stands. */
export function toResult<T>(
  ending: Ending & { kind: "complete" },
  verdict: Verdict,
  { isUnclaimed }: Settlement,
): RunResult<T> {
  if (verdict.status === "superseded" && !isUnclaimed) return replay(decodeOutcome(verdict.outcome));
  if ("thrown" in ending.content) throw ending.content.thrown;
  const value = ending.content.value as T;
  if (verdict.status === "overtaken" && !isUnclaimed) return { status: "lease-lost", value };
  return { status: "ran", value, recorded: verdict.status === "recorded" };
}

export function replay<T>(outcome: Outcome): RunResult<T> {
  switch (outcome.kind) {
    case "value":
      return { status: "replayed", value: outcome.value as T };
    case "thrown":
      throw outcome.error;
    case "not-kept":
      return { status: "not-kept", reason: outcome.reason };
  }
}

export function closed(): NevertwiceError {
  return new NevertwiceError("guard-closed", "the guard is closed and takes no new work.");
}

/** The store's own refusal as it is; anything else becomes `unavailable` with its cause. */
export function unavailable(cause: unknown): NevertwiceError {
  if (isNevertwiceError(cause)) return cause;
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new NevertwiceError(
    "unavailable",
    `the store cannot answer: ${reason}. The work was not run; try again.`,
    { cause },
  );
}

export function refused(error: unknown): RunResult<never> {
  return { status: "unavailable", error: unavailable(error) };
}

type Refusal = Exclude<RunResult<unknown>, { readonly status: "ran" | "replayed" }>;

/** What `run` throws for a result that carries no value. */
export function toError(result: Refusal): NevertwiceError {
  switch (result.status) {
    case "already-done":
      return new NevertwiceError("already-done", "this key is done, and the policy says to refuse it.");
    case "pending":
      return new NevertwiceError("pending", "another attempt is doing this work; try again later.");
    case "conflict":
      return new NevertwiceError(
        "conflict",
        "this key was used for a different request; use a new key for new work.",
      );
    case "unknown":
      return new NevertwiceError(
        "unknown",
        "an earlier attempt ended and nobody knows how; look, then resolve it.",
        { fence: result.fence },
      );
    case "unavailable":
      return result.error;
    case "lease-lost":
      return new NevertwiceError(
        "lease-lost",
        "the work ran, but another attempt held the key when its outcome was to be recorded.",
      );
    case "not-kept":
      return new NevertwiceError(
        "not-kept",
        `the work is done and was not repeated, but its outcome cannot be replayed (${result.reason}).`,
      );
  }
}
