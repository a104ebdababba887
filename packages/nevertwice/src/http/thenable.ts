/** Whether a value must be awaited. Awaiting one that is there already costs a promise and a turn of the microtask queue. */
export function isThenable<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof (value as PromiseLike<T> | null | undefined)?.then === "function";
}
