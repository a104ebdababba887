/**
 * A signal that fires once: the network stops, or a try is over. It creates an `AbortSignal` only on demand: most tries
 * never read one, and one `AbortSignal` with a listener for every message in the network would be slow.
 */
import { pause } from "../core/backoff.ts";
import type { Timer } from "../core/clock.ts";

export interface StopSignal {
  readonly hasFired: boolean;
  fire(reason: unknown): void;
  /** Calls the listener immediately if the signal has already fired. Returns a function that removes the listener. */
  listen(listener: (reason: unknown) => void): () => void;
  throwIfFired(): void;
  readonly signal: AbortSignal;
}

export interface LinkedStopSignal extends StopSignal {
  /** Fires when the given signal fires. */
  follow(signal: AbortSignal): void;
  /** Stops following other signals. Call it when this one is no longer needed: the others may live much longer. */
  unlink(): void;
}

/** Fires when `fire` is called, or when one of `others` fires. */
export function createStopSignal(others: readonly (StopSignal | undefined)[] = []): LinkedStopSignal {
  const listeners = new Set<(reason: unknown) => void>();
  let fired: { readonly reason: unknown } | undefined;
  let controller: AbortController | undefined;
  const links: (() => void)[] = [];
  const stop = {
    get hasFired() {
      return fired !== undefined;
    },
    fire(reason: unknown) {
      if (fired !== undefined) return;
      fired = { reason };
      controller?.abort(reason);
      for (const listener of listeners) listener(reason);
      listeners.clear();
    },
    listen(listener: (reason: unknown) => void) {
      if (fired !== undefined) listener(fired.reason);
      else listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    throwIfFired() {
      if (fired !== undefined) throw fired.reason;
    },
    get signal() {
      controller ??= new AbortController();
      if (fired !== undefined) controller.abort(fired.reason);
      return controller.signal;
    },
    follow(signal: AbortSignal) {
      const fire = () => stop.fire(signal.reason);
      if (signal.aborted) return fire();
      signal.addEventListener("abort", fire, { once: true });
      links.push(() => signal.removeEventListener("abort", fire));
    },
    unlink() {
      for (const unlink of links) unlink();
    },
  };
  for (const other of others) if (other !== undefined) links.push(other.listen(stop.fire));
  return stop;
}

/** Resolves after `ms`, or as soon as one of the signals fires. */
export async function pauseUntilStopped(
  timer: Timer,
  ms: number,
  others: readonly (StopSignal | undefined)[],
): Promise<void> {
  const stop = createStopSignal(others);
  await pause(timer, ms, stop.signal);
  stop.unlink();
}
