/** The bytes of a request's body as they pass by: whoever reads the stream reads it as if nobody else looked. */
import { Buffer } from "node:buffer";
import { EventEmitter } from "node:events";
import { joined } from "./web-request.ts";

export class BodyTap {
  readonly #stream: NodeJS.ReadableStream;
  readonly #maxBytes: number;
  readonly #chunks: Uint8Array[] = [];
  #size = 0;

  /** Keeps no more than the first chunk past `maxBytes`: that many are too many. */
  constructor(stream: NodeJS.ReadableStream, maxBytes: number) {
    this.#stream = stream;
    this.#maxBytes = maxBytes;
    // Not the stream's own method, which would set it flowing before its reader is there.
    EventEmitter.prototype.on.call(stream, "data", this.#onData);
  }

  /** What passed. No more is kept from now on. */
  take(): Uint8Array {
    this.#stop();
    return joined(this.#chunks, this.#size);
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
