/** Node's response as we see it: what we replace of it, and what its types do not tell. */
import { type OutgoingHttpHeader, type OutgoingHttpHeaders, ServerResponse } from "node:http";
import type { Callback, Chunk, Encoding } from "./held-body.ts";

/** The forms in which `writeHead` takes headers: by name, in turn, or in pairs. */
export type GivenHeaders = OutgoingHttpHeaders | readonly OutgoingHttpHeader[] | readonly HeaderPair[];
export type HeaderPair = readonly [name: string, value: OutgoingHttpHeader];

/** The methods that send something, or tell of it. */
export interface ResponseMethods {
  write(chunk: Chunk, encoding?: Encoding | Callback, callback?: Callback): boolean;
  end(chunk?: Chunk | Callback | null, encoding?: Encoding | Callback, callback?: Callback): unknown;
  writeHead(status: number, reason?: string | GivenHeaders, given?: GivenHeaders): unknown;
  flushHeaders(): void;
  destroy(error?: Error): unknown;
  emit(event: string, ...args: unknown[]): boolean;
}

export interface NodeResponse extends ResponseMethods {
  readonly req: { readonly httpVersionMajor: number; readonly method?: string };
  readonly headersSent: boolean;
  statusCode: number;
  statusMessage: string | undefined;
  sendDate: boolean;
  chunkedEncoding: boolean;
  getHeaders(): OutgoingHttpHeaders;
  getHeaderNames(): string[];
  appendHeader(name: string, value: OutgoingHttpHeader): unknown;
  removeHeader(name: string): void;
  socket: { readonly destroyed: boolean } | null;
  /** Only over HTTP/2. */
  readonly stream?: { readonly destroyed: boolean };
  destroyed: boolean;
  finished: boolean;
  _header: string | null;
  _send(data: string, encoding: "latin1"): boolean;
  _contentLength: number | null;
  _hasBody: boolean;
  _last: boolean;
  _closed: boolean;
  _removedConnection: boolean;
  _removedContLen: boolean;
  _removedTE: boolean;
  _trailer: string;
  _maxListeners: number | undefined;
}

export function nodeResponse(res: ServerResponse): NodeResponse {
  return res as unknown as NodeResponse;
}

export function isHttp2(res: NodeResponse): boolean {
  return res.req.httpVersionMajor === 2;
}

/** Whether nobody is there to be answered. */
export function isClosed(res: NodeResponse): boolean {
  return isHttp2(res) ? res.stream?.destroyed === true : res.destroyed || res.socket?.destroyed === true;
}

/** Whether its status has a body at all; what is written to one without is dropped. */
export function hasBody(res: NodeResponse): boolean {
  return isHttp2(res) ? ![204, 205, 304].includes(res.statusCode) : res._hasBody;
}

export function methodsOf({
  write,
  end,
  writeHead,
  flushHeaders,
  destroy,
  emit,
}: ResponseMethods): ResponseMethods {
  return { write, end, writeHead, flushHeaders, destroy, emit };
}

export function putMethods(res: ResponseMethods, methods: ResponseMethods): void {
  res.write = methods.write;
  res.end = methods.end;
  res.writeHead = methods.writeHead;
  res.flushHeaders = methods.flushHeaders;
  res.destroy = methods.destroy;
  res.emit = methods.emit;
}

/** Puts `before` back wherever nobody has put something else in the place of `after`. */
export function takeMethods(res: ResponseMethods, after: ResponseMethods, before: ResponseMethods): void {
  if (res.write === after.write) res.write = before.write;
  if (res.end === after.end) res.end = before.end;
  if (res.writeHead === after.writeHead) res.writeHead = before.writeHead;
  if (res.flushHeaders === after.flushHeaders) res.flushHeaders = before.flushHeaders;
  if (res.destroy === after.destroy) res.destroy = before.destroy;
  if (res.emit === after.emit) res.emit = before.emit;
}

/**
 * Express changes the prototype of every response. V8 then makes a hidden class for every further property of each, at
 * microseconds apiece, and nothing that reads them is ever warm. Without hidden classes all that is cheap; an object
 * loses them with a property, and this one says nothing while it is undefined. Measured: a fifth of a request.
 */
export function makeExtensible(res: NodeResponse): void {
  if (Object.getPrototypeOf(res) === ServerResponse.prototype || res._maxListeners !== undefined) return;
  Reflect.deleteProperty(res, "_maxListeners");
}
