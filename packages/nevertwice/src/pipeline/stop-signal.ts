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
  const stop = new LinkedStop();
  for (const other of others) if (other !== undefined) stop.link(other);
  return stop;
}

class LinkedStop implements LinkedStopSignal {
  #listeners: Set<(reason: unknown) => void> | undefined;
  #fired: { readonly reason: unknown } | undefined;
  #controller: AbortController | undefined;
  #links: (() => void)[] | undefined;

  get hasFired(): boolean {
    return this.#fired !== undefined;
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#fired !== undefined) this.#controller.abort(this.#fired.reason);
    return this.#controller.signal;
  }

  fire(reason: unknown): void {
    if (this.#fired !== undefined) return;
    this.#fired = { reason };
    this.#controller?.abort(reason);
    const listeners = this.#listeners ?? [];
    this.#listeners = undefined;
    for (const listener of listeners) listener(reason);
  }

  listen(listener: (reason: unknown) => void): () => void {
    if (this.#fired !== undefined) {
      listener(this.#fired.reason);
      return () => {};
    }
    this.#listeners ??= new Set();
    this.#listeners.add(listener);
    return () => void this.#listeners?.delete(listener);
  }

  throwIfFired(): void {
    if (this.#fired !== undefined) throw this.#fired.reason;
  }

  link(other: StopSignal): void {
    this.#unlinkLater(other.listen((reason) => this.fire(reason)));
  }

  follow(signal: AbortSignal): void {
    const fire = () => this.fire(signal.reason);
    if (signal.aborted) fire();
    else {
      signal.addEventListener("abort", fire, { once: true });
      this.#unlinkLater(() => signal.removeEventListener("abort", fire));
    }
  }

  unlink(): void {
    for (const unlink of this.#links ?? []) unlink();
  }

  #unlinkLater(unlink: () => void): void {
    this.#links ??= [];
    this.#links.push(unlink);
  }
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
