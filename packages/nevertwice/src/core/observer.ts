/** What a guard tells whoever watches it. Keys appear as short hashes only; tokens and bodies never do. */
import { shortHash } from "./identity.ts";
import type { AbandonAs, RecordState } from "./store.ts";

export interface About {
  readonly operation: string;
  /** A short hash of the whole identity: find the key by it, do not read the key from it. */
  readonly keyHash: string;
}

export type GuardEvent =
  | (About & { readonly kind: "claimed"; readonly fence: number; readonly number: number })
  /** A kept outcome was handed back, or, under `onCompleted: "reject"`, refused. */
  | (About & { readonly kind: "replayed"; readonly refused: boolean; readonly origin?: string | undefined })
  /** Another attempt is doing the work, and the caller was told to come back. */
  | (About & { readonly kind: "pending"; readonly leaseLeftMs: number })
  | (About & { readonly kind: "waited"; readonly waitedMs: number })
  | (About & { readonly kind: "conflict"; readonly state: RecordState })
  /** A claim met a record whose outcome is unknown. */
  | (About & { readonly kind: "lapsed" })
  | (About & { readonly kind: "taken-over"; readonly fence: number; readonly number: number })
  | (About & { readonly kind: "lease-lost"; readonly fence: number; readonly reason: LeaseLostReason })
  | (About & { readonly kind: "completed"; readonly fence: number; readonly ranMs: number })
  | (About & { readonly kind: "not-kept"; readonly fence: number; readonly detail: string })
  | (About & { readonly kind: "abandoned"; readonly fence: number; readonly as: AbandonAs })
  /** The store did not answer: before the work, when its outcome was to be recorded (it goes on trying), or to a check. */
  | (About & {
      readonly kind: "unavailable";
      readonly during: "claim" | "complete" | "read";
      readonly cause: unknown;
    })
  | (About & { readonly kind: "proceeded" })
  | (About & { readonly kind: "possible-duplicate"; readonly reason: string })
  | { readonly kind: "purged"; readonly removed: number };

/** `overtaken`: another attempt owns the key. `forgotten`: the store has no record of it. */
export type LeaseLostReason = "not-renewed" | "overtaken" | "ran-too-long" | "guard-closed" | "forgotten";

/** May be async. Whatever it throws is dropped: watching must not break what is watched. */
export interface Observer {
  (event: GuardEvent): unknown;
  /** Stands around each call, so that a span can: it makes `call` once, at once, and answers when that has answered. */
  readonly around?: <T extends { readonly status: string }>(
    subject: About,
    call: () => Promise<T>,
  ) => Promise<unknown>;
  /** Where the work that has just ended ran: up to 128 printable ASCII characters, kept with its outcome and told with its replays. */
  readonly origin?: () => string | undefined;
}

export type Emit = (event: GuardEvent) => void;

export function observersIn(given: unknown): readonly Observer[] {
  return given === undefined ? [] : Array.isArray(given) ? given : [given as Observer];
}

/** Undefined if nobody watches: then no event is even made. */
export function createEmit(observers: readonly Observer[]): Emit | undefined {
  if (observers.length === 0) return undefined;
  return (event) => {
    for (const observer of observers) harmless(() => observer(event));
  };
}

export type Around = <T extends { readonly status: string }>(
  subject: About,
  call: () => Promise<T>,
) => Promise<T>;

/** The call is made once and answers as it does, whatever those around it make of it. Undefined if nobody is. */
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

/** The first that any of them tells. Undefined if none can. */
export function createOrigin(observers: readonly Observer[]): (() => string | undefined) | undefined {
  const tellers = observers.filter(({ origin }) => origin !== undefined);
  if (tellers.length === 0) return undefined;
  return () => {
    const told = tellers.map((teller) => harmless(() => teller.origin?.()));
    return told.find((text): text is string => typeof text === "string" && ORIGIN.test(text));
  };
}

/** What it answers, if it does; what it throws or rejects with is dropped. */
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
