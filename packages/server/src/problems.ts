/** What the server itself refuses: problem details, each with the page that explains it. */
import type { FastifyReply } from "fastify";
import { ERROR_CODES, type ErrorCode, NevertwiceError } from "nevertwice";
import { problemAnswer } from "nevertwice/http";

/** Relative, so that it is right behind every name of the server. */
const PROBLEM_BASE = "/errors/";

/** No browser guesses a type, and no cache keeps an answer, unless a page says otherwise. */
export const ANSWER_HEADERS = { "x-content-type-options": "nosniff", "cache-control": "no-store" } as const;

interface Difference {
  readonly status?: number;
  readonly retryable?: boolean;
  readonly title?: string;
}

/**
 * Where the HTTP API differs from a layer before a handler. The claim is the caller's own, so losing it is no failure
 * of the server, and the same call again changes nothing. What there is too much of are requests, not keys.
 */
const HERE: Partial<Record<ErrorCode, Difference>> = {
  "lease-lost": { status: 409, retryable: false },
  "quota-exceeded": { title: "Too many requests" },
};

export function statusOf(code: ErrorCode): number {
  return HERE[code]?.status ?? ERROR_CODES[code].status;
}

/** A refusal that says when to come back. */
export function tooManyRequests(message: string, retryAfterSeconds: number): NevertwiceError {
  return Object.assign(new NevertwiceError("quota-exceeded", message), { retryAfterSeconds });
}

/** `more` is told with the problem: what the caller needs to go on. */
export function problemOf(
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
    body: JSON.stringify({ ...(JSON.parse(body) as object), ...HERE[code], ...more }),
  };
}

export function sendProblem(
  reply: FastifyReply,
  error: NevertwiceError,
  more?: Readonly<Record<string, unknown>>,
): FastifyReply {
  const { headers, body } = problemOf(error, more);
  return reply.code(statusOf(error.code)).headers(headers).send(body);
}
