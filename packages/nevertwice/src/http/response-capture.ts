/**
 * Holds back what a handler sends on Node's response. Express, Koa, Fastify and Nest all send on it. The capture replaces
 * the methods of this one response object, and puts them back when it ends.
 *
 * `new ResponseCapture(res, options)` starts holding. `capture.response` resolves when the response is whole, or known to
 * be streamed. Then call exactly one of `release()` (send it), `discard()` (as if the handler had not responded) and, if
 * `capture.isDestroyed`, `abort()` (close the connection, as the handler did).
 */
import { Buffer } from "node:buffer";
import { OutgoingMessage, ServerResponse } from "node:http";
import type { HoldingRules } from "./exchange.ts";
import { GoneClient } from "./gone-client.ts";
import { HeadBytes } from "./head-bytes.ts";
import { type Callback, type Chunk, checkChunk, type Encoding, HeldBody, toBytes } from "./held-body.ts";
import type { HeaderLine, HttpResponse } from "./http-message.ts";
import {
  copyMethods,
  type GivenHeaders,
  hasBody,
  isClosed,
  isHttp2,
  makeExtensible,
  type NodeResponse,
  nodeResponse,
  type ResponseMethods,
  replaceMethods,
  restoreMethods,
} from "./node-response.ts";
import {
  addToStoredHead,
  freezeHead,
  givenIn,
  headLines,
  isSentAtOnce,
  mergeHead,
  resetHead,
  thawHead,
  valueIn,
} from "./response-head.ts";

export interface CaptureOptions {
  readonly exchange: HoldingRules;
  /** Header lines to add to the response. `capture.response` does not contain them. */
  readonly added: readonly HeaderLine[];
  /**
   * How long a response that was begun may take to end after its client has disconnected. Then it counts as streamed:
   * its source may have stopped because of the disconnect.
   */
  readonly goneMs: number;
}

export class ResponseCapture {
  readonly response: Promise<HttpResponse>;
  /** Whether the handler has destroyed its response before it was whole. */
  isDestroyed = false;

  readonly #res: NodeResponse;
  readonly #how: CaptureOptions;
  readonly #isHttp2: boolean;
  readonly #theirs: ResponseMethods;
  readonly #ours: ResponseMethods;
  /** The names of the headers that outer layers had set when the capture began. */
  readonly #headersBefore: readonly string[];
  readonly #body = new HeldBody();
  readonly #headBytes = new HeadBytes();
  #head: Pick<HttpResponse, "status" | "headers"> | undefined;
  #resolve!: (response: HttpResponse) => void;
  #reject!: (error: unknown) => void;
  /** Whether `response` has settled. From then on, writes report backpressure. */
  #isSettled = false;
  #isAside = false;
  #needsDrain = false;
  #destroyedBy: Error | undefined;
  readonly #client: GoneClient;
  #timer: NodeJS.Timeout | undefined;

  constructor(res: ServerResponse, how: CaptureOptions) {
    const captured = nodeResponse(res);
    this.#res = captured;
    this.#how = how;
    this.#isHttp2 = isHttp2(captured);
    this.#client = new GoneClient(captured);
    this.#headersBefore = res.getHeaderNames();
    this.response = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#theirs = copyMethods(captured);
    this.#ours = this.#methods();
    makeExtensible(captured, ServerResponse.prototype);
    replaceMethods(captured, this.#ours);
    if (isClosed(captured)) this.#onGone();
  }

  /** Rejects `response` with what the handler threw, unless it has already settled. */
  fail(error: unknown): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    clearTimeout(this.#timer);
    this.#reject(error);
  }

  /** Sends what is held, with these lines in its head. What the handler writes from now on goes directly to the client. */
  release(added: readonly HeaderLine[] = []): void {
    const res = this.#res;
    const theirs = this.#theirs;
    this.#stepAside();
    if (added.length > 0) addToStoredHead(res, added);
    if (this.#isHttp2) theirs.writeHead.call(res, res.statusCode);
    this.#headBytes.send(res);
    const isReady = this.#body.flush({
      write: (...args) => theirs.write.apply(res, args),
      end: (...args) => theirs.end.apply(res, args),
    });
    if (this.#headBytes.isFlushed && this.#body.size === 0) theirs.flushHeaders.call(res);
    if (isReady && this.#needsDrain && !this.#body.isEnded) res.emit("drain");
    this.#client.emitHeldEvents();
    if (this.isDestroyed) theirs.destroy.call(res, this.#destroyedBy);
  }

  /** Drops what is held, so that another response can be sent. */
  discard(): void {
    this.#stepAside();
    resetHead(this.#res, this.#headersBefore);
    this.#client.emitHeldEvents();
  }

  /** Destroys the response, as the handler did. */
  abort(): void {
    this.#stepAside();
    this.#client.emitHeldEvents();
    this.#theirs.destroy.call(this.#res, this.#destroyedBy);
  }

  /** After the capture has ended, each method forwards its call: another layer may have wrapped it and still call it. */
  #methods(): ResponseMethods {
    const res = this.#res;
    const theirs = this.#theirs;
    return {
      write: (chunk, encoding, callback) => {
        if (this.#isAside) return theirs.write.call(res, chunk, encoding, callback);
        return typeof encoding === "function"
          ? this.#write(chunk, undefined, encoding)
          : this.#write(chunk, encoding, callback);
      },
      end: (chunk, encoding, callback) => {
        if (this.#isAside) return theirs.end.call(res, chunk, encoding, callback);
        if (typeof chunk === "function") this.#end(undefined, undefined, chunk);
        else if (typeof encoding === "function") this.#end(chunk, undefined, encoding);
        else this.#end(chunk, encoding, callback);
        return res;
      },
      writeHead: (status, reason, given) => {
        if (this.#isAside) return theirs.writeHead.call(res, status, reason, given);
        this.#writeHead(status, reason, given);
        return res;
      },
      flushHeaders: () => {
        if (this.#isAside) return theirs.flushHeaders.call(res);
        this.#headBytes.isFlushed = true;
        this.#needHead();
        this.#settle(undefined);
      },
      destroy: (error) => {
        if (this.#isAside) return theirs.destroy.call(res, error);
        this.#destroy(error);
        return res;
      },
      emit: (event, ...args) => {
        if (this.#isAside || !this.#client.holds(event)) return theirs.emit.call(res, event, ...args);
        this.#onGone();
        return true;
      },
    };
  }

  #write(chunk: Chunk, encoding: Encoding, callback: Callback | undefined): boolean {
    const res = this.#res;
    if (this.#body.isEnded) {
      // Node raises its own error for a write after the end.
      return this.#isHttp2
        ? false
        : OutgoingMessage.prototype.write.call(res, chunk, "utf8", callback as never);
    }
    checkChunk(chunk);
    this.#headBytes.follow(chunk, encoding);
    this.#needHead();
    if (hasBody(res)) {
      const bytes = toBytes(chunk, encoding);
      // After its callback, a writer may reuse the same buffer, so it is copied.
      this.#hold(callback === undefined || bytes !== chunk ? bytes : Buffer.from(bytes));
      if (this.#isSettled) {
        this.#body.callBackLater(callback);
        this.#needsDrain = true;
        return false;
      }
    }
    // A writer may wait for its callback before the next write, so the callback cannot wait for the whole response.
    if (callback !== undefined) process.nextTick(callback);
    return true;
  }

  #end(chunk: Chunk | null | undefined, encoding: Encoding, callback: Callback | undefined): void {
    const res = this.#res;
    const body = this.#body;
    if (body.isEnded) {
      if (!this.#isHttp2)
        OutgoingMessage.prototype.end.call(res, chunk, encoding as BufferEncoding, callback as never);
      return;
    }
    if (chunk) checkChunk(chunk);
    const bytes = chunk ? toBytes(chunk, encoding) : undefined;
    this.#headBytes.follow(chunk, encoding);
    // As Node does: a response that is sent in one piece has a Content-Length.
    if (this.#head === undefined && !this.#isHttp2) res._contentLength = bytes?.length ?? 0;
    this.#needHead();
    body.end(bytes !== undefined && hasBody(res) ? bytes : undefined, chunk, encoding);
    body.onFinish(callback);
    if (!this.#isHttp2) res.finished = true;
    if (!this.#isSettled)
      this.#settle(body.size > this.#how.exchange.maxHeldBytes ? undefined : body.whole());
  }

  /** Calls `res.writeHead`, not `#writeHead`: another layer may have wrapped it. */
  #needHead(): void {
    if (this.#head === undefined) this.#res.writeHead(this.#res.statusCode);
  }

  #writeHead(
    status: number,
    reason: string | GivenHeaders | undefined,
    headers: GivenHeaders | undefined,
  ): void {
    const res = this.#res;
    const { added, exchange } = this.#how;
    const given = givenIn(reason, headers);
    // Read before it is written: an outer layer that wraps the response may change the head on its way out.
    const lines = headLines(res, given);
    const isMerged = !res.headersSent && (added.length > 0 || this.#isHttp2 || isSentAtOnce(lines));
    if (isMerged) mergeHead(res, given, added);
    if (this.#isHttp2) {
      res.statusCode = status;
      freezeHead(res, () => this.#body.isEnded);
    } else {
      const rest = isMerged ? undefined : given;
      if (typeof reason === "string") this.#theirs.writeHead.call(res, status, reason, rest);
      else this.#theirs.writeHead.call(res, status, rest);
    }
    this.#head = { status: res.statusCode, headers: lines };
    if (this.#client.isGone) this.#waitForEnd();
    if (!exchange.holds(res.statusCode, (name) => valueIn(lines, name))) this.#settle(undefined);
  }

  #hold(bytes: Uint8Array): void {
    this.#body.add(bytes);
    if (this.#body.size > this.#how.exchange.maxHeldBytes) this.#settle(undefined);
  }

  #settle(body: Uint8Array | undefined): void {
    if (this.#isSettled || this.#head === undefined) return;
    this.#isSettled = true;
    clearTimeout(this.#timer);
    const { status, headers } = this.#head;
    this.#resolve({ status, headers: this.#headBytes.settle(this.#res, headers), body });
  }

  #destroy(error: Error | undefined): void {
    if (this.isDestroyed) return;
    this.isDestroyed = true;
    this.#destroyedBy = error;
    // The source stopped because the client has disconnected. The response that was begun counts as streamed.
    if (this.#client.isGone || isClosed(this.#res)) this.#settle(undefined);
    if (!this.#isHttp2) this.#res.destroyed = true;
    this.fail(error ?? new Error("the handler destroyed its response before it was whole."));
  }

  #onGone(): void {
    this.#client.hide();
    if (this.#head !== undefined) this.#waitForEnd();
  }

  #waitForEnd(): void {
    if (this.#isSettled || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => this.#settle(undefined), this.#how.goneMs);
    this.#timer.unref();
  }

  /** Removes our methods, and everything that made the response look as if it had been sent. */
  #stepAside(): void {
    const res = this.#res;
    this.#isAside = true;
    clearTimeout(this.#timer);
    restoreMethods(res, this.#ours, this.#theirs);
    if (!this.#isHttp2) {
      res.finished = false;
      res.destroyed = false;
    } else if (this.#head !== undefined) thawHead(res);
    this.#client.show();
  }
}
