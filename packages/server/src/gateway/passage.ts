/**
 * One request on its way to the service, and its answer on the way back: the handler that undici calls. Whatever goes
 * wrong in here, also in a method of this handler, ends in `onResponseError` and rejects.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { isNevertwiceError } from "nevertwice";
import type { Dispatcher } from "undici";
import { writeInformation } from "./early-answer.ts";
import { lost, unreachable, unsendable } from "./failure.ts";
import { responseLines, trailerPairs, valueIn } from "./header-lines.ts";

const NOTHING = new Uint8Array();
/** The layer sends the head of such a response byte by byte, also if it has to before anything follows. */
const WRITES_BYTES = { [Symbol.for("nevertwice.writes-bytes")]: true };

type Controller = Dispatcher.DispatchController;

export interface PassageParts {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  /** How long the service may take until it begins to answer, and between two pieces of its answer. */
  readonly timeoutMs: number;
  /** Makes room for bytes that are held back; false if there is none. Undefined where nothing is held back. */
  readonly hold: ((bytes: number) => boolean) | undefined;
  resolve(): void;
  reject(error: Error): void;
}

export class Passage implements Dispatcher.DispatchHandler {
  readonly #parts: PassageParts;
  #controller: Controller | undefined;
  #isOver = false;
  #isPassedOn = false;
  #canTrail = false;
  readonly #late: NodeJS.Timeout;

  constructor(parts: PassageParts) {
    this.#parts = parts;
    const { res, timeoutMs } = parts;
    Object.assign(res, WRITES_BYTES);
    res.once("close", () => this.#onClosed());
    // Until it is sent: from then on the dispatcher counts.
    this.#late = setTimeout(() => this.#fail(unreachable(new Error("no connection in time"))), timeoutMs);
  }

  /** Right before the first byte is written. Until now nothing can have reached the service. */
  onRequestStart(controller: Controller): void {
    clearTimeout(this.#late);
    if (this.#isOver) controller.abort(new Error("nobody waits for the answer"));
    else this.#controller = controller;
  }

  onResponseStart(controller: Controller, status: number, _headers: unknown, reason?: string): void {
    if (this.#isOver) return;
    const { req, res, hold } = this.#parts;
    const lines = textOf(controller.rawHeaders);
    if (status >= 100 && status < 200) {
      writeInformation(req, res, status, lines);
      return;
    }
    const isEmpty = status === 204 || status === 304 || req.method === "HEAD";
    this.#canTrail = !isEmpty && req.httpVersion === "1.1" && valueIn(lines, "content-length") === undefined;
    res.writeHead(status, cleanReason(reason), responseLines(lines, this.#canTrail, status === 204));
    this.#isPassedOn = true;
    // A head that comes alone is meant to be seen; one whose answer is kept is kept with it.
    if (hold === undefined || isEvents(lines)) setImmediate(() => this.#flushHead());
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    const { res, hold } = this.#parts;
    if (this.#isOver) return;
    // Without room the answer is not held back, and so not kept.
    if (hold !== undefined && !hold(chunk.length)) res.flushHeaders();
    if (res.write(chunk)) return;
    controller.pause();
    res.once("drain", () => controller.resume());
  }

  onResponseEnd(controller: Controller): void {
    if (this.#isOver) return;
    const { res, resolve } = this.#parts;
    const trailers = this.#canTrail ? trailerPairs(textOf(controller.rawTrailers)) : [];
    if (trailers.length > 0) res.addTrailers(trailers);
    this.#isOver = true;
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
        ? unsendable(error)
        : unreachable(error);
    if (code === "UND_ERR_HEADERS_TIMEOUT")
      return lost(`the service behind this gateway did not answer within ${this.#parts.timeoutMs} ms`, error);
    return lost(
      this.#isPassedOn
        ? "the service behind this gateway went away before its answer was whole"
        : "the service behind this gateway gave no answer that can be passed on",
      error,
    );
  }

  #flushHead(): void {
    const { res } = this.#parts;
    // Not flushHeaders, which sends a head as UTF-8: the client gets the bytes that the service sent.
    if (!this.#isOver && !res.destroyed && !res.writableEnded) res.write(NOTHING);
  }

  #onClosed(): void {
    // Also if another part of the gateway has answered: nobody waits for the service.
    if (!this.#isOver) this.#fail(lost("the client went away"));
  }

  #fail(error: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#late);
    this.#controller?.abort(error);
    this.#parts.reject(error);
  }
}

/** As latin1, byte by byte: a header is bytes, and most programs do not agree on more. */
function textOf(raw: Controller["rawHeaders"]): string[] {
  if (!Array.isArray(raw)) return [];
  return raw.map((part) => (typeof part === "string" ? part : part.toString("latin1")));
}

/** A reason phrase is for people; one with other than printable characters in it is left out. */
function cleanReason(reason: string | undefined): string {
  return reason !== undefined && /^[\t\x20-\x7e]*$/.test(reason) ? reason : "";
}

function isEvents(lines: readonly string[]): boolean {
  return valueIn(lines, "content-type")?.toLowerCase().startsWith("text/event-stream") === true;
}
