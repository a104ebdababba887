/** Virtual time: runs events in order, and settles every promise between two of them. */
import type { Timer } from "../../core/clock.ts";

interface Event {
  readonly at: number;
  readonly order: number;
  readonly action: () => void;
  isCancelled: boolean;
}

export interface World {
  now(): number;
  /** Runs `action` after `ms` of virtual time; the answer cancels it. */
  after(ms: number, action: () => void): () => void;
  /** Runs events, one at a time, until none is left or `isOver` says so. Answers how many ran. */
  run(isOver: () => boolean): Promise<number>;
}

/** Every promise that can settle has settled when this resolves. */
const settled = () => new Promise<void>((resolve) => void setImmediate(resolve));

export function createWorld(): World {
  const heap: Event[] = [];
  let time = 0;
  let orders = 0;

  const isBefore = (a: Event, b: Event) => a.at < b.at || (a.at === b.at && a.order < b.order);

  function push(event: Event): void {
    let i = heap.length;
    heap.push(event);
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (!isBefore(event, heap[parent] as Event)) break;
      heap[i] = heap[parent] as Event;
      i = parent;
    }
    heap[i] = event;
  }

  function pop(): Event | undefined {
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let i = 0;
    for (;;) {
      const left = 2 * i + 1;
      if (left >= heap.length) break;
      const right = left + 1;
      const child = right < heap.length && isBefore(heap[right] as Event, heap[left] as Event) ? right : left;
      if (!isBefore(heap[child] as Event, last)) break;
      heap[i] = heap[child] as Event;
      i = child;
    }
    heap[i] = last;
    return first;
  }

  return {
    now: () => time,
    after(ms, action) {
      const event: Event = { at: time + Math.max(0, ms), order: orders++, action, isCancelled: false };
      push(event);
      return () => {
        event.isCancelled = true;
      };
    },
    async run(isOver) {
      let events = 0;
      await settled();
      while (!isOver()) {
        const event = pop();
        if (event === undefined) break;
        if (event.isCancelled) continue;
        time = event.at;
        event.action();
        await settled();
        events++;
      }
      return events;
    },
  };
}

/** A simulated process. While it is paused its timers and replies wait; after a crash they never arrive. */
export interface Process {
  readonly timer: Timer;
  isDead(): boolean;
  pause(ms: number): void;
  crash(): void;
  /** Delivers something from outside: now, after the pause, or never. */
  arrive(action: () => void): void;
}

export function createProcess(world: World): Process {
  let pausedUntil = 0;
  let isDead = false;

  function arrive(action: () => void): void {
    if (isDead) return;
    if (world.now() < pausedUntil) world.after(pausedUntil - world.now(), () => arrive(action));
    else action();
  }

  return {
    timer: {
      now: world.now,
      after(ms, action) {
        let isCancelled = false;
        const cancel = world.after(ms, () => arrive(() => !isCancelled && action()));
        return () => {
          isCancelled = true;
          cancel();
        };
      },
    },
    isDead: () => isDead,
    pause(ms) {
      pausedUntil = Math.max(pausedUntil, world.now() + ms);
    },
    crash() {
      isDead = true;
    },
    arrive,
  };
}
