/**
 * Node's request in the shape of the exchange, for every framework that is built on it. `readBody` reads an unread body
 * and puts it back before the stream has emitted its end, so that a later parser finds the stream untouched. Of a body
 * that an earlier parser has read, it takes the parsed value.
 *
 * `new NodeRequest(native, req, { target?, parsed?, route? })`. `readBody` rejects with `ClientGone` if the client disconnects
 * meanwhile. Then nothing was done, and there is no client to respond to.
 *
 * Bundles for the edge contain this file, since the adapter for Hono also runs on Node. So it imports no module of Node, and
 * takes `Buffer` from the global object.
 */
import type { IncomingMessage } from "node:http";
import { NevertwiceError } from "../core/errors.ts";
import type { HttpRequest, RequestBody } from "./http-message.ts";
import type { MatchedRoute } from "./route-path.ts";

/** The object where a parser leaves its result: `req` in Express, `ctx.request` in Koa. */
export interface ParsedBody {
  readonly body?: unknown;
  readonly rawBody?: unknown;
}

export interface NodeRequestOptions {
  /** Path and query as sent. Default: `originalUrl`, which routers do not change, or `url`. */
  readonly target?: string | undefined;
  readonly route?: MatchedRoute | undefined;
  /** Default: the request itself. */
  readonly parsed?: ParsedBody | undefined;
}

type IncomingRequest = IncomingMessage & ParsedBody & { readonly originalUrl?: string };

/** The client has disconnected before anything was done. This is not an error of the application. */
export class ClientGone extends Error {}

export class NodeRequest<Native> implements HttpRequest<Native> {
  readonly native: Native;
  readonly method: string;
  readonly target: string;
  readonly route: MatchedRoute | undefined;
  readonly #req: IncomingRequest;
  readonly #parsed: ParsedBody;
  #headers: IncomingMessage["headers"] | undefined;

  constructor(native: Native, req: IncomingMessage, { target, parsed, route }: NodeRequestOptions = {}) {
    const incoming = req as IncomingRequest;
    this.native = native;
    this.method = incoming.method ?? "GET";
    this.target = target ?? incoming.originalUrl ?? incoming.url ?? "/";
    this.route = route;
    this.#req = incoming;
    this.#parsed = parsed ?? incoming;
  }

  header(name: string): string | undefined {
    this.#headers ??= this.#req.headers;
    const value = this.#headers[name];
    return Array.isArray(value) ? value.join(", ") : value;
  }

  countLines(name: string): number {
    // Names and values in turn. Servers that only imitate Node's request may have none, and then no line is counted.
    return (this.#req.rawHeaders ?? []).filter((each, i) => i % 2 === 0 && each.toLowerCase() === name)
      .length;
  }

  readBody(maxBytes: number): RequestBody | "too-large" | Promise<RequestBody | "too-large"> {
    return isRead(this.#req) ? this.#readByParser(maxBytes) : this.#readUnread(maxBytes);
  }

  async #readUnread(maxBytes: number): Promise<RequestBody | "too-large"> {
    const req = this.#req;
    if (declaredLength(req) > maxBytes) return tooLarge(req);
    // A body that arrived together with the head is complete after one microtask. That saves the listeners.
    if (!hasAll(req)) await undefined;
    const body = hasAll(req) ? readAtOnce(req, maxBytes) : await readAsItComes(req, maxBytes);
    // Over HTTP/2, the stream of an aborted body ends like that of a whole one.
    if (req.aborted) throw clientGone();
    return body;
  }

  /** Also true if the client has closed its half of the connection: Node then closes the other half without a response. */
  isGone(): boolean {
    const { socket } = this.#req;
    return this.#req.aborted || socket?.destroyed === true || socket?.writable === false;
  }

  #readByParser(maxBytes: number): RequestBody | "too-large" {
    const { body, rawBody } = this.#parsed;
    const raw = typeof rawBody === "string" ? Buffer.from(rawBody) : rawBody;
    const bytes = [raw, body].find((value) => value instanceof Uint8Array);
    if (bytes !== undefined) return bytes.length > maxBytes ? "too-large" : { kind: "bytes", bytes };
    if (declaredLength(this.#req) > maxBytes) return "too-large";
    if (this.header("content-type")?.toLowerCase().startsWith("multipart/")) {
      throw misplaced(
        "its files are no longer available, so it cannot be compared with another body",
        "in front of the upload parser",
      );
    }
    if (body !== undefined) return { kind: "parsed", value: body };
    if (hasNone(this.#req)) return NO_BODY;
    throw misplaced(
      "no parsed value was left",
      "in front of that reader, or leave the value in body or rawBody",
    );
  }
}

function clientGone(): ClientGone {
  return new ClientGone("the client disconnected before its request was complete.");
}

const NO_BODY: RequestBody = { kind: "bytes", bytes: new Uint8Array() };

function misplaced(why: string, remedy: string): NevertwiceError {
  return new NevertwiceError(
    "options-invalid",
    `the request's body was read before this layer, and ${why}. Mount this layer ${remedy}, or set fingerprint: "none".`,
  );
}

/** Whether another reader has read from the stream, or is reading it now. */
function isRead(req: IncomingRequest): boolean {
  return req.readableEnded || req.readableDidRead || req.readableFlowing === true;
}

/** Whether the whole body has arrived, read or unread. `readableEnded` would also require that it was read. */
function hasAll(req: IncomingRequest): boolean {
  return readableState(req).ended;
}

function readableState(req: IncomingRequest): { readonly ended: boolean; dataEmitted: boolean } {
  return (req as unknown as { _readableState: { ended: boolean; dataEmitted: boolean } })._readableState;
}

function hasNone({ headers }: IncomingRequest): boolean {
  return headers["transfer-encoding"] === undefined && Number(headers["content-length"] ?? 0) === 0;
}

function declaredLength({ headers }: IncomingRequest): number {
  return Number(headers["content-length"] ?? 0);
}

/** Discards the rest of the body, so that the client reads the response and the connection can be used again. */
function tooLarge(req: IncomingRequest): "too-large" {
  req.resume();
  return "too-large";
}

function readAtOnce(req: IncomingRequest, maxBytes: number): RequestBody | "too-large" {
  // Reading an empty stream would make it emit its end, which cannot be undone.
  if (req.readableLength === 0) return NO_BODY;
  if (req.readableLength > maxBytes) return tooLarge(req);
  // With its exact length: reading without one prepares the end of the stream, although the body is put back.
  return putBack(req, [req.read(req.readableLength)]);
}

function readAsItComes(req: IncomingRequest, maxBytes: number): Promise<RequestBody | "too-large"> {
  return new Promise((resolve, reject) => {
    const chunks: (Buffer | string)[] = [];
    let size = 0;
    const stop = () => {
      req.off("readable", onReadable);
      req.off("close", onClose);
      req.off("error", onClose);
    };
    const onReadable = () => {
      if (req.readableLength > 0) {
        const chunk: Buffer | string = req.read();
        size += chunk.length;
        chunks.push(chunk);
      }
      if (size > maxBytes) {
        stop();
        resolve(tooLarge(req));
      } else if (hasAll(req)) {
        stop();
        resolve(putBack(req, chunks));
      }
    };
    const onClose = () => {
      stop();
      reject(clientGone());
    };
    req.on("readable", onReadable);
    req.on("close", onClose);
    req.on("error", onClose);
    if (req.destroyed) onClose();
  });
}

/** Puts the chunks back into the stream. Its end has not been emitted yet, so it looks as if it had never been read. */
function putBack(req: IncomingRequest, chunks: readonly (Buffer | string)[]): RequestBody {
  const encoding = req.readableEncoding ?? "utf8";
  const [first] = chunks;
  if (first === undefined) return NO_BODY;
  readableState(req).dataEmitted = false;
  if (typeof first === "string") {
    const text = chunks.join("");
    req.unshift(text, encoding);
    return { kind: "bytes", bytes: Buffer.from(text, encoding) };
  }
  const bytes = chunks.length === 1 ? first : Buffer.concat(chunks as Buffer[]);
  req.unshift(bytes);
  return { kind: "bytes", bytes };
}
