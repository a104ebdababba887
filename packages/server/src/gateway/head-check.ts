/**
 * What the head of a request must be before anything else is decided by it. Node's parser has refused most of what two
 * programs could read differently; this refuses the rest, so that the request that is judged is the one that is sent on.
 */
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { NevertwiceError } from "nevertwice";
import type { ServerConfig } from "../config.ts";
import { isLoopback, LOOPBACK } from "../gatekeeper.ts";
import { countLines, parseHost } from "../host-header.ts";

/** Node drops what is beyond its own limit without a word, so that limit must be higher than this one. */
export const MAX_HEADER_LINES = 256;

/** Throws `request-invalid`. */
export function checkHead({ rawHeaders, headers, httpVersion }: IncomingMessage): void {
  if (httpVersion !== "1.1" && httpVersion !== "1.0")
    throw invalid("a version of HTTP other than 1.1 and 1.0");
  if (rawHeaders.length > 2 * MAX_HEADER_LINES) throw invalid(`more than ${MAX_HEADER_LINES} header lines`);
  const hosts = countLines(rawHeaders, "host");
  if (hosts > 1 || (hosts === 0 && httpVersion !== "1.0")) throw invalid(`${hosts} Host headers`);
  if (hosts === 1 && parseHost(headers.host ?? "") === undefined) throw invalid("a Host that is no host");
  checkFraming(rawHeaders, headers["transfer-encoding"], httpVersion);
}

function checkFraming(
  rawHeaders: readonly string[],
  encoding: string | undefined,
  httpVersion: string,
): void {
  const lengths = countLines(rawHeaders, "content-length");
  const encodings = countLines(rawHeaders, "transfer-encoding");
  if (lengths > 1 || encodings > 1 || (lengths > 0 && encodings > 0))
    throw invalid("more than one header that says how long its body is");
  // Any other coding would be taken off on the way, and the service would get a body that was encoded without saying so.
  if (encodings === 1 && encoding?.toLowerCase() !== "chunked")
    throw invalid("a Transfer-Encoding other than chunked");
  if (encodings === 1 && httpVersion === "1.0")
    throw invalid("a Transfer-Encoding, which HTTP/1.0 does not have");
}

function invalid(what: string): NevertwiceError {
  return new NevertwiceError("request-invalid", `the request has ${what}. Nothing was done.`);
}

/**
 * A page of a stranger can have its own name point at this machine, and so reach what listens for this machine alone.
 * A listener for others is called by names that only the service knows.
 */
export function checkHostName(
  config: Pick<ServerConfig, "gatewayListen" | "allowHost">,
): (req: IncomingMessage) => void {
  const { gatewayListen, allowHost } = config;
  if (!isLoopback(gatewayListen.host)) return () => {};
  const allowed = new Set([...LOOPBACK, ...allowHost.map((host) => host.toLowerCase())]);
  if (isIP(gatewayListen.host) === 4) allowed.add(gatewayListen.host);
  return ({ headers }) => {
    if (allowed.has(parseHost(headers.host ?? "")?.name ?? "")) return;
    throw new NevertwiceError(
      "not-authorized",
      "the Host of the request is not a name of this gateway; start it with --allow-host NAME if it is.",
    );
  };
}
