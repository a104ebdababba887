/**
 * The header lines that go through the gateway: what belongs to one connection stays on it, what a client must not say
 * is taken away, and what a proxy adds is added. Lines are name and value in turn, as node has them and takes them.
 */
import type { IncomingMessage } from "node:http";
import type { BlockList } from "node:net";

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

const FORWARDING: ReadonlySet<string> = new Set([
  "forwarded",
  "x-forwarded-for",
  "x-forwarded-host",
  "x-forwarded-proto",
  "x-forwarded-port",
  "x-real-ip",
]);

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
  ...FORWARDING,
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
  /** Whether the client's wish to be asked for its body goes to the service. */
  readonly expects: boolean;
}

/** The lines of a request as the service gets them. */
export function requestLines(req: IncomingMessage, how: RequestLinesHow): string[] {
  const { rawHeaders } = req;
  const named = namedInConnection(req.headers.connection);
  const isTrusted = isIn(how.trusted, req.socket.remoteAddress);
  const lines: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    const lower = plainName(name);
    if (HOP_BY_HOP.has(lower) || OURS.has(lower) || FORWARDING.has(lower) || lower === "via") continue;
    if (lower === "expect" && !how.expects) continue;
    if (lower === "host" && how.host !== undefined) continue;
    if (named?.has(lower) && !NEEDED.has(lower) && !how.kept.has(lower)) continue;
    lines.push(name, rawHeaders[i + 1] as string);
  }
  if (how.host !== undefined) lines.push("Host", how.host);
  addFraming(lines, req);
  addForwarding(lines, req, isTrusted);
  if (how.fence !== undefined) lines.push("Nevertwice-Fence", String(how.fence));
  return withLengthLast(lines);
}

/** The lines of an answer as the client gets them. */
export function responseLines({ rawHeaders, headers }: IncomingMessage): string[] {
  const named = namedInConnection(headers.connection);
  const lines: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    const lower = name.toLowerCase();
    if (HOP_BY_HOP.has(lower) || lower === "via") continue;
    if (named?.has(lower) && !NEEDED.has(lower)) continue;
    lines.push(name, rawHeaders[i + 1] as string);
  }
  lines.push("Via", appended(headers.via, VIA));
  return withLengthLast(lines);
}

/** Node refuses a `Content-Disposition` beyond ASCII that stands after the length: it has made another text of it. */
function withLengthLast(lines: readonly string[]): string[] {
  const others: string[] = [];
  const length: string[] = [];
  for (let i = 0; i + 1 < lines.length; i += 2) {
    const name = lines[i] as string;
    (name.toLowerCase() === "content-length" ? length : others).push(name, lines[i + 1] as string);
  }
  return [...others, ...length];
}

/** Trailers in pairs, without what would change how the message is read. */
export function trailerPairs({ rawTrailers }: IncomingMessage): [string, string][] {
  const pairs: [string, string][] = [];
  for (let i = 0; i + 1 < rawTrailers.length; i += 2) {
    const name = rawTrailers[i] as string;
    if (!NEVER_TRAILED.has(plainName(name))) pairs.push([name, rawTrailers[i + 1] as string]);
  }
  return pairs;
}

/** Whether a message has a body, by its head. */
export function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

/** A body of unknown length goes on as one; a method that has bodies says when it has none. */
function addFraming(lines: string[], { method = "GET", headers }: IncomingMessage): void {
  if (headers["transfer-encoding"] !== undefined) lines.push("Transfer-Encoding", "chunked");
  else if (headers["content-length"] === undefined && /^P(OST|UT|ATCH)$/.test(method))
    lines.push("Content-Length", "0");
}

/** What others said before is told on only if they are believed: else a client could name any address as its own. */
function addForwarding(lines: string[], { headers, socket }: IncomingMessage, isTrusted: boolean): void {
  const address = plainAddress(socket.remoteAddress);
  const proto = "encrypted" in socket ? "https" : "http";
  const before = isTrusted ? headers : {};
  const said = (name: string): string | undefined => [before[name] ?? []].flat().join(", ") || undefined;
  lines.push("X-Forwarded-For", appended(said("x-forwarded-for"), address));
  lines.push("X-Forwarded-Proto", said("x-forwarded-proto") ?? proto);
  const host = said("x-forwarded-host") ?? headers.host;
  if (host !== undefined) lines.push("X-Forwarded-Host", host);
  const node = address.includes(":") ? `"[${address}]"` : address;
  const quoted = headers.host === undefined ? "" : `;host="${headers.host.replace(/[\\"]/g, "")}"`;
  lines.push("Forwarded", appended(said("forwarded"), `for=${node}${quoted};proto=${proto}`));
  lines.push("Via", appended(headers.via, VIA));
}

function appended(before: string | undefined, more: string): string {
  return before === undefined ? more : `${before}, ${more}`;
}

function namedInConnection(connection: string | undefined): ReadonlySet<string> | undefined {
  if (connection === undefined || connection.toLowerCase() === "keep-alive") return undefined;
  return new Set(connection.split(",").map((name) => plainName(name.trim())));
}

/** Services behind gateways of the CGI family cannot tell `_` from `-`. */
function plainName(name: string): string {
  const lower = name.toLowerCase();
  return lower.includes("_") ? lower.replaceAll("_", "-") : lower;
}

/** Without what says that an address of IPv4 came over IPv6. */
function plainAddress(address = "unknown"): string {
  return address.startsWith("::ffff:") ? address.slice("::ffff:".length) : address;
}

function isIn(list: BlockList, address: string | undefined): boolean {
  if (address === undefined) return false;
  const plain = plainAddress(address);
  return list.check(plain, plain.includes(":") ? "ipv6" : "ipv4");
}
