/**
 * The head of Node's response while its body is held back. Over HTTP/1, Node stores a head and sends it with the first
 * byte of the body. The capture stores it early, so the handler sees what it would see without the layer: `headersSent`
 * is true, and setting a header fails. Over HTTP/2, Node would send the head at once; there it stays unsent, and only
 * looks sent to the handler.
 */
import type { OutgoingHttpHeader } from "node:http";
import type { HeaderLine } from "./http-message.ts";
import { type GivenHeaders, type HeaderPair, isHttp2, type NodeResponse } from "./node-response.ts";

/** The headers among the arguments of `writeHead`. */
export function givenIn(
  reason: string | GivenHeaders | null | undefined,
  headers: GivenHeaders | null | undefined,
): GivenHeaders | undefined {
  return headers ?? (typeof reason === "string" ? undefined : (reason ?? undefined));
}

/** All lines of the head: those that were set, overridden by `given`. Names are in lower case. */
export function headLines(res: NodeResponse, given: GivenHeaders | undefined): HeaderLine[] {
  const lines: HeaderLine[] = [];
  const headers = res.getHeaders();
  const pairs = given === undefined ? undefined : toPairs(given);
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

function toPairs(given: GivenHeaders): readonly HeaderPair[] {
  if (!Array.isArray(given)) return Object.entries(given) as [string, OutgoingHttpHeader][];
  if (Array.isArray(given[0])) return given as readonly HeaderPair[];
  const pairs: HeaderPair[] = [];
  for (let i = 0; i + 1 < given.length; i += 2) pairs.push([String(given[i]), given[i + 1]]);
  return pairs;
}

/** The values of one header, joined by ", ". */
export function valueIn(lines: readonly HeaderLine[], name: string): string | undefined {
  let joined: string | undefined;
  for (const [line, value] of lines) {
    if (line === name) joined = joined === undefined ? value : `${joined}, ${value}`;
  }
  return joined;
}

/** Whether Node would send the head at once when it is written, and so bypass the capture. An `Expect` header causes that. */
export function isSentAtOnce(lines: readonly HeaderLine[]): boolean {
  return lines.some(([name]) => name === "expect");
}

/** Sets all lines of a head on the response, except `Expect`, which has no meaning in a response. */
export function mergeHead(
  res: NodeResponse,
  given: GivenHeaders | undefined,
  added: readonly HeaderLine[],
): void {
  if (given !== undefined) mergeGiven(res, given);
  appendLines(res, added);
  res.removeHeader("expect");
}

/** Sets the headers that `writeHead` received on the response, so that lines can be added to them. */
function mergeGiven(res: NodeResponse, given: GivenHeaders): void {
  const pairs = toPairs(given);
  for (const [name] of pairs) res.removeHeader(name);
  for (const [name, value] of pairs) res.appendHeader(name, value);
}

/** Adds lines to the values that the application has set. */
function appendLines(res: NodeResponse, lines: readonly HeaderLine[]): void {
  for (const [name, value] of lines) res.appendHeader(name, value);
}

/** Adds lines to the head at the moment when it is written, so that a later `setHeader` cannot overwrite them. */
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

/** Adds ASCII lines to a head that is complete, and not yet sent. */
export function addToStoredHead(res: NodeResponse, lines: readonly HeaderLine[]): void {
  if (isHttp2(res)) appendLines(res, lines);
  // In other runtimes, the response of `node:http` may not store a head.
  else if (typeof res._header === "string")
    res._header = `${res._header.slice(0, -2)}${lines.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`;
}

const SETTERS = ["setHeader", "setHeaders", "appendHeader", "removeHeader"];
const SENT = ["headersSent", "writableEnded", "finished"];

/** Over HTTP/2: the head can no longer be changed, and looks sent. */
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

/** Resets the response as if the handler had not responded: no head, and only the headers in `kept`. */
export function resetHead(res: NodeResponse, kept: readonly string[]): void {
  const { sendDate } = res;
  if (!isHttp2(res)) res._header = null;
  for (const name of res.getHeaderNames()) if (!kept.includes(name)) res.removeHeader(name);
  res.statusCode = 200;
  // Removing a header also stops Node from adding it automatically, so these flags are reset.
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
