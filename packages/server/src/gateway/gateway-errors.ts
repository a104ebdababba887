/** The errors between a client, the gateway and the service. refusals.ts sends them. */
import { isNevertwiceError, NevertwiceError } from "nevertwice";

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

/** The request was sent, and its outcome is unknown. For a request without a key, a retry would be a second request. */
export function upstreamLostError(why: string, cause?: unknown): NevertwiceError {
  return new NevertwiceError(
    "upstream-lost",
    `${why}. It is unknown whether the service carried out the request; the gateway did not send it again.`,
    { cause },
  );
}

/**
 * Clients and proxies repeat a request after a 502 by default, and many of them read no header that tells them not to. So a
 * request without a key, whose repetition would be a second request, gets the status that none of them repeats.
 */
const NOT_REPEATED = 422;

/** What an error means for a request that runs again when it is sent again: without a key, on a route that needs one. */
export function asUnrepeatable(error: unknown): unknown {
  return isUpstreamLost(error) ? Object.assign(error as Error, { status: NOT_REPEATED }) : error;
}

/** What an error means for a request that may be sent any number of times. */
export function asRepeatable(error: unknown): unknown {
  return isUpstreamLost(error) ? Object.assign(error as Error, { retryable: true }) : error;
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

/** A gateway of another region has judged the request, and this one judges it otherwise. */
export function disagreeingError(what: string): NevertwiceError {
  return new NevertwiceError(
    "unavailable",
    `the gateways of two regions disagree about ${what} of this request; they need the same routes. Nothing was done.`,
  );
}
