/** Why a try failed, in one word, and whether trying again can help. */
import { isDenial } from "./granting.ts";

/** A try took longer than it may. */
export function timeoutError(timeoutMs: number): Error {
  const error = new Error(`the try took longer than ${timeoutMs} ms`);
  error.name = "TimeoutError";
  timeouts.add(error);
  return error;
}

const timeouts = new WeakSet<object>();

function isTimeout(error: unknown): boolean {
  return typeof error === "object" && error !== null && timeouts.has(error);
}

/** What `retry.on` may name of an error, the most telling first: its own tag, its code, its name, and what it is at all. */
function tagsOf(error: unknown): readonly string[] {
  if (isDenial(error)) return ["effect-denied"];
  const { tag, code, name } = (typeof error === "object" && error !== null ? error : {}) as Record<
    string,
    unknown
  >;
  const own = [tag, code, name].filter((text): text is string => typeof text === "string" && text !== "");
  const telling = own.filter((text) => text !== "Error");
  return [
    ...(isTimeout(error) ? ["timeout"] : []),
    ...telling,
    error instanceof Error ? "exception" : "error",
  ];
}

export function reasonOf(error: unknown): string {
  return tagsOf(error)[0] as string;
}

/** Whether a retry that is for `on` is for this error; no reasons at all are all of them. */
export function isRetried(error: unknown, on: readonly string[]): boolean {
  if (isDenial(error)) return false;
  return on.length === 0 || tagsOf(error).some((tag) => on.includes(tag));
}
