/**
 * Checks the head of a request before any other decision. Node's parser refuses most requests that two programs could
 * read differently; this refuses the rest, so that the gateway and the service see the same request.
 */
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { NevertwiceError } from "nevertwice";
import type { ServerConfig } from "../config.ts";
import { countLines, isLoopback, LOOPBACK_NAMES, parseHost } from "../host-header.ts";

/** Node silently drops lines beyond its own limit, so that limit must be higher than this one. */
export const MAX_HEADER_LINES = 256;

/** Throws `request-invalid`. */
export function checkHead({ rawHeaders, headers, httpVersion }: IncomingMessage): void {
  if (httpVersion !== "1.1" && httpVersion !== "1.0")
    throw invalid("a version of HTTP other than 1.1 and 1.0");
  if (rawHeaders.length > 2 * MAX_HEADER_LINES) throw invalid(`more than ${MAX_HEADER_LINES} header lines`);
  const hosts = countLines(rawHeaders, "host");
  if (hosts > 1 || (hosts === 0 && httpVersion !== "1.0")) throw invalid(`${hosts} Host headers`);
  if (hosts === 1 && parseHost(headers.host ?? "") === undefined) throw invalid("an invalid Host header");
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
    throw invalid("more than one header for the length of its body");
  // Another coding would be lost on the way: the service would get an encoded body without its Transfer-Encoding.
  if (encodings === 1 && encoding?.toLowerCase() !== "chunked")
    throw invalid("a Transfer-Encoding other than chunked");
  if (encodings === 1 && httpVersion === "1.0")
    throw invalid("a Transfer-Encoding, which HTTP/1.0 does not have");
}

function invalid(what: string): NevertwiceError {
  return new NevertwiceError("request-invalid", `the request has ${what}. Nothing was done.`);
}

/**
 * Checks the Host header of a gateway that listens on loopback: otherwise a page of another site could have its own name
 * resolve to this machine and reach it. A gateway for other machines accepts all names, since only the service knows
 * them.
 */
export function checkHostName(
  config: Pick<ServerConfig, "gatewayListen" | "allowHost">,
): (req: IncomingMessage) => void {
  const { gatewayListen, allowHost } = config;
  if (!isLoopback(gatewayListen.host)) return () => {};
  const allowed = new Set([...LOOPBACK_NAMES, ...allowHost.map((host) => host.toLowerCase())]);
  if (isIP(gatewayListen.host) === 4) allowed.add(gatewayListen.host);
  return ({ headers }) => {
    if (allowed.has(parseHost(headers.host ?? "")?.name ?? "")) return;
    throw new NevertwiceError(
      "not-authorized",
      "the Host header does not name this gateway; if the name is right, start the server with --allow-host NAME.",
    );
  };
}
