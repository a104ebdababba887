/** Why a try failed, as a short name, and whether a retry can help. */
import { isDenial } from "./effect-grants.ts";

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

/** The names that `retry.on` may use for an error, the most specific first: its tag, code, name, and its general kind. */
function errorTags(error: unknown): readonly string[] {
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

export function failureReason(error: unknown): string {
  return errorTags(error)[0] as string;
}

/** Whether `retry.on` covers this error. An empty list covers every error. */
export function isRetryable(error: unknown, on: readonly string[]): boolean {
  if (isDenial(error)) return false;
  return on.length === 0 || errorTags(error).some((tag) => on.includes(tag));
}
