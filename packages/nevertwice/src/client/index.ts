/**
 * `nevertwice/client`: sending what must not happen twice. It runs wherever there is a fetch: browsers, Node, Bun,
 * Deno, Workers.
 */
export { isNevertwiceError, type NevertwiceError } from "../core/errors.ts";
export { createFetch, type KeyedFetch } from "./fetch.ts";
export type { KeyFormat } from "./key.ts";
export type { KeyStorage } from "./key-book.ts";
export type { KeyedRequestInit } from "./outgoing.ts";
export { type ProblemDetails, problemOf } from "./problem.ts";
export type { Fetch, FetchOptions, RetryEvent } from "./settings.ts";
export {
  createSubmission,
  type Submission,
  type SubmissionOptions,
  type SubmissionStatus,
} from "./submission.ts";
export { isNoAnswer, type NoAnswer } from "./tries.ts";
