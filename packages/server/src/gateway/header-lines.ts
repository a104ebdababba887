/**
 * The header lines that go through the gateway: what belongs to one connection stays on it, what a client must not say
 * is taken away, and what a proxy adds is added. Lines are name and value in turn, as node has them and takes them.
 */
import type { IncomingMessage } from "node:http";
import type { BlockList } from "node:net";
import { isListed, plainAddress } from "../client-network.ts";

/** Of one connection only (RFC 9110, 7.6.1, and what came before it). */
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

/** What the gateway alone says to the service. */
const OURS: ReadonlySet<string> = new Set(["nevertwice-fence"]);

/** Set by the gateway itself; what a trusted proxy said stands before it. */
const REWRITTEN: ReadonlySet<string> = new Set([
  "forwarded",
  "x-forwarded-for",
  "x-forwarded-host",
  "x-forwarded-proto",
  "via",
]);

/**
 * Headers by which proxies tell a service who calls, how, and what for. A service believes them, so a client must not
 * send them: they would name another path or method than the one that was judged, or another caller.
 */
const SAID_BY_PROXIES: readonly RegExp[] = [
  /^(x-)?forwarded(-|$)/,
  /^x-(original|rewrite|envoy-original|ms-client-principal)(-|$)/,
  /^x-(http-)?method(-override)?$/,
  /^(x-)?(real|true-client|client|cluster-client|originating|remote|azure-client|fastly-client|cf-connecting)-ip(v6)?$/,
  /^(cf-connecting-ip(v6)?|x-remote-addr|(x-)?remote-user)$/,
  /^(x-)?(ssl|tls|client)-(cert|client|verify|cipher|protocol)/,
  /^x-(url-)?scheme$/,
  /^front-end-https$/,
];

/** Nobody may have these taken away by naming them in Connection: the message would mean something else. */
const NEEDED: ReadonlySet<string> = new Set([
  "host",
  "content-length",
  "content-type",
  "content-encoding",
  "authorization",
  "cookie",
  "idempotency-key",
]);

/** Fields that say how a message is read; in a trailer they come too late. */
const NEVER_TRAILED: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  ...OURS,
  ...REWRITTEN,
  ...NEEDED,
  "content-range",
  "trailer",
  "expect",
  "set-cookie",
]);

const VIA = "1.1 nevertwice";

export interface RequestLinesHow {
  /** Undefined: the client's own. */
  readonly host: string | undefined;
  /** From where forwarding headers are believed. */
  readonly trusted: BlockList;
  /** Further names that Connection cannot take away, in lower case. */
  readonly kept: ReadonlySet<string>;
  /** Of the attempt, if the request has one. */
  readonly fence: number | undefined;
}

/** The lines of a request as the service gets them. The dispatcher adds the headers that frame the body. */
export function requestLines(req: IncomingMessage, how: RequestLinesHow): string[] {
  const { rawHeaders } = req;
  const named = namedInConnection(req.headers.connection);
  const isTrusted = isListed(how.trusted, req.socket.remoteAddress);
  const lines: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    const lower = name.toLowerCase();
    if (HOP_BY_HOP.has(lower) || OURS.has(lower) || REWRITTEN.has(lower) || isHandledHere(lower)) continue;
    // Services of the CGI family cannot tell `_` from `-`: such a name may be the twin of any other.
    if (lower.includes("_")) continue;
    if (!isTrusted && !how.kept.has(lower) && SAID_BY_PROXIES.some((pattern) => pattern.test(lower)))
      continue;
    if (lower === "host" && how.host !== undefined) continue;
    if (named?.has(lower) && !NEEDED.has(lower) && !how.kept.has(lower)) continue;
    lines.push(name, rawHeaders[i + 1] as string);
  }
  if (how.host !== undefined) lines.push("Host", how.host);
  addForwarding(lines, req, isTrusted);
  if (how.fence !== undefined) lines.push("Nevertwice-Fence", String(how.fence));
  return lines;
}

/** The gateway answers `Expect` itself, frames the body anew, and sends no trailers with a request. */
function isHandledHere(lower: string): boolean {
  return lower === "expect" || lower === "content-length" || lower === "trailer";
}

/** The lines of an answer as the client gets them; without its trailers' names unless it can have trailers. */
export function responseLines(
  rawHeaders: readonly string[],
  canTrail: boolean,
  hasNoBody: boolean,
): string[] {
  const named = namedInConnection(valueIn(rawHeaders, "connection"));
  const lines: string[] = [];
  let disposition: string | undefined;
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    const lower = name.toLowerCase();
    // Node would send a head with an Expect at once, although the layer holds the answer back.
    if (HOP_BY_HOP.has(lower) || lower === "via" || lower === "expect") continue;
    if (lower === "trailer" && !canTrail) continue;
    if (lower === "content-length" && hasNoBody) continue;
    if (named?.has(lower) && !NEEDED.has(lower)) continue;
    // Behind a Content-Length node reads its bytes as UTF-8.
    if (lower === "content-disposition" && disposition === undefined)
      disposition = rawHeaders[i + 1] as string;
    else lines.push(name, rawHeaders[i + 1] as string);
  }
  lines.push("Via", appended(valueIn(rawHeaders, "via"), VIA));
  return disposition === undefined ? lines : ["Content-Disposition", disposition, ...lines];
}

/** Trailers in pairs, without what would change how the message is read. */
export function trailerPairs(rawTrailers: readonly string[]): [string, string][] {
  const pairs: [string, string][] = [];
  for (let i = 0; i + 1 < rawTrailers.length; i += 2) {
    const name = rawTrailers[i] as string;
    if (!NEVER_TRAILED.has(name.toLowerCase())) pairs.push([name, rawTrailers[i + 1] as string]);
  }
  return pairs;
}

/** What others said before is told on only if they are believed: else a client could name any address as its own. */
function addForwarding(lines: string[], { headers, socket }: IncomingMessage, isTrusted: boolean): void {
  const address = plainAddress(socket.remoteAddress ?? "unknown");
  const proto = "encrypted" in socket ? "https" : "http";
  const before = isTrusted ? headers : {};
  const said = (name: string): string | undefined => [before[name] ?? []].flat().join(", ") || undefined;
  lines.push("X-Forwarded-For", appended(said("x-forwarded-for"), address));
  lines.push("X-Forwarded-Proto", said("x-forwarded-proto") ?? proto);
  const host = said("x-forwarded-host") ?? headers.host;
  if (host !== undefined) lines.push("X-Forwarded-Host", host);
  const node = address.includes(":") ? `"[${address}]"` : address;
  const quoted = headers.host === undefined ? "" : `;host="${headers.host}"`;
  lines.push("Forwarded", appended(said("forwarded"), `for=${node}${quoted};proto=${proto}`));
  lines.push("Via", appended(headers.via, VIA));
}

function appended(before: string | undefined, more: string): string {
  return before === undefined ? more : `${before}, ${more}`;
}

function namedInConnection(connection: string | undefined): ReadonlySet<string> | undefined {
  if (connection === undefined || connection.toLowerCase() === "keep-alive") return undefined;
  return new Set(connection.split(",").map((name) => name.trim().toLowerCase()));
}

/** All lines of this name, joined. */
export function valueIn(lines: readonly string[], name: string): string | undefined {
  let value: string | undefined;
  for (let i = 0; i + 1 < lines.length; i += 2)
    if (lines[i]?.length === name.length && lines[i]?.toLowerCase() === name)
      value = appended(value, lines[i + 1] as string);
  return value;
}
