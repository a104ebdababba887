/** Copies the bytes of a request's body while a parser reads the stream. The parser does not notice. */
import { Buffer } from "node:buffer";
import { EventEmitter } from "node:events";
import { concatBytes } from "../core/bytes.ts";

export class BodyTap {
  readonly #stream: NodeJS.ReadableStream;
  readonly #maxBytes: number;
  readonly #chunks: Uint8Array[] = [];
  #size = 0;

  /** Stops collecting with the first chunk that exceeds `maxBytes`. */
  constructor(stream: NodeJS.ReadableStream, maxBytes: number) {
    this.#stream = stream;
    this.#maxBytes = maxBytes;
    // Not `stream.on`, which would start the flow before the parser listens.
    EventEmitter.prototype.on.call(stream, "data", this.#onData);
  }

  /** The bytes that were collected. Collecting ends. */
  take(): Uint8Array {
    this.#stop();
    return concatBytes(this.#chunks, this.#size);
  }

  readonly #onData = (chunk: Uint8Array | string): void => {
    const bytes = typeof chunk === "string" ? Buffer.from(chunk) : chunk;
    this.#chunks.push(bytes);
    this.#size += bytes.length;
    if (this.#size > this.#maxBytes) this.#stop();
  };

  #stop(): void {
    EventEmitter.prototype.off.call(this.#stream, "data", this.#onData);
  }
}
