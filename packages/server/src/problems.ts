/** What the server itself refuses: problem details, each with the page that explains it. */
import type { FastifyReply } from "fastify";
import { ERROR_CODES, type ErrorCode, type NevertwiceError } from "nevertwice";
import { problemAnswer } from "nevertwice/http";

/** Relative, so that it is right behind every name of the server. */
const PROBLEM_BASE = "/errors/";

/**
 * Where the HTTP API differs from a layer before a handler: the claim is the caller's own, so losing it is no failure of
 * the server, and the same call again changes nothing.
 */
const HERE: Partial<Record<ErrorCode, { readonly status: number; readonly retryable: boolean }>> = {
  "lease-lost": { status: 409, retryable: false },
};

export function statusOf(code: ErrorCode): number {
  return HERE[code]?.status ?? ERROR_CODES[code].status;
}

/** `more` is told with the problem: what the caller needs to go on. */
export function sendProblem(
  reply: FastifyReply,
  error: NevertwiceError,
  more: Readonly<Record<string, unknown>> = {},
): FastifyReply {
  const { code } = error;
  const { headers, body } = problemAnswer(error, { problemBase: PROBLEM_BASE, documentation: undefined });
  if (code === "not-authenticated") reply.header("www-authenticate", 'Bearer realm="nevertwice"');
  for (const [name, value] of headers) reply.header(name, value);
  const problem = { ...(JSON.parse(body) as object), ...HERE[code], ...more };
  return reply.code(statusOf(code)).send(JSON.stringify(problem));
}
