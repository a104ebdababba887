/** The body of an answer while it is held back: its pieces, in the order they were written. */
import { Buffer } from "node:buffer";
import { types } from "node:util";

export type Chunk = string | Uint8Array;
export type Encoding = BufferEncoding | null | undefined;
export type Callback = (error?: Error | null) => void;

/** Where it goes in the end. */
export interface BodySink {
  write(chunk: Chunk, encoding?: Encoding, callback?: Callback): boolean;
  end(chunk?: Chunk, encoding?: Encoding, callback?: Callback): unknown;
}

const EMPTY = new Uint8Array();

export class HeldBody {
  size = 0;
  isEnded = false;
  #chunks: Uint8Array[] = [];
  /** Of pieces whose writers are still to be told, at the same places. */
  readonly #callbacks: (Callback | undefined)[] = [];
  /** The only piece as it was given, if that was text: node sends it faster than its bytes. */
  #text: string | undefined;
  #encoding: Encoding;
  #onFinish: Callback | undefined;

  add(bytes: Uint8Array): void {
    this.#chunks.push(bytes);
    this.size += bytes.length;
  }

  /** The writer of the last piece is told once it has gone. */
  tellLater(callback: Callback | undefined): void {
    this.#callbacks[this.#chunks.length - 1] = callback;
  }

  /** `bytes` are those of `chunk`; undefined if there are none to send. */
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

  /** All of it, without a copy if it came in one piece. */
  whole(): Uint8Array {
    if (this.#chunks.length > 1) this.#chunks = [Buffer.concat(this.#chunks, this.size)];
    return this.#chunks[0] ?? EMPTY;
  }

  /** Sends it. Whether more is wanted at once. */
  flush(sink: BodySink): boolean {
    const chunks = this.#chunks;
    this.#chunks = [];
    if (this.#text !== undefined) sink.end(this.#text, this.#encoding, this.#onFinish);
    else if (this.isEnded && chunks.length <= 1 && this.#callbacks.length === 0) {
      sink.end(chunks[0], undefined, this.#onFinish);
    } else {
      let isWanted = true;
      for (const [i, chunk] of chunks.entries()) isWanted = sink.write(chunk, undefined, this.#callbacks[i]);
      if (!this.isEnded) return isWanted;
      sink.end(undefined, undefined, this.#onFinish);
    }
    return true;
  }
}

/** Refuses what node refuses, in the same way. */
export function checkChunk(chunk: unknown): asserts chunk is Chunk {
  if (typeof chunk === "string" || types.isUint8Array(chunk)) return;
  const message = 'The "chunk" argument must be of type string or an instance of Buffer or Uint8Array.';
  throw Object.assign(new TypeError(message), { code: "ERR_INVALID_ARG_TYPE" });
}

export function bytesOf(chunk: Chunk, encoding: Encoding): Uint8Array {
  return typeof chunk === "string" ? Buffer.from(chunk, encoding ?? "utf8") : chunk;
}
