/** Functions to write scripted handlers with. */
import type { HeaderLine } from "../../http/http-message.ts";
import type { HandledRequest, ScriptedAnswer, ScriptedBody } from "./harness.ts";

/** One run of the handler: returns its answer. */
export type HandlerScript = (run: ScriptedRun) => ScriptedAnswer | Promise<ScriptedAnswer>;

export interface ScriptedRun {
  /** The number of this run of the handler, from 1. */
  readonly number: number;
  readonly request: HandledRequest;
}

export function answer(
  status: number,
  body: ScriptedBody = { kind: "empty" },
  headers: readonly HeaderLine[] = [],
): ScriptedAnswer {
  return { status, headers, body };
}

/** Answers `{ run: 1 }`, `{ run: 2 }` and so on. */
export const countingRuns: HandlerScript = ({ number }) => answer(201, json({ run: number }));

export function json(value: unknown): ScriptedBody {
  return { kind: "json", value };
}

export function text(content: string): ScriptedBody {
  return { kind: "text", text: content };
}

export function bytes(content: Uint8Array): ScriptedBody {
  return { kind: "bytes", bytes: content };
}

export function written(
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  flush = false,
): ScriptedBody {
  return { kind: "written", chunks: oneByOne(chunks), flush };
}

export function stream(chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>): ScriptedBody {
  return { kind: "stream", chunks: oneByOne(chunks) };
}

export async function* oneByOne(
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  yield* chunks;
}

export function utf8(content: string): Uint8Array {
  return new TextEncoder().encode(content);
}

export function type(name: string): HeaderLine {
  return ["content-type", name];
}

/** Pseudo-random bytes, the same in every run. */
export function noise(length: number): Uint8Array {
  const content = new Uint8Array(length);
  let state = 1;
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    content[i] = state >>> 24;
  }
  return content;
}

/** A source that counts the bytes that were read from it. */
export interface Producer {
  readonly chunks: AsyncIterable<Uint8Array>;
  produced(): number;
}

const CHUNK_BYTES = 65_536;

export function producer(totalBytes: number): Producer {
  let made = 0;
  const chunk = noise(CHUNK_BYTES);
  async function* produce(): AsyncGenerator<Uint8Array> {
    while (made < totalBytes) {
      const next = chunk.subarray(0, Math.min(CHUNK_BYTES, totalBytes - made));
      made += next.length;
      yield next;
    }
  }
  return { chunks: produce(), produced: () => made };
}
