/**
 * What waits before a node: bounded for each port, so that whoever brings more than the node can take has to wait. A
 * message leaves its buffer when the node takes it, and the node takes as many at once as its concurrency says.
 */
import type { Timer } from "../core/clock.ts";
import type { Arrived, Gathering } from "./gathering.ts";
import type { Message, Settled } from "./message.ts";

/** In an object, since waiting for a place is not waiting for the end. */
export interface Placed {
  readonly settled: Promise<Settled>;
}

export interface Inbox {
  /** Resolves when there is a place. Rejects if the signal fires before. */
  put(port: string, message: Message, signal?: AbortSignal): Promise<Placed>;
  /** Asks again whether something is ready: time is short, or the network stops. */
  pump(): void;
  /** Gives back whatever was not begun. */
  halt(): void;
  counts(): { readonly waiting: number; readonly active: number };
}

export interface InboxOptions {
  readonly timer: Timer;
  readonly buffers: ReadonlyMap<string, number>;
  readonly concurrency: number;
  readonly gathering: Gathering;
  /** Takes a group and settles each of it. `free` may be called before the end, if the next may begin. Never rejects. */
  readonly work: (group: readonly Arrived[], free: () => void) => Promise<void>;
  readonly onFull: (port: string, message: Message) => void;
  /** What is said of a message that was not begun when the network stopped. */
  readonly refusal: Settled;
}

interface Parked {
  readonly arrived: Arrived;
  readonly place: () => void;
}

export function createInbox(options: InboxOptions): Inbox {
  const { timer, buffers, concurrency, gathering, work, onFull, refusal } = options;
  const filled = new Map<string, number>();
  const parked = new Map<string, Set<Parked>>();
  let active = 0;
  let isHalted = false;
  let cancelWake = () => {};

  const countOf = (port: string) => filled.get(port) ?? 0;

  function enter(arrived: Arrived): void {
    filled.set(arrived.port, countOf(arrived.port) + 1);
    gathering.add(arrived);
  }

  /** A place is free: the first who waits for it gets it. */
  function leave({ port }: Arrived): void {
    filled.set(port, countOf(port) - 1);
    const waiting = parked.get(port);
    const [first] = waiting ?? [];
    if (first === undefined) return;
    waiting?.delete(first);
    enter(first.arrived);
    first.place();
  }

  function pump(): void {
    if (isHalted) return;
    while (active < concurrency) {
      const group = gathering.next(timer.now());
      for (const arrived of gathering.left()) leave(arrived);
      if (group === undefined) break;
      start(group);
    }
    gathering.expire(timer.now());
    cancelWake();
    const dueMs = gathering.dueMs();
    if (dueMs !== undefined && dueMs > timer.now()) cancelWake = timer.after(dueMs - timer.now(), pump);
  }

  function start(group: readonly Arrived[]): void {
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

  function put(port: string, message: Message, signal?: AbortSignal): Promise<Placed> {
    return new Promise((resolve, reject) => {
      let settle: (settled: Settled) => void = () => {};
      const settled = new Promise<Settled>((end) => {
        settle = end;
      });
      const arrived: Arrived = { port, message, atMs: timer.now(), settle };
      if (isHalted) settle(refusal);
      else if (countOf(port) < (buffers.get(port) ?? 1)) {
        enter(arrived);
        pump();
      } else {
        onFull(port, message);
        return park(arrived, () => resolve({ settled }), reject, signal);
      }
      resolve({ settled });
    });
  }

  function park(
    arrived: Arrived,
    onPlaced: () => void,
    reject: (reason: unknown) => void,
    signal?: AbortSignal,
  ): void {
    const waiting = parked.get(arrived.port) ?? new Set();
    parked.set(arrived.port, waiting);
    const give = () => {
      waiting.delete(entry);
      reject(signal?.reason);
    };
    const entry: Parked = {
      arrived,
      place() {
        signal?.removeEventListener("abort", give);
        onPlaced();
      },
    };
    waiting.add(entry);
    signal?.addEventListener("abort", give, { once: true });
  }

  return {
    put,
    pump,
    halt() {
      isHalted = true;
      cancelWake();
      for (const arrived of gathering.drop()) arrived.settle(refusal);
      for (const waiting of parked.values()) {
        for (const { arrived, place } of waiting) {
          place();
          arrived.settle(refusal);
        }
        waiting.clear();
      }
    },
    counts() {
      const waiting = [...parked.values()].reduce((sum, { size }) => sum + size, gathering.size());
      return { waiting, active };
    },
  };
}
