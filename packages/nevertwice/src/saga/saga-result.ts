/** What a saga answers, and how its completed record is read. */
import type { NevertwiceError } from "../core/errors.ts";
import type { NotKeptReason } from "../core/outcome.ts";
import type { RecordState } from "../core/store.ts";

/**
 * `done`, `undone` and `parked` are the ends of a saga. After `pending`, `unavailable`, `unknown` and `lease-lost` call it
 * again later: it goes on where it was.
 */
export type SagaResult<Outcomes = Record<string, unknown>> =
  /** Every step has run once. */
  | {
      readonly status: "done";
      /** What the steps returned, by their names. */
      readonly outcomes: Readonly<Outcomes>;
    }
  /** A step failed, and what was done is undone. `step` is absent if an operator decided it without a step. */
  | {
      readonly status: "undone";
      /** The step that failed; undefined if none did. */
      readonly step?: string | undefined;
      /** What the step threw. */
      readonly error: unknown;
    }
  /** The undo of `step` kept failing with `error`. An operator decides with `guard.resolve` and this fence. */
  | {
      readonly status: "parked";
      /** The fence of the lapsed claim, which `guard.resolve` needs. */
      readonly fence: number;
      readonly step: string;
      readonly error: unknown;
    }
  /** Another attempt is running the saga. */
  | {
      readonly status: "pending";
      /** How long the other attempt holds the key if it does not renew, in milliseconds. */
      readonly leaseLeftMs: number;
    }
  /** The key was used for another request. */
  | {
      readonly status: "conflict";
      /** The state of the record that has another fingerprint. */
      readonly state: RecordState;
    }
  /** The store cannot answer. */
  | { readonly status: "unavailable"; readonly error: NevertwiceError }
  /**
   * Nothing is decided: a step ended without an answer (`error`), or the steps in the record do not fit this list of steps
   * or cannot be read (`reason`). With `onLapsed: "hold"` an operator decides first.
   */
  | {
      readonly status: "unknown";
      readonly fence: number;
      readonly error?: unknown;
      /** Why the outcome is unknown, if more is known than that. */
      readonly reason?: string | undefined;
    }
  /** This attempt lost its claim. Another one goes on. */
  | { readonly status: "lease-lost" }
  /** The saga has ended, but its record does not say how: it was forgotten, or another program wrote it. */
  | { readonly status: "not-kept"; readonly reason: NotKeptReason };

/** How a saga ended, as the record keeps it. */
export type SagaEnd = Extract<SagaResult, { readonly status: "done" | "undone" }>;

/** Operators and other programs write to the same records, so a replayed value is checked. */
export function readEnd(value: unknown): SagaResult {
  if (isObject(value)) {
    const { status, outcomes = {}, step } = value;
    if (status === "done" && isObject(outcomes)) return { status, outcomes };
    if (status === "undone" && (step === undefined || typeof step === "string"))
      return { status, ...(step !== undefined && { step }), error: errorIn(value) };
  }
  return { status: "not-kept", reason: "unreadable" };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** An operator need not give an error, and a record may have no room for it. */
function errorIn(end: Record<string, unknown>): unknown {
  return "error" in end ? end.error : new Error("this saga was undone, and its error was not kept");
}
