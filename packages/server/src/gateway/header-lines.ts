/**
 * The header lines that the gateway forwards. It removes headers of one connection and headers that clients must not
 * set, and adds the headers of a proxy. Lines are an array of name, value, name, value, as in node's `rawHeaders`.
 */
import type { IncomingMessage } from "node:http";
import type { BlockList } from "node:net";
import { isListed, plainAddress } from "../client-network.ts";
import { HOP_HEADER } from "../regions/hop.ts";

/** Headers of one connection only (RFC 9110, 7.6.1, and earlier RFCs). */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "proxy-authenticate",
  "proxy-authorization",
  "te",
  "transfer-encoding",
  "upgrade",
  "http2-settings",
]);

/** Headers that only a gateway may send, to the service or to another gateway: every one whose name begins like this. */
const SET_BY_GATEWAY = "nevertwice-";

/** Headers that the gateway sets itself; it appends to the values of a trusted proxy. */
const REWRITTEN: ReadonlySet<string> = new Set([
  "forwarded",
  "x-forwarded-for",
  "x-forwarded-host",
  "x-forwarded-proto",
  "via",
]);

/**
 * Headers by which proxies tell a service the caller, the protocol, the path or the method of a request. Services trust
 * them, so a client must not send them: they could name another path, method or caller than the gateway checked.
 */
const PROXY_HEADERS: readonly RegExp[] = [
  /^(x-)?forwarded(-|$)/,
  /^x-(original|rewrite|envoy-original|ms-client-principal)(-|$)/,
  /^x-(http-)?method(-override)?$/,
  /^(x-)?(real|true-client|client|cluster-client|originating|remote|azure-client|fastly-client|cf-connecting)-ip(v6)?$/,
  /^(cf-connecting-ip(v6)?|x-remote-addr|(x-)?remote-user)$/,
  /^(x-)?(ssl|tls|client)-(cert|client|verify|cipher|protocol)/,
  /^x-(url-)?scheme$/,
  /^front-end-https$/,
];

/** A client cannot remove these by naming them in `Connection`, because the request would get another meaning. */
const NEEDED: ReadonlySet<string> = new Set([
  "host",
  "content-length",
  "content-type",
  "content-encoding",
  "authorization",
  "cookie",
  "idempotency-key",
]);

/** Headers that affect how a message is read, and so must not be trailers. */
const NEVER_TRAILED: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  ...REWRITTEN,
  ...NEEDED,
  "content-range",
  "trailer",
  "expect",
  "set-cookie",
]);

const VIA = "1.1 nevertwice";

export interface RequestLinesOptions {
  /** The Host header to send; undefined sends the client's. */
  readonly host: string | undefined;
  /** Proxies whose forwarding headers are trusted. */
  readonly trusted: BlockList;
  /** Further headers that `Connection` cannot remove, in lower case. */
  readonly kept: ReadonlySet<string>;
  /** The attempt, if the request has a key. */
  readonly attempt: ForwardedAttempt | undefined;
  /** The mark for the gateway of another region. */
  readonly hop?: string | undefined;
  /** Whether the gateway of another region sent the request. */
  readonly isFromGateway?: boolean | undefined;
}

/** By this the service can tell a repeat: a request with a key and a fence that it has seen was repeated behind the gateway. */
export interface ForwardedAttempt {
  /** The same for every attempt at a key, and different for other keys, owners and operations. */
  readonly key: string;
  readonly fence: number;
  readonly number: number;
}

/** The header lines that the service gets. The dispatcher adds the headers that frame the body. */
export function requestLines(req: IncomingMessage, how: RequestLinesOptions): string[] {
  const { rawHeaders } = req;
  const named = connectionNames(req.headers.connection);
  const isTrusted = how.isFromGateway === true || isListed(how.trusted, req.socket.remoteAddress);
  const lines: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    const lower = name.toLowerCase();
    if (
      HOP_BY_HOP.has(lower) ||
      lower.startsWith(SET_BY_GATEWAY) ||
      REWRITTEN.has(lower) ||
      isHandledHere(lower)
    )
      continue;
    // CGI-style services do not distinguish `_` from `-`: such a name could stand for another header.
    if (lower.includes("_")) continue;
    if (!isTrusted && !how.kept.has(lower) && PROXY_HEADERS.some((pattern) => pattern.test(lower))) continue;
    if (lower === "host" && how.host !== undefined) continue;
    if (named?.has(lower) && !NEEDED.has(lower) && !how.kept.has(lower)) continue;
    lines.push(name, rawHeaders[i + 1] as string);
  }
  if (how.host !== undefined) lines.push("Host", how.host);
  addForwarding(lines, req, isTrusted);
  if (how.hop !== undefined) lines.push(HOP_HEADER, how.hop);
  if (how.attempt !== undefined) {
    const { key, fence, number } = how.attempt;
    lines.push(
      "Nevertwice-Key",
      key,
      "Nevertwice-Fence",
      String(fence),
      "Nevertwice-Attempt",
      String(number),
    );
  }
  return lines;
}

/** The gateway answers `Expect` itself, frames the body again, and forwards no request trailers. */
function isHandledHere(lower: string): boolean {
  return lower === "expect" || lower === "content-length" || lower === "trailer";
}

/** The header lines that the client gets, without `Trailer` if it cannot receive trailers. */
export function responseLines(
  rawHeaders: readonly string[],
  canTrail: boolean,
  hasNoBody: boolean,
): string[] {
  const named = connectionNames(headerValue(rawHeaders, "connection"));
  const lines: string[] = [];
  let disposition: string | undefined;
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    const lower = name.toLowerCase();
    // Node sends a head with `Expect` at once, although the layer holds the response back.
    if (HOP_BY_HOP.has(lower) || lower === "via" || lower === "expect") continue;
    if (lower === "trailer" && !canTrail) continue;
    if (lower === "content-length" && hasNoBody) continue;
    if (named?.has(lower) && !NEEDED.has(lower)) continue;
    // After a Content-Length line node would encode its bytes as UTF-8, so it goes first.
    if (lower === "content-disposition" && disposition === undefined)
      disposition = rawHeaders[i + 1] as string;
    else lines.push(name, rawHeaders[i + 1] as string);
  }
  lines.push("Via", appendValue(headerValue(rawHeaders, "via"), VIA));
  return disposition === undefined ? lines : ["Content-Disposition", disposition, ...lines];
}

/** Trailers as pairs, without those that would change how the message is read. */
export function trailerPairs(rawTrailers: readonly string[]): [string, string][] {
  const pairs: [string, string][] = [];
  for (let i = 0; i + 1 < rawTrailers.length; i += 2) {
    const name = rawTrailers[i] as string;
    const lower = name.toLowerCase();
    if (!NEVER_TRAILED.has(lower) && !lower.startsWith(SET_BY_GATEWAY))
      pairs.push([name, rawTrailers[i + 1] as string]);
  }
  return pairs;
}

/** Forwards the values of earlier proxies only if they are trusted, else a client could claim any address. */
function addForwarding(lines: string[], { headers, socket }: IncomingMessage, isTrusted: boolean): void {
  const address = plainAddress(socket.remoteAddress ?? "unknown");
  const proto = "encrypted" in socket ? "https" : "http";
  const before = isTrusted ? headers : {};
  const said = (name: string): string | undefined => [before[name] ?? []].flat().join(", ") || undefined;
  lines.push("X-Forwarded-For", appendValue(said("x-forwarded-for"), address));
  lines.push("X-Forwarded-Proto", said("x-forwarded-proto") ?? proto);
  const host = said("x-forwarded-host") ?? headers.host;
  if (host !== undefined) lines.push("X-Forwarded-Host", host);
  const node = address.includes(":") ? `"[${address}]"` : address;
  const quoted = headers.host === undefined ? "" : `;host="${headers.host}"`;
  lines.push("Forwarded", appendValue(said("forwarded"), `for=${node}${quoted};proto=${proto}`));
  lines.push("Via", appendValue(headers.via, VIA));
}

function appendValue(before: string | undefined, more: string): string {
  return before === undefined ? more : `${before}, ${more}`;
}

function connectionNames(connection: string | undefined): ReadonlySet<string> | undefined {
  if (connection === undefined || connection.toLowerCase() === "keep-alive") return undefined;
  return new Set(connection.split(",").map((name) => name.trim().toLowerCase()));
}

/** The values of all lines with this name, joined by commas. */
export function headerValue(lines: readonly string[], name: string): string | undefined {
  let value: string | undefined;
  for (let i = 0; i + 1 < lines.length; i += 2)
    if (lines[i]?.length === name.length && lines[i]?.toLowerCase() === name)
      value = appendValue(value, lines[i + 1] as string);
  return value;
}
