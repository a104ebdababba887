/** One run of the work under one claim: what the work is handed, and what its return or throw means. */
import { NevertwiceError } from "./errors.ts";
import { deriveKey } from "./identity.ts";
import type { Lease } from "./lease.ts";
import { encodeOutcome, notKept } from "./outcome.ts";
import type { Decision, FailureDisposition } from "./policy.ts";
import type { Call } from "./request.ts";
import type { AbandonAs } from "./store.ts";

/** What the work is handed. */
export interface Attempt {
  /** Grows with every claim of this key: hand it to whatever can refuse a lower one. 0 if the claim could not be made (`onUnavailable: "proceed"`). */
  readonly fence: number;
  /** 1 for the first attempt, 2 if an earlier one failed or was lost. */
  readonly number: number;
  /** Fires when the claim is lost: stop before the next effect. */
  readonly signal: AbortSignal;
  /** A key for another system, the same on every attempt. Throws `lease-lost` once the claim is lost. */
  deriveKey(name: string): string;
  /** Renews the claim at once, beside the renewals that are made by themselves. False if it is lost; rejects if the store does not answer. */
  renew(): Promise<boolean>;
  /** `throw attempt.notDone(cause)` says that nothing happened: the key is free again, and the caller gets `cause`. */
  notDone(cause?: unknown): Error;
}

export type Work<T> = (attempt: Attempt) => T | PromiseLike<T>;

/** How an attempt ended, and so what the store is to be told. */
export type Ending =
  | {
      readonly kind: "complete";
      /** What is to be kept. */
      readonly outcome: string;
      /** Set if `outcome` only says that it is done. */
      readonly notKept: string | undefined;
      readonly content: { readonly value: unknown } | { readonly thrown: unknown };
    }
  | { readonly kind: "abandon"; readonly as: AbandonAs; readonly thrown: unknown };

/** How an outcome is to be kept: how much of it, and with what its observer says of where it came from. */
export interface Keeping {
  readonly maxOutcomeBytes: number;
  readonly origin?: string | undefined;
}

/** Errors made by `notDone`, and the attempt that made each. */
const notDoneBy = new WeakMap<object, Attempt>();

/** A class for its one lazy member: an accessor in an object literal costs more to make than all the rest. */
class HandedAttempt implements Attempt {
  readonly fence: number;
  readonly number: number;
  readonly deriveKey: (name: string) => string;
  readonly notDone: (cause?: unknown) => Error;
  readonly #lease: Lease;

  constructor(call: Call, lease: Lease, fence: number, number: number) {
    this.fence = fence;
    this.number = number;
    this.#lease = lease;
    this.deriveKey = (name) => {
      if (lease.isLost())
        throw new NevertwiceError("lease-lost", "this attempt lost its claim; start no further effect.");
      return deriveKey(call.identity.parts, name);
    };
    this.notDone = (cause) => {
      const error = new Error("nothing was done", { cause });
      notDoneBy.set(error, this);
      return error;
    };
  }

  get signal(): AbortSignal {
    return this.#lease.signal();
  }

  renew(): Promise<boolean> {
    return this.#lease.renew();
  }
}

export function createAttempt(call: Call, lease: Lease, fence: number, number: number): Attempt {
  return new HandedAttempt(call, lease, fence, number);
}

/** The work returned. What cannot be kept is still done: it is completed without its value, never run again. */
export function endingOfValue(value: unknown, keeping: Keeping, shorten?: Call["shorten"]): Ending {
  const ending = completion("value", value, keeping);
  if (ending.notKept === undefined || shorten === undefined) return ending;
  return { ...ending, outcome: shortened(value, shorten, keeping) ?? ending.outcome };
}

/** What is kept instead of a value that cannot be, if that can. */
function shortened(
  value: unknown,
  shorten: (value: never) => unknown,
  { maxOutcomeBytes, origin }: Keeping,
): string | undefined {
  try {
    const encoded = encodeOutcome("value", shorten(value as never), maxOutcomeBytes, origin);
    return encoded.kept ? encoded.text : undefined;
  } catch {
    // Whoever was to shorten it failed; that it is done is kept all the same.
    return undefined;
  }
}

/** The work threw: the key is released, the error remembered, or nobody knows. */
export function endingOfThrow(
  thrown: unknown,
  call: Call,
  attempt: Attempt,
  lease: Lease,
  keeping: Keeping,
): Ending {
  if (typeof thrown === "object" && thrown !== null && notDoneBy.get(thrown) === attempt) {
    return { kind: "abandon", as: "released", thrown: (thrown as Error).cause ?? thrown };
  }
  // The effect may have happened and its confirmation been cut off: that is not known to have failed.
  if (lease.isLost() || call.signal?.aborted) return { kind: "abandon", as: "unknown", thrown };
  switch (dispositionOf(thrown, call)) {
    case "remember":
      return completion("thrown", thrown, keeping);
    case "release":
      return { kind: "abandon", as: "released", thrown };
    default:
      return { kind: "abandon", as: "unknown", thrown };
  }
}

/** Somebody looked, and says how an earlier attempt ended. What is no decision leaves the outcome unknown. */
export function endingOfDecision(
  decision: Decision | { readonly status: "unknown" },
  maxOutcomeBytes: number,
): Ending {
  switch (decision?.status) {
    case "done":
      return completion("value", decision.value, { maxOutcomeBytes });
    case "failed":
      return completion("thrown", decision.error, { maxOutcomeBytes });
    case "not-done":
      return { kind: "abandon", as: "released", thrown: undefined };
    default:
      return { kind: "abandon", as: "unrun", thrown: undefined };
  }
}

function dispositionOf(thrown: unknown, call: Call): FailureDisposition {
  const { onFailure } = call.policy;
  if (typeof onFailure !== "function") return onFailure;
  try {
    return onFailure(thrown);
  } catch {
    // Whoever should have judged the failure could not: so nobody knows.
    return "unknown";
  }
}

function completion(
  kind: "value" | "thrown",
  content: unknown,
  { maxOutcomeBytes, origin }: Keeping,
): Ending & { kind: "complete" } {
  const encoded = encodeOutcome(kind, content, maxOutcomeBytes, origin);
  // What the first caller gets is what a replay gives, if there is one.
  const given = encoded.kept ? encoded.content : content;
  return {
    kind: "complete",
    outcome: encoded.kept ? encoded.text : notKept(encoded.reason),
    notKept: encoded.kept ? undefined : encoded.detail,
    content: kind === "value" ? { value: given } : { thrown: withStackOf(given, content) },
  };
}

/** The first caller's copy of a remembered error still says where it was thrown. */
function withStackOf(copy: unknown, original: unknown): unknown {
  if (copy !== original && copy instanceof Error && original instanceof Error) {
    Object.defineProperty(copy, "stack", { value: original.stack, configurable: true, writable: true });
  }
  return copy;
}
