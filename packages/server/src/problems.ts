/** Problem documents (RFC 9457) of the HTTP API. Their `type` is a page of the server that explains the error. */
import type { ServerResponse } from "node:http";
import type { FastifyReply } from "fastify";
import { ERROR_CODES, type ErrorCode, NevertwiceError } from "nevertwice";
import { problemAnswer } from "nevertwice/http";

/** The errors behind problem documents, by the response. A document leaves out what only the operator may know. */
const errors = new WeakMap<object, NevertwiceError>();

/** Relative, so that it works under every host name of the server. */
const PROBLEM_BASE = "/errors/";

/** Browsers must not guess the content type, and caches must not store the response, unless a page overrides this. */
export const ANSWER_HEADERS = { "x-content-type-options": "nosniff", "cache-control": "no-store" } as const;

interface ProblemOverride {
  readonly status?: number;
  readonly retryable?: boolean;
  readonly title?: string;
}

/**
 * Where the HTTP API differs from the HTTP layer of the library. A lost lease is the caller's, not a failure of the
 * server, and repeating the call does not help. An exceeded quota means too many requests, not too many keys.
 */
const OVERRIDES: Partial<Record<ErrorCode, ProblemOverride>> = {
  "lease-lost": { status: 409, retryable: false },
  "quota-exceeded": { title: "Too many requests" },
};

export function problemStatus(code: ErrorCode): number {
  return OVERRIDES[code]?.status ?? ERROR_CODES[code].status;
}

/** An error with a `Retry-After` header. */
export function tooManyRequests(message: string, retryAfterSeconds: number): NevertwiceError {
  return Object.assign(new NevertwiceError("quota-exceeded", message), { retryAfterSeconds });
}

/** `more` adds members to the problem document. */
export function toProblemResponse(
  error: NevertwiceError & { readonly retryAfterSeconds?: number },
  more: Readonly<Record<string, unknown>> = {},
): { readonly headers: Readonly<Record<string, string>>; readonly body: string } {
  const { code, retryAfterSeconds } = error;
  const { headers, body } = problemAnswer(error, { problemBase: PROBLEM_BASE, documentation: undefined });
  return {
    headers: {
      ...Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value])),
      ...ANSWER_HEADERS,
      ...(code === "not-authenticated" && { "www-authenticate": 'Bearer realm="nevertwice"' }),
      ...(retryAfterSeconds !== undefined && { "retry-after": String(retryAfterSeconds) }),
    },
    body: JSON.stringify({ ...(JSON.parse(body) as object), ...OVERRIDES[code], ...more }),
  };
}

export function sendProblem(
  reply: FastifyReply,
  error: NevertwiceError,
  more?: Readonly<Record<string, unknown>>,
): FastifyReply {
  const { headers, body } = toProblemResponse(error, more);
  errors.set(reply.raw, error);
  return reply.code(problemStatus(error.code)).headers(headers).send(body);
}

/** The error behind the problem document that was sent as this response; undefined for other responses. */
export function sentError(response: ServerResponse): NevertwiceError | undefined {
  return errors.get(response);
}
