/** Refusals as errors of tRPC, which its clients get with a code. */
import { isNevertwiceError, type NevertwiceError } from "../../core/errors.ts";
import { harmless } from "../../core/observer.ts";
import { HTTP_DEFAULTS } from "../options.ts";
import { describeProblem, type Problem, retryAfterSeconds } from "../problem.ts";

/** tRPC's codes, by HTTP status. */
const CODES: Readonly<Record<number, string>> = {
  400: "BAD_REQUEST",
  401: "UNAUTHORIZED",
  403: "FORBIDDEN",
  404: "NOT_FOUND",
  408: "TIMEOUT",
  409: "CONFLICT",
  413: "PAYLOAD_TOO_LARGE",
  422: "UNPROCESSABLE_CONTENT",
  429: "TOO_MANY_REQUESTS",
  501: "NOT_IMPLEMENTED",
  502: "BAD_GATEWAY",
  503: "SERVICE_UNAVAILABLE",
};

/** What a client has to know about a refusal. */
export interface TrpcProblem extends Problem {
  /** How long to wait before a retry, in seconds; undefined if a retry is useless. */
  readonly retryAfterSeconds?: number | undefined;
}

/** tRPC recognises its errors by their name, so that two copies of it can work together. */
class TrpcRefusal extends Error {
  override readonly name = "TRPCError";
  readonly code: string;
  override readonly cause: NevertwiceError;

  constructor(problem: Problem, cause: NevertwiceError) {
    super(`${problem.code}: ${problem.detail}`);
    this.code = CODES[problem.status] ?? "INTERNAL_SERVER_ERROR";
    this.cause = cause;
  }
}

/** `own` returns the application's own error. If it fails, the refusal has our form: it must reach the client. */
export function toTrpcError(
  error: NevertwiceError,
  own: ((problem: TrpcProblem) => Error | undefined) | undefined,
): Error {
  const replaced = own && harmless(() => own(withRetryAfter(toProblem(error))));
  return replaced instanceof Error ? replaced : new TrpcRefusal(toProblem(error), error);
}

/** The refusal behind an error, for tRPC's `errorFormatter`; undefined for any other error. */
export function readProblem(error: unknown): TrpcProblem | undefined {
  if (!(error instanceof TrpcRefusal) || !isNevertwiceError(error.cause)) return undefined;
  return withRetryAfter(toProblem(error.cause));
}

function withRetryAfter(problem: Problem): TrpcProblem {
  return { ...problem, retryAfterSeconds: retryAfterSeconds(problem.code, problem.elapsedMs) };
}

function toProblem(error: NevertwiceError): Problem {
  const { problemBase, documentation } = HTTP_DEFAULTS;
  return describeProblem(error, { problemBase, documentation, style: {} });
}
