/** Chooses which waiting messages a node takes next: the first one, or a batch. A node with [join] has a join queue. */
import { createFifo } from "./fifo.ts";
import type { Message } from "./message.ts";
import type { MessageOutcome } from "./message-outcome.ts";
import type { Batch } from "./model.ts";

/** A message that waits for a node. */
export interface QueuedMessage {
  readonly port: string;
  readonly message: Message;
  readonly atMs: number;
  settle(outcome: MessageOutcome): void;
}

export interface MessageQueue {
  add(queued: QueuedMessage): void;
  /** The messages to process together. Undefined if none are ready. */
  next(nowMs: number): readonly QueuedMessage[] | undefined;
  /** The messages that have left their buffers since the last call. */
  takeLeft(): readonly QueuedMessage[];
  /** Settles the messages that have waited too long. */
  expire(nowMs: number): void;
  /** When a message may become ready without another one arriving. */
  dueMs(): number | undefined;
  size(): number;
  /** Removes and returns all messages. */
  drop(): readonly QueuedMessage[];
}

/**
 * One message at a time, each after `delayMs`. With a batch: as many as `size`, as soon as they are there or the first has
 * waited `withinMs`. Once `isStopping`, an incomplete batch is taken at once, and delayed messages are returned.
 */
export function createMessageQueue(
  { delayMs = 0, batch }: { readonly delayMs?: number | undefined; readonly batch?: Batch | undefined },
  isStopping: () => boolean,
  giveBack: (queued: QueuedMessage) => void,
): MessageQueue {
  const queue = createFifo<QueuedMessage>();
  const size = batch?.size ?? 1;
  const withinMs = delayMs + (batch?.withinMs ?? 0);
  let gone: QueuedMessage[] = [];

  function take(count: number): readonly QueuedMessage[] {
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
      if (isStopping()) for (const queued of take(queue.length)) giveBack(queued);
      return undefined;
    },
    takeLeft() {
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
