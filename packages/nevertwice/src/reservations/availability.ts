/** Calls `available` and accepts only true or false: a promise, for example, is truthy and would allow every hold. */
import { NevertwiceError } from "../core/errors.ts";
import type { Availability } from "./store.ts";

const wrongAnswers = new WeakSet<Error>();

export function isAvailable(available: Availability, question: Parameters<Availability>[0]): boolean {
  const answer: unknown = available(question);
  if (typeof answer === "boolean") return answer;
  if (isThenable(answer)) answer.then(undefined, () => {});
  const { name, isDeclared } = question.resource;
  const error = new NevertwiceError(
    "options-invalid",
    `available returned ${describe(answer)} for the ${isDeclared ? "declared" : "undeclared"} resource ${JSON.stringify(name)}; it must return true or false. Nothing was held. ${hintFor(answer)}`,
  );
  wrongAnswers.add(error);
  throw error;
}

function describe(answer: unknown): string {
  if (isThenable(answer)) return "a promise";
  if (typeof answer === "function") return "a function";
  if (typeof answer === "object" && answer !== null) return Array.isArray(answer) ? "a list" : "an object";
  return typeof answer === "string" ? JSON.stringify(answer.slice(0, 40)) : String(answer);
}

function hintFor(answer: unknown): string {
  return isThenable(answer)
    ? "It is called inside a transaction, which cannot wait for a promise: look up what it needs before you call placeHold."
    : "Return a comparison, or Boolean(…).";
}

function isThenable(answer: unknown): answer is PromiseLike<unknown> {
  return typeof (answer as PromiseLike<unknown> | null)?.then === "function";
}

/** Finds the error thrown above among the causes of a store's error. No retry can fix it, so the caller gets this error itself. */
export function findWrongAnswer(error: unknown): NevertwiceError | undefined {
  for (let at = error; at instanceof Error; at = at.cause)
    if (wrongAnswers.has(at)) return at as NevertwiceError;
  return undefined;
}
