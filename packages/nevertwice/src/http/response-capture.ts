/**
 * Holds back what a handler answers on node's response until it is let go: Express, Koa, Fastify and Nest all end up
 * there. The methods of this one object are replaced, and put back when it is let go.
 *
 * `new ResponseCapture(res, how)` holds from now on. `capture.response` is the answer: whole, or known to be streamed.
 * Then call exactly one of `release()` (send it), `discard()` (as if nothing had been answered) and, if
 * `capture.isDestroyed`, `abort()` (cut the connection off, as the handler wanted).
 */
import { Buffer } from "node:buffer";
import { OutgoingMessage, type ServerResponse } from "node:http";
import type { Exchange, HeaderLine, HttpResponse } from "./exchange.ts";
import { HeadBytes } from "./head-bytes.ts";
import { bytesOf, type Callback, type Chunk, checkChunk, type Encoding, HeldBody } from "./held-body.ts";
import {
  type GivenHeaders,
  hasBody,
  isClosed,
  isHttp2,
  makeExtensible,
  methodsOf,
  type NodeResponse,
  nodeResponse,
  putMethods,
  type ResponseMethods,
  takeMethods,
} from "./node-response.ts";
import { GoneClient } from "./response-gone.ts";
import {
  freezeHead,
  givenIn,
  isSentAtOnce,
  linesOf,
  mergeHead,
  resetHead,
  thawHead,
  valueIn,
} from "./response-head.ts";

export interface CaptureHow {
  readonly exchange: Pick<Exchange<never>, "holds" | "maxHeldBytes">;
  /** Further header lines of the answer; they are not part of what `response` tells. */
  readonly added: readonly HeaderLine[];
  /**
   * How long after its client went away an answer that was begun may take to end. Then it counts as streamed: whatever
   * was to end it may have stopped for the client's sake.
   */
  readonly goneMs: number;
}

export class ResponseCapture {
  readonly response: Promise<HttpResponse>;
  /** Whether the handler destroyed its response before it was whole. */
  isDestroyed = false;

  readonly #res: NodeResponse;
  readonly #how: CaptureHow;
  readonly #isHttp2: boolean;
  readonly #theirs: ResponseMethods;
  readonly #ours: ResponseMethods;
  /** The names of the headers that were set before us. */
  readonly #headersBefore: readonly string[];
  readonly #body = new HeldBody();
  readonly #headBytes = new HeadBytes();
  #head: Pick<HttpResponse, "status" | "headers"> | undefined;
  #resolve!: (response: HttpResponse) => void;
  #reject!: (error: unknown) => void;
  /** Whether `response` is known: from then on no more is wanted. */
  #isSettled = false;
  #isAside = false;
  #needsDrain = false;
  #destroyedBy: Error | undefined;
  readonly #client: GoneClient;
  #timer: NodeJS.Timeout | undefined;

  constructor(res: ServerResponse, how: CaptureHow) {
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
    this.#theirs = methodsOf(captured);
    this.#ours = this.#methods();
    makeExtensible(captured);
    putMethods(captured, this.#ours);
    if (isClosed(captured)) this.#onGone();
  }

  /** The handler threw: that is its answer, if it has given none. */
  fail(error: unknown): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    clearTimeout(this.#timer);
    this.#reject(error);
  }

  /** Sends what is held. What the handler writes from now on goes its way untouched. */
  release(): void {
    const res = this.#res;
    const theirs = this.#theirs;
    this.#stepAside();
    if (this.#isHttp2) theirs.writeHead.call(res, res.statusCode);
    this.#headBytes.send(res);
    const isWanted = this.#body.flush({
      write: (...args) => theirs.write.apply(res, args),
      end: (...args) => theirs.end.apply(res, args),
    });
    if (this.#headBytes.isFlushed && this.#body.size === 0) theirs.flushHeaders.call(res);
    if (isWanted && this.#needsDrain && !this.#body.isEnded) res.emit("drain");
    this.#client.tell();
    if (this.isDestroyed) theirs.destroy.call(res, this.#destroyedBy);
  }

  /** Forgets what is held, so that the request can be answered anew. */
  discard(): void {
    this.#stepAside();
    resetHead(this.#res, this.#headersBefore);
    this.#client.tell();
  }

  /** Does what the handler wanted when it destroyed its response. */
  abort(): void {
    this.#stepAside();
    this.#client.tell();
    this.#theirs.destroy.call(this.#res, this.#destroyedBy);
  }

  /** Each hands on what it is given once this capture is over: others may have put theirs around it meanwhile. */
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
      // Node says what is wrong with that.
      return this.#isHttp2
        ? false
        : OutgoingMessage.prototype.write.call(res, chunk, "utf8", callback as never);
    }
    checkChunk(chunk);
    this.#headBytes.follow(chunk, encoding);
    this.#needHead();
    if (hasBody(res)) {
      const bytes = bytesOf(chunk, encoding);
      // Whoever is called back may fill the same bytes anew.
      this.#hold(callback === undefined || bytes !== chunk ? bytes : Buffer.from(bytes));
      if (this.#isSettled) {
        this.#body.tellLater(callback);
        this.#needsDrain = true;
        return false;
      }
    }
    // It may be waited for before the next write, so it must not wait for the whole.
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
    const bytes = chunk ? bytesOf(chunk, encoding) : undefined;
    this.#headBytes.follow(chunk, encoding);
    // As node does it: an answer that comes in one piece says how long it is.
    if (this.#head === undefined && !this.#isHttp2) res._contentLength = bytes?.length ?? 0;
    this.#needHead();
    body.end(bytes !== undefined && hasBody(res) ? bytes : undefined, chunk, encoding);
    body.onFinish(callback);
    if (!this.#isHttp2) res.finished = true;
    if (!this.#isSettled)
      this.#settle(body.size > this.#how.exchange.maxHeldBytes ? undefined : body.whole());
  }

  /** Through the response's own method: others may have put theirs before ours. */
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
    // Read before it is written: whoever wraps the response may change it on its way out.
    const lines = linesOf(res, given);
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
    // Somebody stopped because the client is gone: what was begun for it stands.
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

  /** Takes our methods off, and everything that made the response look further than it is. */
  #stepAside(): void {
    const res = this.#res;
    this.#isAside = true;
    clearTimeout(this.#timer);
    takeMethods(res, this.#ours, this.#theirs);
    if (!this.#isHttp2) {
      res.finished = false;
      res.destroyed = false;
    } else if (this.#head !== undefined) thawHead(res);
    this.#client.show();
  }
}
