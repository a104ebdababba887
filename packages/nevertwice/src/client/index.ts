/**
 * `nevertwice/client`: sends requests that must not run twice. It works wherever there is a fetch: browsers, Node, Bun,
 * Deno, Workers.
 */
export { isNevertwiceError, type NevertwiceError } from "../core/errors.ts";
export { createFetch, type KeyedFetch } from "./fetch.ts";
export type { Fetch, FetchOptions, RetryEvent } from "./fetch-options.ts";
export type { KeyFormat } from "./key.ts";
export type { KeyStorage } from "./key-book.ts";
export type { KeyedRequestInit } from "./outgoing-request.ts";
export { type ProblemDetails, problemOf } from "./problem.ts";
export { isNoAnswer, type NoAnswer } from "./retry-loop.ts";
export {
  createSubmission,
  type Submission,
  type SubmissionOptions,
  type SubmissionStatus,
} from "./submission.ts";
