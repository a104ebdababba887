/**
 * The store of a guard that is switched off: it grants every claim and keeps nothing. The engine still checks requests and
 * options, so that a mistake shows before the guard is switched on again.
 */
import { systemClock } from "../core/clock.ts";
import { type GuardEvent, type Observer, observersIn } from "../core/observer.ts";
import { isFunction } from "../core/option-checks.ts";
import type { Store } from "../core/store.ts";

export function offStore(): Store {
  let lastFence = 0;

  // Computed like the fences of other stores, so that fences keep growing when the guard is switched on or off.
  function nextFence(): number {
    lastFence = Math.max(lastFence + 1, Math.floor(systemClock.now() * 1_000));
    return lastFence;
  }

  return {
    async claim({ takeover }) {
      // Nothing lapses here, so there is nothing to take over.
      if (takeover !== undefined) return { status: "pending", leaseLeftMs: 0 };
      return { status: "new", fence: nextFence(), number: 1, tookOver: false };
    },
    complete: async () => true,
    abandon: async () => true,
    renew: async () => true,
    keepStep: async () => true,
    read: async () => undefined,
    purge: async () => ({ removed: 0, more: false }),
    close: async () => {},
    list: async () => ({ records: [] }),
    undecided: async () => ({ count: 0, isComplete: true }),
    namespaces: async () => ({ namespaces: [] }),
    forget: async () => false,
    collectsItself: true,
  };
}

/** The same observers, which get `proceeded` instead of `claimed` for each run. */
export function unguardedObservers(observer: unknown): readonly Observer[] {
  return observersIn(observer).map((original) => {
    isFunction("observer", original);
    const unguarded = (event: GuardEvent) => original(asUnguarded(event));
    const around = original.around?.bind(original);
    return around === undefined ? unguarded : Object.assign(unguarded, { around });
  });
}

function asUnguarded(event: GuardEvent): GuardEvent {
  if (event.kind !== "claimed") return event;
  const { operation, keyHash } = event;
  return { operation, keyHash, kind: "proceeded" };
}
