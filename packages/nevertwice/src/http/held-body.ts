/** The body of a response while it is held back: its chunks in the order in which they were written. */
import { Buffer } from "node:buffer";
import { types } from "node:util";

export type Chunk = string | Uint8Array;
export type Encoding = BufferEncoding | null | undefined;
export type Callback = (error?: Error | null) => void;

/** Where the body is finally written. */
export interface BodySink {
  write(chunk: Chunk, encoding?: Encoding, callback?: Callback): boolean;
  end(chunk?: Chunk, encoding?: Encoding, callback?: Callback): unknown;
}

const EMPTY = new Uint8Array();

export class HeldBody {
  size = 0;
  isEnded = false;
  #chunks: Uint8Array[] = [];
  /** The callbacks of writers that still wait, at the same index as their chunks. */
  readonly #callbacks: (Callback | undefined)[] = [];
  /** The only chunk as it was given, if that was a string: Node sends a string faster than its bytes. */
  #text: string | undefined;
  #encoding: Encoding;
  #onFinish: Callback | undefined;

  add(bytes: Uint8Array): void {
    this.#chunks.push(bytes);
    this.size += bytes.length;
  }

  /** Calls the writer of the last chunk back once the chunk has been sent. */
  callBackLater(callback: Callback | undefined): void {
    this.#callbacks[this.#chunks.length - 1] = callback;
  }

  /** `bytes` are the bytes of `chunk`; undefined if there are none to send. */
  end(bytes: Uint8Array | undefined, chunk: Chunk | null | undefined, encoding: Encoding): void {
    this.isEnded = true;
    if (bytes === undefined) return;
    if (this.#chunks.length === 0 && typeof chunk === "string") {
      this.#text = chunk;
      this.#encoding = encoding;
    }
    this.add(bytes);
  }

  onFinish(callback: Callback | undefined): void {
    this.#onFinish = callback;
  }

  /** The whole body, without a copy if it has only one chunk. */
  whole(): Uint8Array {
    if (this.#chunks.length > 1) this.#chunks = [Buffer.concat(this.#chunks, this.size)];
    return this.#chunks[0] ?? EMPTY;
  }

  /** Writes the body to the sink. Returns whether the sink takes more at once. */
  flush(sink: BodySink): boolean {
    const chunks = this.#chunks;
    this.#chunks = [];
    if (this.#text !== undefined) sink.end(this.#text, this.#encoding, this.#onFinish);
    else if (this.isEnded && chunks.length <= 1 && this.#callbacks.length === 0) {
      sink.end(chunks[0], undefined, this.#onFinish);
    } else {
      let isReady = true;
      for (const [i, chunk] of chunks.entries()) isReady = sink.write(chunk, undefined, this.#callbacks[i]);
      if (!this.isEnded) return isReady;
      sink.end(undefined, undefined, this.#onFinish);
    }
    return true;
  }
}

/** Throws the same error as Node for a chunk that is neither a string nor bytes. */
export function checkChunk(chunk: unknown): asserts chunk is Chunk {
  if (typeof chunk === "string" || types.isUint8Array(chunk)) return;
  const message = 'The "chunk" argument must be of type string or an instance of Buffer or Uint8Array.';
  throw Object.assign(new TypeError(message), { code: "ERR_INVALID_ARG_TYPE" });
}

export function toBytes(chunk: Chunk, encoding: Encoding): Uint8Array {
  return typeof chunk === "string" ? Buffer.from(chunk, encoding ?? "utf8") : chunk;
}
