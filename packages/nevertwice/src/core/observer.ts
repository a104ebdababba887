/** What a guard tells whoever watches it. Keys appear as short hashes only; tokens and bodies never do. */
import { shortHash } from "./identity.ts";
import type { AbandonAs, RecordState } from "./store.ts";

interface About {
  readonly operation: string;
  /** A short hash of the whole identity: find the key by it, do not read the key from it. */
  readonly keyHash: string;
}

export type GuardEvent =
  | (About & { readonly kind: "claimed"; readonly fence: number; readonly number: number })
  /** A kept outcome was handed back, or, under `onCompleted: "reject"`, refused. */
  | (About & { readonly kind: "replayed"; readonly refused: boolean })
  | (About & { readonly kind: "waited"; readonly waitedMs: number })
  | (About & { readonly kind: "conflict"; readonly state: RecordState })
  /** A claim met a record whose outcome is unknown. */
  | (About & { readonly kind: "lapsed" })
  | (About & { readonly kind: "taken-over"; readonly fence: number; readonly number: number })
  | (About & { readonly kind: "lease-lost"; readonly fence: number; readonly reason: LeaseLostReason })
  | (About & { readonly kind: "completed"; readonly fence: number; readonly ranMs: number })
  | (About & { readonly kind: "not-kept"; readonly fence: number; readonly detail: string })
  | (About & { readonly kind: "abandoned"; readonly fence: number; readonly as: AbandonAs })
  /** The store did not answer: before the work, or when its outcome was to be recorded (it goes on trying). */
  | (About & { readonly kind: "unavailable"; readonly during: "claim" | "complete"; readonly cause: unknown })
  | (About & { readonly kind: "proceeded" })
  | (About & { readonly kind: "possible-duplicate"; readonly reason: string })
  | { readonly kind: "purged"; readonly removed: number };

/** `overtaken`: another attempt owns the key. `forgotten`: the store has no record of it. */
export type LeaseLostReason = "not-renewed" | "overtaken" | "ran-too-long" | "guard-closed" | "forgotten";

/** May be async. Whatever it throws is dropped: watching must not break what is watched. */
export type Observer = (event: GuardEvent) => unknown;

export type Emit = (event: GuardEvent) => void;

/** Undefined if nobody watches: then no event is even made. */
export function createEmit(observer: Observer | undefined): Emit | undefined {
  if (observer === undefined) return undefined;
  return (event) => {
    try {
      const answer = observer(event);
      if (answer instanceof Promise) answer.catch(() => {});
    } catch {
      // An observer that throws breaks nothing.
    }
  };
}

export function about(identity: {
  readonly id: string;
  readonly parts: { readonly operation: string };
}): About {
  return { operation: identity.parts.operation, keyHash: shortHash(identity.id) };
}
