/**
 * Node's request as the exchange sees it, for every framework on top of it. An unread body is read and put back before
 * its end is told, so that any parser after us finds the stream as it was; of a body that was read before us, what its
 * parser left is taken.
 *
 * `new NodeRequest(native, req, { target?, parsed? })`; `readBody` rejects with `NobodyLeft` if the client goes away
 * meanwhile: then nobody is left to answer, and nothing was done.
 */
import { Buffer } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { NevertwiceError } from "../core/errors.ts";
import type { HttpRequest, RequestBody } from "./exchange.ts";

/** Where a parser leaves what it made of the body: `req` in Express, `ctx.request` in Koa. */
export interface ParsedBody {
  readonly body?: unknown;
  readonly rawBody?: unknown;
}

export interface NodeRequestHow {
  /** Path and query as they were sent. Default: `originalUrl`, which routers keep, or `url`. */
  readonly target?: string | undefined;
  /** Default: the request itself. */
  readonly parsed?: ParsedBody | undefined;
}

type Incoming = IncomingMessage & ParsedBody & { readonly originalUrl?: string };

/** Nobody waits for an answer any more, and nothing was done: no error of the application's. */
export class NobodyLeft extends Error {}

export class NodeRequest<Native> implements HttpRequest<Native> {
  readonly native: Native;
  readonly method: string;
  readonly target: string;
  readonly #req: Incoming;
  readonly #parsed: ParsedBody;
  #headers: IncomingMessage["headers"] | undefined;

  constructor(native: Native, req: IncomingMessage, { target, parsed }: NodeRequestHow = {}) {
    const incoming = req as Incoming;
    this.native = native;
    this.method = incoming.method ?? "GET";
    this.target = target ?? incoming.originalUrl ?? incoming.url ?? "/";
    this.#req = incoming;
    this.#parsed = parsed ?? incoming;
  }

  header(name: string): string | undefined {
    this.#headers ??= this.#req.headers;
    const value = this.#headers[name];
    return Array.isArray(value) ? value.join(", ") : value;
  }

  async readBody(maxBytes: number): Promise<RequestBody | "too-large"> {
    const req = this.#req;
    if (isRead(req)) return this.#readByParser(maxBytes);
    if (declaredLength(req) > maxBytes) return tooLarge(req);
    // What came together with the head is there in a moment: no need to listen for it.
    if (!hasAll(req)) await undefined;
    const body = hasAll(req) ? readAtOnce(req, maxBytes) : await readAsItComes(req, maxBytes);
    // Over HTTP/2 half a body ends like a whole one.
    if (req.aborted) throw gone();
    return body;
  }

  /** Also a client that has closed its half: node then closes the other, unanswered. */
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
        "its files are gone, so nobody can tell it from another",
        "before the parser of uploads",
      );
    }
    if (body !== undefined) return { kind: "parsed", value: body };
    if (hasNone(this.#req)) return NO_BODY;
    throw misplaced("nothing is left of it", "before it, or leave what it read in body or rawBody");
  }
}

function gone(): NobodyLeft {
  return new NobodyLeft("the client went away before its request was whole.");
}

const NO_BODY: RequestBody = { kind: "bytes", bytes: new Uint8Array() };

function misplaced(why: string, remedy: string): NevertwiceError {
  return new NevertwiceError(
    "options-invalid",
    `the request's body was read before this layer, and ${why}. Put this layer ${remedy}, or say fingerprint: "none".`,
  );
}

/** Whether somebody has read of it, or is at it. */
function isRead(req: Incoming): boolean {
  return req.readableEnded || req.readableDidRead || req.readableFlowing === true;
}

/** Whether all of it has come, whether or not it was read. The stream's own `readableEnded` says less: it was read. */
function hasAll(req: Incoming): boolean {
  return stateOf(req).ended;
}

function stateOf(req: Incoming): { readonly ended: boolean; dataEmitted: boolean } {
  return (req as unknown as { _readableState: { ended: boolean; dataEmitted: boolean } })._readableState;
}

function hasNone({ headers }: Incoming): boolean {
  return headers["transfer-encoding"] === undefined && Number(headers["content-length"] ?? 0) === 0;
}

function declaredLength({ headers }: Incoming): number {
  return Number(headers["content-length"] ?? 0);
}

/** The rest is read by nobody; it flows away, so that the answer gets through and the connection lives on. */
function tooLarge(req: Incoming): "too-large" {
  req.resume();
  return "too-large";
}

function readAtOnce(req: Incoming, maxBytes: number): RequestBody | "too-large" {
  // To read past the end would tell the end for good.
  if (req.readableLength === 0) return NO_BODY;
  if (req.readableLength > maxBytes) return tooLarge(req);
  return putBack(req, [req.read()]);
}

function readAsItComes(req: Incoming, maxBytes: number): Promise<RequestBody | "too-large"> {
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
      reject(gone());
    };
    req.on("readable", onReadable);
    req.on("close", onClose);
    req.on("error", onClose);
    if (req.destroyed) onClose();
  });
}

/** Gives the stream back what was read of it, before it has told its end: now it was never read. */
function putBack(req: Incoming, chunks: readonly (Buffer | string)[]): RequestBody {
  const encoding = req.readableEncoding ?? "utf8";
  const [first] = chunks;
  if (first === undefined) return NO_BODY;
  stateOf(req).dataEmitted = false;
  if (typeof first === "string") {
    const text = chunks.join("");
    req.unshift(text, encoding);
    return { kind: "bytes", bytes: Buffer.from(text, encoding) };
  }
  const bytes = chunks.length === 1 ? first : Buffer.concat(chunks as Buffer[]);
  req.unshift(bytes);
  return { kind: "bytes", bytes };
}
