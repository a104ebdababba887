/** Which of the messages that wait before a node it takes next: the first, a batch of them, or those that belong together. */
import type { Message, Settled } from "./message.ts";
import type { Batch } from "./model.ts";

/** A message that waits before a node. */
export interface Arrived {
  readonly port: string;
  readonly message: Message;
  readonly atMs: number;
  settle(settled: Settled): void;
}

export interface Gathering {
  add(arrived: Arrived): void;
  /** Messages to be worked on together; undefined if none are ready. */
  next(nowMs: number): readonly Arrived[] | undefined;
  /** Those that have left their buffers since this was last asked. */
  left(): readonly Arrived[];
  /** Lets go of what has waited for too long. */
  expire(nowMs: number): void;
  /** When something may be ready although nothing else comes. */
  dueMs(): number | undefined;
  size(): number;
  /** Takes out all that is there. */
  drop(): readonly Arrived[];
}

/** First in, first out, without moving all the rest. */
export interface Queue {
  readonly length: number;
  readonly first: Arrived | undefined;
  add(arrived: Arrived): void;
  take(count: number): Arrived[];
}

const COMPACT_AT = 1_024;

export function createQueue(): Queue {
  let list: Arrived[] = [];
  let start = 0;
  return {
    get length() {
      return list.length - start;
    },
    get first() {
      return list[start];
    },
    add(arrived) {
      list.push(arrived);
    },
    take(count) {
      const taken = list.slice(start, start + count);
      start += taken.length;
      if (start === list.length || start >= COMPACT_AT) {
        list = list.slice(start);
        start = 0;
      }
      return taken;
    },
  };
}

/**
 * One at a time, each after `delayMs`; with a batch, up to `size` as soon as they are there or the first has waited long
 * enough. `isStopping`: a batch is not waited for any more, and what is delayed is given back.
 */
export function gatherInOrder(
  { delayMs = 0, batch }: { readonly delayMs?: number | undefined; readonly batch?: Batch | undefined },
  isStopping: () => boolean,
  giveBack: (arrived: Arrived) => void,
): Gathering {
  const queue = createQueue();
  const size = batch?.size ?? 1;
  const withinMs = delayMs + (batch?.withinMs ?? 0);
  let gone: Arrived[] = [];

  function take(count: number): readonly Arrived[] {
    const taken = queue.take(count);
    gone.push(...taken);
    return taken;
  }

  function isReady(nowMs: number): boolean {
    const { first, length } = queue;
    if (first === undefined || nowMs < first.atMs + delayMs) return false;
    return batch === undefined || length >= size || nowMs >= first.atMs + withinMs || isStopping();
  }

  return {
    add: queue.add,
    next(nowMs) {
      if (isReady(nowMs)) return take(size);
      if (isStopping()) for (const arrived of take(queue.length)) giveBack(arrived);
      return undefined;
    },
    left() {
      const left = gone;
      gone = [];
      return left;
    },
    expire() {},
    dueMs: () => {
      const { first } = queue;
      return first === undefined ? undefined : first.atMs + (queue.length >= size ? delayMs : withinMs);
    },
    size: () => queue.length,
    drop: () => queue.take(queue.length),
  };
}
