/** Waiting that ends when a signal fires. */
import type { Timer } from "../core/clock.ts";

/** The promise's result, or the signal's reason, whichever comes first: some functions ignore the signal. */
export function untilAborted<T>(signal: AbortSignal | undefined, promise: Promise<T>): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    const leave = () => signal.removeEventListener("abort", stop);
    promise.then(resolve, reject).finally(leave);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop);
  });
}

/** Throws the signal's reason as soon as it fires, and leaves no timer behind. */
export async function pause(timer: Timer, ms: number, signal: AbortSignal | undefined): Promise<void> {
  let stop = () => {};
  const over = new Promise<void>((resolve) => {
    stop = timer.after(ms, resolve);
  });
  await untilAborted(signal, over).finally(stop);
}
