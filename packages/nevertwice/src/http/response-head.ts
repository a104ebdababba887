/**
 * The head of node's response while its body is held back. Over HTTP/1 node stores a head and sends it with the first
 * byte, so storing it early makes everything that the handler sees true: `headersSent`, and headers that can no longer
 * be set. HTTP/2 sends it at once; there it stays unsent, and only looks as if it had gone.
 */
import type { OutgoingHttpHeader } from "node:http";
import type { HeaderLine } from "./exchange.ts";
import { type GivenHeaders, type HeaderPair, isHttp2, type NodeResponse } from "./node-response.ts";

/** The headers among the arguments of `writeHead`. */
export function givenIn(
  reason: string | GivenHeaders | null | undefined,
  headers: GivenHeaders | null | undefined,
): GivenHeaders | undefined {
  return headers ?? (typeof reason === "string" ? undefined : (reason ?? undefined));
}

/** All lines of the head as it stands, with those given on top of it. Names are in lower case. */
export function linesOf(res: NodeResponse, given: GivenHeaders | undefined): HeaderLine[] {
  const lines: HeaderLine[] = [];
  const headers = res.getHeaders();
  const pairs = given === undefined ? undefined : pairsOf(given);
  const replaced = pairs === undefined ? undefined : new Set(pairs.map(([name]) => name.toLowerCase()));
  for (const name in headers) if (!replaced?.has(name)) pushLines(lines, name, headers[name]);
  if (pairs !== undefined) for (const [name, value] of pairs) pushLines(lines, name.toLowerCase(), value);
  return lines;
}

function pushLines(lines: HeaderLine[], name: string, value: OutgoingHttpHeader | undefined): void {
  if (typeof value === "string") lines.push([name, value]);
  else if (Array.isArray(value)) for (const one of value) lines.push([name, String(one)]);
  else if (value !== undefined) lines.push([name, String(value)]);
}

function pairsOf(given: GivenHeaders): readonly HeaderPair[] {
  if (!Array.isArray(given)) return Object.entries(given) as [string, OutgoingHttpHeader][];
  if (Array.isArray(given[0])) return given as readonly HeaderPair[];
  const pairs: HeaderPair[] = [];
  for (let i = 0; i + 1 < given.length; i += 2) pairs.push([String(given[i]), given[i + 1]]);
  return pairs;
}

/** A header's values, joined. */
export function valueIn(lines: readonly HeaderLine[], name: string): string | undefined {
  let joined: string | undefined;
  for (const [line, value] of lines) {
    if (line === name) joined = joined === undefined ? value : `${joined}, ${value}`;
  }
  return joined;
}

/** Whether node sends the head as soon as it is written, past the capture. An Expect header makes it do so. */
export function isSentAtOnce(lines: readonly HeaderLine[]): boolean {
  return lines.some(([name]) => name === "expect");
}

/** Puts all lines of a head among the other headers, but for an Expect, which an answer has no use for. */
export function mergeHead(
  res: NodeResponse,
  given: GivenHeaders | undefined,
  added: readonly HeaderLine[],
): void {
  if (given !== undefined) mergeGiven(res, given);
  appendLines(res, added);
  res.removeHeader("expect");
}

/** Puts what `writeHead` was given among the other headers, where more can be added to it. */
function mergeGiven(res: NodeResponse, given: GivenHeaders): void {
  const pairs = pairsOf(given);
  for (const [name] of pairs) res.removeHeader(name);
  for (const [name, value] of pairs) res.appendHeader(name, value);
}

/** Further values of their names, beside those that the application set. */
function appendLines(res: NodeResponse, lines: readonly HeaderLine[]): void {
  for (const [name, value] of lines) res.appendHeader(name, value);
}

/** Adds lines to whatever head will be written, in the moment before it is: so nobody sets over them. */
export function appendToHead(res: NodeResponse, lines: readonly HeaderLine[]): void {
  const { writeHead } = res;
  res.writeHead = (status, reason, headers) => {
    res.writeHead = writeHead;
    const given = givenIn(reason, headers);
    if (given !== undefined) mergeGiven(res, given);
    appendLines(res, lines);
    return res.writeHead(status, typeof reason === "string" ? reason : undefined);
  };
}

const SETTERS = ["setHeader", "setHeaders", "appendHeader", "removeHeader"];
const SENT = ["headersSent", "writableEnded", "finished"];

/** Over HTTP/2: the head is fixed from now on, and looks sent. */
export function freezeHead(res: NodeResponse, isEnded: () => boolean): void {
  const refuse = () => {
    const error = new Error("Response has already been initiated.");
    throw Object.assign(error, { code: "ERR_HTTP2_HEADERS_SENT" });
  };
  for (const name of SETTERS) Object.defineProperty(res, name, { value: refuse, configurable: true });
  for (const name of SENT) {
    Object.defineProperty(res, name, {
      get: name === "headersSent" ? () => true : isEnded,
      configurable: true,
    });
  }
}

export function thawHead(res: NodeResponse): void {
  for (const name of [...SETTERS, ...SENT]) Reflect.deleteProperty(res, name);
}

/** As if nothing had been answered: no head, and no headers but those named. */
export function resetHead(res: NodeResponse, kept: readonly string[]): void {
  const { sendDate } = res;
  if (!isHttp2(res)) res._header = null;
  for (const name of res.getHeaderNames()) if (!kept.includes(name)) res.removeHeader(name);
  res.statusCode = 200;
  // Removing a header also says that node is not to add it by itself.
  res.sendDate = sendDate;
  if (isHttp2(res)) return;
  res._removedConnection = false;
  res._removedContLen = false;
  res._removedTE = false;
  res.statusMessage = undefined;
  res.chunkedEncoding = false;
  res._contentLength = null;
  res._hasBody = res.req.method !== "HEAD";
  res._last = false;
  res._trailer = "";
}
