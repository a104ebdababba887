/**
 * A guard that is switched off: the same engine over a store that grants every claim and keeps nothing. Requests and
 * options are checked as ever, so that a mistake in them does not wait until the guard is switched on again.
 */
import { systemClock } from "../core/clock.ts";
import { type GuardEvent, type Observer, observersIn } from "../core/observer.ts";
import { isFunction } from "../core/policy.ts";
import type { Store } from "../core/store.ts";

export function offStore(): Store {
  let lastFence = 0;

  // As the stores do it, so that fences go on growing when the guard is switched on or off.
  function nextFence(): number {
    lastFence = Math.max(lastFence + 1, Math.floor(systemClock.now() * 1_000));
    return lastFence;
  }

  return {
    async claim({ takeover }) {
      // Nothing is ever lapsed here, so there is nothing to take over.
      if (takeover !== undefined) return { status: "pending", leaseLeftMs: 0 };
      return { status: "new", fence: nextFence(), number: 1, tookOver: false };
    },
    complete: async () => true,
    abandon: async () => true,
    renew: async () => true,
    read: async () => undefined,
    purge: async () => ({ removed: 0, more: false }),
    close: async () => {},
    list: async () => ({ records: [] }),
    forget: async () => false,
    collectsItself: true,
  };
}

/** The same observers, told of each run that it proceeded unguarded. */
export function toldUnguarded(observer: unknown): readonly Observer[] {
  return observersIn(observer).map((told) => {
    isFunction("observer", told);
    const unguarded = (event: GuardEvent) => told(asUnguarded(event));
    const around = told.around?.bind(told);
    return around === undefined ? unguarded : Object.assign(unguarded, { around });
  });
}

function asUnguarded(event: GuardEvent): GuardEvent {
  if (event.kind !== "claimed") return event;
  const { operation, keyHash } = event;
  return { operation, keyHash, kind: "proceeded" };
}
