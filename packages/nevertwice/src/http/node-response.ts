/** Node's response with the methods that the capture replaces and the members that Node's types leave out. */
import type { OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from "node:http";
import type { Callback, Chunk, Encoding } from "./held-body.ts";

/** The forms in which `writeHead` takes headers: an object, a flat list of names and values, or a list of pairs. */
export type GivenHeaders = OutgoingHttpHeaders | readonly OutgoingHttpHeader[] | readonly HeaderPair[];
export type HeaderPair = readonly [name: string, value: OutgoingHttpHeader];

/** The methods that send a part of the response or emit its events. */
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

/** Whether the client can no longer receive the response. */
export function isClosed(res: NodeResponse): boolean {
  return isHttp2(res) ? res.stream?.destroyed === true : res.destroyed || res.socket?.destroyed === true;
}

/** Whether a response with this status has a body. Node drops what is written to one that has none. */
export function hasBody(res: NodeResponse): boolean {
  return isHttp2(res) ? ![204, 205, 304].includes(res.statusCode) : res._hasBody;
}

export function copyMethods({
  write,
  end,
  writeHead,
  flushHeaders,
  destroy,
  emit,
}: ResponseMethods): ResponseMethods {
  return { write, end, writeHead, flushHeaders, destroy, emit };
}

export function replaceMethods(res: ResponseMethods, methods: ResponseMethods): void {
  res.write = methods.write;
  res.end = methods.end;
  res.writeHead = methods.writeHead;
  res.flushHeaders = methods.flushHeaders;
  res.destroy = methods.destroy;
  res.emit = methods.emit;
}

/** Puts each method of `before` back, unless another layer has meanwhile replaced that of `after`. */
export function restoreMethods(res: ResponseMethods, after: ResponseMethods, before: ResponseMethods): void {
  if (res.write === after.write) res.write = before.write;
  if (res.end === after.end) res.end = before.end;
  if (res.writeHead === after.writeHead) res.writeHead = before.writeHead;
  if (res.flushHeaders === after.flushHeaders) res.flushHeaders = before.flushHeaders;
  if (res.destroy === after.destroy) res.destroy = before.destroy;
  if (res.emit === after.emit) res.emit = before.emit;
}

/**
 * Express changes the prototype of every response. V8 then creates a hidden class for every property that is added to
 * each response, which takes microseconds, and inline caches never hit. Deleting a property switches the object to
 * dictionary mode, where adding properties is cheap. `_maxListeners` is undefined by default, so deleting it changes
 * nothing else. Measured: this saves a fifth of the time of a request. `usual` is the prototype of a response that no
 * framework has changed.
 */
export function makeExtensible(res: NodeResponse, usual: ServerResponse): void {
  if (Object.getPrototypeOf(res) === usual || res._maxListeners !== undefined) return;
  Reflect.deleteProperty(res, "_maxListeners");
}
