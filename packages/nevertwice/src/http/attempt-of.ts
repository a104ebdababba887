/** Attempts by the object they belong to: how a handler whose signature is not ours to change finds its own. */
import type { HttpAttempt } from "./exchange.ts";

const attempts = new WeakMap<object, HttpAttempt>();

export function attemptFor(native: object): HttpAttempt | undefined {
  return attempts.get(native);
}

export function handAttempt(native: object, attempt: HttpAttempt): void {
  attempts.set(native, attempt);
}
