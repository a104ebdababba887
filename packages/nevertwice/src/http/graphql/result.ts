/** Translates GraphQL results to the responses of the exchange, and its replies back to results. */
import { fromUtf8, toUtf8 } from "#platform";
import { harmless } from "../../core/observer.ts";
import type { HeaderLine, HttpReply, HttpResponse } from "../http-message.ts";
import { findProblem, type Problem } from "../problem.ts";

/** A refusal in the application's own form. Status and `Retry-After` stay. */
export interface OwnError {
  readonly message: string;
  readonly extensions?: Readonly<Record<string, unknown>> | undefined;
}

/** An error as clients get it. */
interface FormattedError {
  readonly message: string;
  readonly path?: readonly (string | number)[] | undefined;
  readonly extensions?: Readonly<Record<string, unknown>> | undefined;
}

export interface GraphqlResult {
  readonly data?: unknown;
  readonly errors?: readonly FormattedError[] | undefined;
  readonly extensions?: Readonly<Record<string, unknown>> | undefined;
}

/** A result, and what the server says beside it. */
export interface GraphqlAnswer {
  readonly status: number;
  readonly headers: readonly HeaderLine[];
  /** Undefined if it is delivered in parts. */
  readonly result: GraphqlResult | undefined;
}

/** `isFailure`: the only root resolver threw, so nothing that came after it counts. */
export function toResponse({ status, headers, result }: GraphqlAnswer, isFailure: boolean): HttpResponse {
  return {
    status,
    headers,
    body: result === undefined ? undefined : toUtf8(JSON.stringify(result)),
    isFailure,
  };
}

/** Undefined also if the function fails: a refusal must be sent. */
function ownError(
  own: ((problem: Problem) => OwnError | undefined) | undefined,
  problem: Problem,
): OwnError | undefined {
  const given = harmless(() => own?.(problem)) as OwnError | undefined;
  return typeof given?.message === "string" ? given : undefined;
}

/** A refusal is an error with a `code`, as Apollo's own errors are, and the problem that other doors send. */
export function toAnswer(
  reply: HttpReply,
  own: ((problem: Problem) => OwnError | undefined) | undefined,
): GraphqlAnswer {
  const { status } = reply;
  const headers = reply.headers.filter(([name]) => !name.toLowerCase().startsWith("content-"));
  const problem = findProblem(reply);
  if (problem === undefined) return { status, headers, result: readResult(reply.body) };
  const replaced = ownError(own, problem);
  if (replaced !== undefined) {
    const { message, extensions } = replaced;
    return { status, headers, result: { errors: [{ message, ...(extensions && { extensions }) }] } };
  }
  const code = `IDEMPOTENCY_${problem.code.replaceAll("-", "_").toUpperCase()}`;
  return {
    status,
    headers,
    result: { errors: [{ message: problem.detail, extensions: { code, problem } }] },
  };
}

function readResult(body: Uint8Array | string): GraphqlResult {
  return JSON.parse(typeof body === "string" ? body : (fromUtf8(body) ?? "null"));
}

/** Whether an error of the result is that of a root field itself, and not of something inside of it. */
export function hasRootError({ errors = [] }: GraphqlResult): boolean {
  return errors.some(({ path }) => path?.length === 1);
}
