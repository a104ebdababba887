/** What can go wrong between a client, the gateway and the service, and what the client is told. */
import { type ServerResponse, STATUS_CODES } from "node:http";
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

/** The request was on its way, and its outcome is not known. */
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

/** Whether a connection failed by what was said on it; not if it broke, or if its TLS handshake failed. */
export function isOfParser(error: Error): boolean {
  return /^(HPE_|ERR_HTTP_REQUEST_TIMEOUT$)/.test((error as { readonly code?: string }).code ?? "");
}

/** What node's parser says of a request that it could not read; it has no head that could be judged. */
export function unreadable(cause: Error): NevertwiceError {
  const { code } = cause as { readonly code?: string };
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return stalled();
  const what = code === "HPE_HEADER_OVERFLOW" ? "its head is too large" : "it is not HTTP/1.1";
  return new NevertwiceError("request-invalid", `the request cannot be read: ${what}. Nothing was done.`, {
    cause,
  });
}

/** The client began a request and did not go on. */
export function stalled(): NevertwiceError {
  return new NevertwiceError(
    "request-timeout",
    "the rest of the request did not come in time. Nothing was done; send the same request again.",
  );
}

/** The gateway holds as many bytes of bodies as it may. */
export function crowded(): NevertwiceError {
  return new NevertwiceError(
    "unavailable",
    "the gateway holds as many request bodies as it may. Nothing was done; send the same request again later.",
  );
}

/** Answers what has not been answered, and cuts off what was begun. Never throws. */
export function answerFailure(res: ServerResponse, error: unknown): void {
  if (res.headersSent || res.destroyed || res.writableEnded) {
    if (!res.writableFinished) res.destroy();
    return;
  }
  const { status, headers, body } = problemOf(error);
  try {
    for (const name of res.getHeaderNames()) res.removeHeader(name);
    for (const [name, value] of headers) res.setHeader(name, value);
    const bytes = Buffer.from(body);
    res.setHeader("Content-Length", bytes.length);
    res.writeHead(status, STATUS_CODES[status] ?? "").end(bytes);
  } catch {
    // Something else has taken the response away; there is nobody left to tell.
    res.destroy();
  }
}

/** The same on a bare socket, which is then closed. */
export function rawProblem(error: unknown): string {
  const { status, headers, body } = problemOf(error);
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const length = Buffer.byteLength(body);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${lines}content-length: ${length}\r\nconnection: close\r\n\r\n${body}`;
}

function problemOf(error: unknown): ReturnType<typeof problemAnswer> {
  const known = isNevertwiceError(error)
    ? error
    : new NevertwiceError("internal-error", "the gateway failed.", { cause: error });
  return problemAnswer(known, PROBLEMS);
}
