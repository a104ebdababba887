/**
 * The messages that wait for a node. Each in-port has a bounded buffer: a sender waits while the buffer is full. A message
 * leaves its buffer when the node takes it, and the node takes as many at once as its concurrency allows.
 */
import type { Timer } from "../core/clock.ts";
import type { Message } from "./message.ts";
import type { MessageOutcome } from "./message-outcome.ts";
import type { MessageQueue, QueuedMessage } from "./message-queue.ts";

/** An object rather than the promise itself: a sender waits for the place first, and for the outcome separately. */
export interface InboxPlace {
  readonly outcome: Promise<MessageOutcome>;
}

export interface Inbox {
  /** Resolves when the message has a place in the buffer. Rejects if the signal fires before. */
  put(port: string, message: Message, signal?: AbortSignal): Promise<InboxPlace>;
  /** Looks again for messages that are ready: their time has come, or the network stops. */
  pump(): void;
  /** Settles every message that the node has not started with `refusal`. */
  halt(): void;
  counts(): { readonly waiting: number; readonly active: number };
}

export interface InboxOptions {
  readonly timer: Timer;
  readonly buffers: ReadonlyMap<string, number>;
  readonly concurrency: number;
  readonly queue: MessageQueue;
  /** Handles a group and settles each message of it. It calls `free` if the next group may start early. Never rejects. */
  readonly work: (group: readonly QueuedMessage[], free: () => void) => Promise<void>;
  readonly onFull: (port: string, message: Message) => void;
  /** The outcome of a message that was not started when the network stopped. */
  readonly refusal: MessageOutcome;
}

/** A message that waits for a place in a full buffer. */
interface WaitingMessage {
  readonly queued: QueuedMessage;
  readonly place: () => void;
}

export function createInbox(options: InboxOptions): Inbox {
  const { timer, buffers, concurrency, queue, work, onFull, refusal } = options;
  const filled = new Map<string, number>();
  const waitingByPort = new Map<string, Set<WaitingMessage>>();
  let active = 0;
  let isHalted = false;
  let cancelWake = () => {};

  const count = (port: string) => filled.get(port) ?? 0;

  function enter(queued: QueuedMessage): void {
    filled.set(queued.port, count(queued.port) + 1);
    queue.add(queued);
  }

  /** A place is free: the first sender that waits for it gets it. */
  function leave({ port }: QueuedMessage): void {
    filled.set(port, count(port) - 1);
    const waiting = waitingByPort.get(port);
    const [first] = waiting ?? [];
    if (first === undefined) return;
    waiting?.delete(first);
    enter(first.queued);
    first.place();
  }

  function pump(): void {
    if (isHalted) return;
    while (active < concurrency) {
      const group = queue.next(timer.now());
      for (const queued of queue.takeLeft()) leave(queued);
      if (group === undefined) break;
      start(group);
    }
    queue.expire(timer.now());
    cancelWake();
    const dueMs = queue.dueMs();
    if (dueMs !== undefined && dueMs > timer.now()) cancelWake = timer.after(dueMs - timer.now(), pump);
  }

  function start(group: readonly QueuedMessage[]): void {
    active++;
    let isFree = false;
    const free = () => {
      if (isFree) return;
      isFree = true;
      active--;
      pump();
    };
    void work(group, free).finally(free);
  }

  function put(port: string, message: Message, signal?: AbortSignal): Promise<InboxPlace> {
    return new Promise((resolve, reject) => {
      let settle: (outcome: MessageOutcome) => void = () => {};
      const outcome = new Promise<MessageOutcome>((end) => {
        settle = end;
      });
      const queued: QueuedMessage = { port, message, atMs: timer.now(), settle };
      if (isHalted) settle(refusal);
      else if (count(port) < (buffers.get(port) ?? 1)) {
        enter(queued);
        pump();
      } else {
        onFull(port, message);
        return wait(queued, () => resolve({ outcome }), reject, signal);
      }
      resolve({ outcome });
    });
  }

  function wait(
    queued: QueuedMessage,
    onPlaced: () => void,
    reject: (reason: unknown) => void,
    signal?: AbortSignal,
  ): void {
    const waiting = waitingByPort.get(queued.port) ?? new Set();
    waitingByPort.set(queued.port, waiting);
    const giveUp = () => {
      waiting.delete(entry);
      reject(signal?.reason);
    };
    const entry: WaitingMessage = {
      queued,
      place() {
        signal?.removeEventListener("abort", giveUp);
        onPlaced();
      },
    };
    waiting.add(entry);
    signal?.addEventListener("abort", giveUp, { once: true });
  }

  return {
    put,
    pump,
    halt() {
      isHalted = true;
      cancelWake();
      for (const queued of queue.drop()) queued.settle(refusal);
      for (const waiting of waitingByPort.values()) {
        for (const { queued, place } of waiting) {
          place();
          queued.settle(refusal);
        }
        waiting.clear();
      }
    },
    counts() {
      const waiting = [...waitingByPort.values()].reduce((sum, { size }) => sum + size, queue.size());
      return { waiting, active };
    },
  };
}
