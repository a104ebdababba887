/** The errors between a client, the gateway and the service, and how they are sent to the client. */
import { type ServerResponse, STATUS_CODES } from "node:http";
import { isNevertwiceError, NevertwiceError } from "nevertwice";
import { problemAnswer } from "nevertwice/http";

/** The gateway answers under the host name of the service, so the type of a problem is a URN and not a path. */
export const PROBLEMS = {
  problemBase: "urn:nevertwice:error:",
  documentation: "https://github.com/nevertwice/nevertwice/blob/main/docs/errors.md#",
} as const;

/** The request never reached the service. */
export function upstreamUnreachableError(cause: unknown): NevertwiceError {
  return new NevertwiceError(
    "upstream-unreachable",
    "the service behind this gateway cannot be reached. Nothing was done; send the same request again.",
    { cause },
  );
}

/** The address of the service and the client's request cannot be combined to a valid request. */
export function unsendableError(cause: unknown): NevertwiceError {
  return new NevertwiceError("request-invalid", "the request cannot be forwarded to the service.", { cause });
}

/** The request was sent, and its outcome is unknown. */
export function upstreamLostError(why: string, cause?: unknown): NevertwiceError {
  return new NevertwiceError(
    "upstream-lost",
    `${why}. It is unknown whether the service carried out the request; the gateway did not send it again.`,
    { cause },
  );
}

export function isUpstreamLost(error: unknown): boolean {
  return isNevertwiceError(error, "upstream-lost");
}

/** Whether the parser refused the request; false if the connection broke or its TLS handshake failed. */
export function isParserError(error: Error): boolean {
  return /^(HPE_|ERR_HTTP_REQUEST_TIMEOUT$)/.test((error as { readonly code?: string }).code ?? "");
}

/** The error for a request that node's parser could not read. */
export function unreadableRequestError(cause: Error): NevertwiceError {
  const { code } = cause as { readonly code?: string };
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return requestTimeoutError();
  const what = code === "HPE_HEADER_OVERFLOW" ? "its headers are too large" : "it is not HTTP/1.1";
  return new NevertwiceError("request-invalid", `the request cannot be read: ${what}. Nothing was done.`, {
    cause,
  });
}

/** The client started a request and did not finish it. */
export function requestTimeoutError(): NevertwiceError {
  return new NevertwiceError(
    "request-timeout",
    "the rest of the request did not arrive in time. Nothing was done; send the same request again.",
  );
}

/** The gateway has no room for further request bodies. */
export function bodiesFullError(): NevertwiceError {
  return new NevertwiceError(
    "unavailable",
    "the gateway has no room for further request bodies. Nothing was done; send the same request again later.",
  );
}

/** Sends the error if no response has started, else closes the connection. Never throws. */
export function answerFailure(res: ServerResponse, error: unknown): void {
  if (res.headersSent || res.destroyed || res.writableEnded) {
    if (!res.writableFinished) res.destroy();
    return;
  }
  const { status, headers, body } = toProblem(error);
  try {
    for (const name of res.getHeaderNames()) res.removeHeader(name);
    for (const [name, value] of headers) res.setHeader(name, value);
    const bytes = Buffer.from(body);
    res.setHeader("Content-Length", bytes.length);
    res.writeHead(status, STATUS_CODES[status] ?? "").end(bytes);
  } catch {
    // Other code has ended the response, so the error cannot be sent.
    res.destroy();
  }
}

/** The text of the response for a bare socket, which is closed afterwards. */
export function rawProblem(error: unknown): string {
  const { status, headers, body } = toProblem(error);
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const length = Buffer.byteLength(body);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${lines}content-length: ${length}\r\nconnection: close\r\n\r\n${body}`;
}

function toProblem(error: unknown): ReturnType<typeof problemAnswer> {
  const known = isNevertwiceError(error)
    ? error
    : new NevertwiceError("internal-error", "the gateway failed.", { cause: error });
  return problemAnswer(known, PROBLEMS);
}
