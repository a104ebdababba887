/**
 * Something that happens once and that many wait for: the network stops, a try is over. An AbortSignal is made of it only
 * where one is asked for, since most tries look at none, and one that all messages listened to would be slow.
 */
import { pause } from "../core/backoff.ts";
import type { Timer } from "../core/clock.ts";

export interface Bell {
  readonly hasRung: boolean;
  ring(reason: unknown): void;
  /** At once if it has rung. The answer stops listening. */
  listen(listener: (reason: unknown) => void): () => void;
  throwIfRung(): void;
  readonly signal: AbortSignal;
}

export interface LinkedBell extends Bell {
  /** Rings when the signal fires. */
  follow(signal: AbortSignal): void;
  /** For when it is over: what it is linked to may live much longer. */
  unlink(): void;
}

/** Rings with the others too. */
export function createBell(others: readonly (Bell | undefined)[] = []): LinkedBell {
  const listeners = new Set<(reason: unknown) => void>();
  let rung: { readonly reason: unknown } | undefined;
  let controller: AbortController | undefined;
  const links: (() => void)[] = [];
  const bell = {
    get hasRung() {
      return rung !== undefined;
    },
    ring(reason: unknown) {
      if (rung !== undefined) return;
      rung = { reason };
      controller?.abort(reason);
      for (const listener of listeners) listener(reason);
      listeners.clear();
    },
    listen(listener: (reason: unknown) => void) {
      if (rung !== undefined) listener(rung.reason);
      else listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    throwIfRung() {
      if (rung !== undefined) throw rung.reason;
    },
    get signal() {
      controller ??= new AbortController();
      if (rung !== undefined) controller.abort(rung.reason);
      return controller.signal;
    },
    follow(signal: AbortSignal) {
      const ring = () => bell.ring(signal.reason);
      if (signal.aborted) return ring();
      signal.addEventListener("abort", ring, { once: true });
      links.push(() => signal.removeEventListener("abort", ring));
    },
    unlink() {
      for (const unlink of links) unlink();
    },
  };
  for (const other of others) if (other !== undefined) links.push(other.listen(bell.ring));
  return bell;
}

/** Resolves after `ms`, or as soon as one of them rings. */
export async function pauseUnless(
  timer: Timer,
  ms: number,
  others: readonly (Bell | undefined)[],
): Promise<void> {
  const bell = createBell(others);
  await pause(timer, ms, bell.signal);
  bell.unlink();
}
