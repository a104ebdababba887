/** What can go wrong between the gateway and the service, and what the client is told. */
import type { ServerResponse } from "node:http";
import { isNevertwiceError, NevertwiceError } from "nevertwice";
import { problemAnswer } from "nevertwice/http";

/** The gateway has the service's name, so its problems are named by themselves and not by a path. */
export const PROBLEMS = {
  problemBase: "urn:nevertwice:error:",
  documentation: "https://github.com/nevertwice/nevertwice/blob/main/docs/errors.md#",
} as const;

/** Nothing has reached the service. */
export function unreachable(cause: unknown): NevertwiceError {
  return new NevertwiceError(
    "upstream-unreachable",
    "the service behind this gateway cannot be reached. Nothing was done; send the same request again.",
    { cause },
  );
}

/** The service's address and the client's request do not make a request together. */
export function unsendable(cause: unknown): NevertwiceError {
  return new NevertwiceError("request-invalid", "the request cannot be sent on as it is.", { cause });
}

/** The request was on its way, and nobody knows what became of it. */
export function lost(why: string, cause?: unknown): NevertwiceError {
  return new NevertwiceError(
    "upstream-lost",
    `${why}. Whether the request was carried out is not known, and the gateway did not send it again.`,
    { cause },
  );
}

export function isLost(error: unknown): boolean {
  return isNevertwiceError(error, "upstream-lost");
}

/** Answers what has not been answered, and cuts off what was begun. */
export function answerFailure(res: ServerResponse, error: unknown): void {
  if (res.headersSent || res.destroyed) {
    res.destroy();
    return;
  }
  const { status, headers, body } = problemOf(error);
  for (const [name, value] of headers) res.setHeader(name, value);
  res.setHeader("Content-Length", Buffer.byteLength(body));
  res.writeHead(status).end(body);
}

/** The same on a bare socket, which is then closed. */
export function rawProblem(error: unknown): string {
  const { status, headers, body } = problemOf(error);
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const length = Buffer.byteLength(body);
  return `HTTP/1.1 ${status} \r\n${lines}content-length: ${length}\r\nconnection: close\r\n\r\n${body}`;
}

function problemOf(error: unknown): ReturnType<typeof problemAnswer> {
  const known = isNevertwiceError(error)
    ? error
    : new NevertwiceError("internal-error", "the gateway failed.", { cause: error });
  return problemAnswer(known, PROBLEMS);
}
