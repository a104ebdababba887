/** The events that a guard sends to its observers. Keys appear only as short hashes; tokens and bodies never appear. */
import { shortHash } from "./identity.ts";
import type { AbandonAs, RecordState } from "./store.ts";

export interface About {
  readonly operation: string;
  /** A short hash of the whole identity. A record can be found by it; the key cannot be read from it. */
  readonly keyHash: string;
}

/**
 * What a guard reports to its observers. Keys appear only as short hashes; tokens and bodies never appear.
 */
export type GuardEvent =
  | (About & {
      /** Which event this is. `claimed`: an attempt got the key and runs the work. */
      readonly kind: "claimed";
      /** The fence of the claim. */
      readonly fence: number;
      /** Which attempt this is: 1 for the first one. */
      readonly number: number;
    })
  /** A duplicate got the stored outcome, or was refused under `onCompleted: "reject"`. */
  | (About & {
      readonly kind: "replayed";
      /** True if the duplicate got an error because of `onCompleted: "reject"`. */
      readonly refused: boolean;
      /** Where the work ran that the duplicate gets the outcome of, as an observer's `origin` said. */
      readonly origin?: string | undefined;
    })
  /** A duplicate learned that the work is done, but what it returned was not stored, or not as a whole. */
  | (About & { readonly kind: "replay-not-kept"; readonly origin?: string | undefined })
  /** A duplicate learned that the work is done, but what is stored cannot be read: `decode` threw, or another program wrote it. */
  | (About & { readonly kind: "replay-unreadable"; readonly origin?: string | undefined })
  /** A duplicate was refused, because the time of the stored response is over (`expired: "refuse"`). */
  | (About & { readonly kind: "replay-expired"; readonly origin?: string | undefined })
  /** Another attempt is doing the work, so the call was refused. */
  | (About & {
      readonly kind: "pending";
      /** How long the other attempt holds the key if it does not renew, in milliseconds. */
      readonly leaseLeftMs: number;
    })
  | (About & {
      readonly kind: "waited";
      /** How long the duplicate waited, in milliseconds. */
      readonly waitedMs: number;
    })
  | (About & {
      readonly kind: "conflict";
      /** The state of the record that has another fingerprint. */
      readonly state: RecordState;
    })
  /** A claim met a record whose outcome is unknown. */
  | (About & { readonly kind: "lapsed" })
  | (About & { readonly kind: "taken-over"; readonly fence: number; readonly number: number })
  /** The claim was renewed and holds for another `leaseMs`. */
  | (About & {
      readonly kind: "renewed";
      readonly fence: number;
      /** The length of the new lease, in milliseconds. */
      readonly leaseMs: number;
    })
  /** A step finished, and the store kept its outcome; `position` counts the steps from 1. `notKept`: why only its end was kept. */
  | (About & {
      readonly kind: "step-kept";
      readonly fence: number;
      /** The name of the step. */
      readonly step: string;
      /** Which step of the work it is, from 1. */
      readonly position: number;
      /** Why only the end of the step was kept, and not what it returned; absent if all was kept. */
      readonly notKept?: string | undefined;
    })
  /** An earlier attempt had finished this step, so it was skipped. */
  | (About & {
      readonly kind: "step-skipped";
      readonly fence: number;
      readonly step: string;
      readonly position: number;
    })
  /** A caller claimed with its own token, but that token had already given the claim up. */
  | (About & { readonly kind: "token-spent" })
  | (About & {
      readonly kind: "lease-lost";
      readonly fence: number;
      /** Why the attempt no longer owns the key. */
      readonly reason: LeaseLostReason;
    })
  | (About & {
      readonly kind: "completed";
      readonly fence: number;
      /** How long the work ran, in milliseconds. */
      readonly ranMs: number;
    })
  | (About & {
      readonly kind: "not-kept";
      readonly fence: number;
      /** Why the outcome could not be stored. */
      readonly detail: string;
    })
  | (About & {
      readonly kind: "abandoned";
      readonly fence: number;
      /** What happened to the key: free again, or its outcome is unknown. */
      readonly as: AbandonAs;
    })
  /** The store did not answer a claim, a completion or a step (the guard keeps trying), or a check (`read`). */
  | (About & {
      readonly kind: "unavailable";
      /** Which call of the store was not answered. */
      readonly during: "claim" | "complete" | "step" | "read";
      /** The error of the store, or of the function that failed. */
      readonly cause: unknown;
    })
  | (About & { readonly kind: "proceeded" })
  | (About & { readonly kind: "possible-duplicate"; readonly reason: string })
  | {
      readonly kind: "purged";
      /** How many expired records were removed. */
      readonly removed: number;
    }
  /** The result of a check (`seen`): what the store said, or what its `lookup` said if that was called. */
  | (About & {
      readonly kind: "checked";
      /** Who knew the answer: the store, or the `lookup` of the check. */
      readonly by: "store" | "lookup";
      /** Whether the mark was there. */
      readonly isSeen: boolean;
    })
  /** `deadLetters` of `protect` threw, or did not accept the entry in time. Only the caller that failed may have the entry. */
  | (About & {
      readonly kind: "dead-letter-lost";
      /** The id of the dead letter that was lost. */
      readonly id: string;
      readonly cause: unknown;
    });

/** `overtaken`: another attempt owns the key. `forgotten`: the store has no record of the key. */
export type LeaseLostReason = "not-renewed" | "overtaken" | "ran-too-long" | "guard-closed" | "forgotten";

/** May be async. The guard ignores what an observer throws: observing must not break the call. */
export interface Observer {
  (event: GuardEvent): unknown;
  /** Wraps each call, for example in a span. It must run `call` once and immediately, and settle after `call` has settled. */
  readonly around?: <
    T extends {
      /** How the call ended: the `status` of its `RunResult`. */
      readonly status: string;
    },
  >(
    subject: About,
    call: () => Promise<T>,
  ) => Promise<unknown>;
  /** Where the work that has just ended ran: up to 128 printable ASCII characters. It is stored with the outcome and reported with each replay. */
  readonly origin?: () => string | undefined;
}

type WithoutAbout<Event> = Event extends About ? Omit<Event, keyof About> : never;

/** An event without the names that `About` has. */
export type EventDetails = WithoutAbout<GuardEvent>;

export type EmitEvent = (event: GuardEvent) => void;

export function observersIn(given: unknown): readonly Observer[] {
  return given === undefined ? [] : Array.isArray(given) ? given : [given as Observer];
}

/** Undefined if there is no observer: then no event object is created. */
export function createEmit(observers: readonly Observer[]): EmitEvent | undefined {
  if (observers.length === 0) return undefined;
  return (event) => {
    for (const observer of observers) harmless(() => observer(event));
  };
}

export type Around = <T extends { readonly status: string }>(
  subject: About,
  call: () => Promise<T>,
) => Promise<T>;

/** Runs the call once inside the `around` of every observer, whatever these do. Undefined if no observer has one. */
export function createAround(observers: readonly Observer[]): Around | undefined {
  const [first, ...rest] = observers.filter(({ around }) => around !== undefined);
  if (first === undefined) return undefined;
  const inner = createAround(rest);
  return (subject, call) => {
    let made: ReturnType<typeof call> | undefined;
    const once = () => {
      made ??= inner === undefined ? call() : inner(subject, call);
      return made;
    };
    harmless(() => first.around?.(subject, once));
    return once();
  };
}

const ORIGIN = /^[\x20-\x7e]{1,128}$/;

/** The first valid origin that an observer gives. Undefined if no observer has `origin`. */
export function createOrigin(observers: readonly Observer[]): (() => string | undefined) | undefined {
  const sources = observers.filter(({ origin }) => origin !== undefined);
  if (sources.length === 0) return undefined;
  return () => {
    const origins = sources.map((source) => harmless(() => source.origin?.()));
    return origins.find((text): text is string => typeof text === "string" && ORIGIN.test(text));
  };
}

/** Calls `watch` and returns what it returns. What it throws or rejects with is ignored. */
export function harmless(watch: () => unknown): unknown {
  try {
    const answer = watch();
    if (answer instanceof Promise) answer.catch(() => {});
    return answer;
  } catch {
    return undefined;
  }
}

export function about(identity: {
  readonly id: string;
  readonly parts: { readonly operation: string };
}): About {
  return { operation: identity.parts.operation, keyHash: shortHash(identity.id) };
}
