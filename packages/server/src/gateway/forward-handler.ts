/**
 * The undici handler of one forwarded request: it writes the response of the service to the client. Every failure, also
 * an exception in a method of this handler, reaches `onResponseError` and rejects the promise of `forward`.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { isNevertwiceError } from "nevertwice";
import type { HeaderLine } from "nevertwice/http";
import type { Dispatcher } from "undici";
import { unsendableError, upstreamLostError, upstreamUnreachableError } from "./gateway-errors.ts";
import { headerValue, responseLines, trailerPairs } from "./header-lines.ts";
import { writeInformational } from "./informational-response.ts";

const NOTHING = new Uint8Array();
/** Tells the layer to send the head of this response byte by byte, even if it has to send it before the body. */
const WRITES_BYTES = { [Symbol.for("nevertwice.writes-bytes")]: true };

type Controller = Dispatcher.DispatchController;

export interface ForwardHandlerParts {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  /** How long the service may take to start its response, and between two chunks of it. */
  readonly timeoutMs: number;
  /** Reserves room for bytes that are held back; false if there is none. Undefined if the response is not held back. */
  readonly hold: ((bytes: number) => boolean) | undefined;
  /** A line to add to a response with this status. It replaces the service's own. */
  readonly advise: ((status: number) => HeaderLine | undefined) | undefined;
  resolve(): void;
  reject(error: Error): void;
}

export class ForwardHandler implements Dispatcher.DispatchHandler {
  readonly #parts: ForwardHandlerParts;
  #controller: Controller | undefined;
  #isDone = false;
  #hasStarted = false;
  #canTrail = false;
  readonly #late: NodeJS.Timeout;

  constructor(parts: ForwardHandlerParts) {
    this.#parts = parts;
    const { res, timeoutMs } = parts;
    Object.assign(res, WRITES_BYTES);
    res.once("close", () => this.#onClosed());
    // Covers the time until the request is sent; then the timeouts of the dispatcher apply.
    this.#late = setTimeout(
      () => this.#fail(upstreamUnreachableError(new Error("no connection in time"))),
      timeoutMs,
    );
  }

  /** Called right before the first byte is written. Until then nothing can have reached the service. */
  onRequestStart(controller: Controller): void {
    clearTimeout(this.#late);
    if (this.#isDone) controller.abort(new Error("the client has disconnected"));
    else this.#controller = controller;
  }

  onResponseStart(controller: Controller, status: number, _headers: unknown, reason?: string): void {
    if (this.#isDone) return;
    const { req, res, hold, advise } = this.#parts;
    const lines = latin1Lines(controller.rawHeaders);
    if (status >= 100 && status < 200) {
      writeInformational(req, res, status, lines);
      return;
    }
    const isEmpty = status === 204 || status === 304 || req.method === "HEAD";
    this.#canTrail =
      !isEmpty && req.httpVersion === "1.1" && headerValue(lines, "content-length") === undefined;
    const sent = withLine(responseLines(lines, this.#canTrail, status === 204), advise?.(status));
    res.writeHead(status, cleanReason(reason), sent);
    this.#hasStarted = true;
    // A service may send its head early on purpose, so it is forwarded at once, unless the response is stored as a whole.
    if (hold === undefined || isEvents(lines)) setImmediate(() => this.#flushHead());
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    const { res, hold } = this.#parts;
    if (this.#isDone) return;
    // Without room the response is streamed instead of held back, and so it is not stored.
    if (hold !== undefined && !hold(chunk.length)) res.flushHeaders();
    if (res.write(chunk)) return;
    controller.pause();
    res.once("drain", () => controller.resume());
  }

  onResponseEnd(controller: Controller): void {
    if (this.#isDone) return;
    const { res, resolve } = this.#parts;
    const trailers = this.#canTrail ? trailerPairs(latin1Lines(controller.rawTrailers)) : [];
    if (trailers.length > 0) res.addTrailers(trailers);
    this.#isDone = true;
    res.end();
    resolve();
  }

  onResponseError(_controller: unknown, error: Error): void {
    this.#fail(this.#failure(error));
  }

  #failure(error: Error): Error {
    if (isNevertwiceError(error)) return error;
    const { code } = error as { readonly code?: string };
    if (this.#controller === undefined)
      return code === "UND_ERR_INVALID_ARG" || code === "UND_ERR_NOT_SUPPORTED"
        ? unsendableError(error)
        : upstreamUnreachableError(error);
    if (code === "UND_ERR_HEADERS_TIMEOUT")
      return upstreamLostError(
        `the service behind this gateway did not answer within ${this.#parts.timeoutMs} ms`,
        error,
      );
    return upstreamLostError(
      this.#hasStarted
        ? "the service behind this gateway closed the connection before its response was complete"
        : "the service behind this gateway sent no valid response",
      error,
    );
  }

  #flushHead(): void {
    const { res } = this.#parts;
    // flushHeaders would encode the head as UTF-8; an empty write sends the bytes that the service sent.
    if (!this.#isDone && !res.destroyed && !res.writableEnded) res.write(NOTHING);
  }

  #onClosed(): void {
    // Also runs if another part of the gateway has answered: the response of the service is no longer needed.
    if (!this.#isDone) this.#fail(upstreamLostError("the client disconnected"));
  }

  #fail(error: Error): void {
    if (this.#isDone) return;
    this.#isDone = true;
    clearTimeout(this.#late);
    this.#controller?.abort(error);
    this.#parts.reject(error);
  }
}

/** Decodes header bytes as latin1, which maps each byte to one character and so loses nothing. */
function latin1Lines(raw: Controller["rawHeaders"]): string[] {
  if (!Array.isArray(raw)) return [];
  return raw.map((part) => (typeof part === "string" ? part : part.toString("latin1")));
}

/** The lines with this one in place of those of the same name. */
function withLine(lines: string[], line: HeaderLine | undefined): string[] {
  if (line === undefined) return lines;
  const [name, value] = line;
  const others = lines.filter((_, i) => lines[i - (i % 2)]?.toLowerCase() !== name);
  return [...others, name, value];
}

/** Removes a reason phrase with characters that are not printable. */
function cleanReason(reason: string | undefined): string {
  return reason !== undefined && /^[\t\x20-\x7e]*$/.test(reason) ? reason : "";
}

function isEvents(lines: readonly string[]): boolean {
  return headerValue(lines, "content-type")?.toLowerCase().startsWith("text/event-stream") === true;
}
