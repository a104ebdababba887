/**
 * The waiters of one object. Each is a response whose body stays open until its record is settled. The object says so with
 * one byte, and ends the body. The runtime does not always tell an object that a waiter has gone, so each is also limited
 * in time.
 */
import { createWatchers } from "../watchers.ts";

export interface HeldWaitersOptions {
  readonly maxWaiters: number;
  readonly maxWaitMs: number;
}

export interface HeldWaiters {
  /** The response of a waiter. Undefined if there are too many waiters. */
  hold(id: string, gone: AbortSignal | undefined): Response | undefined;
  wake(ids: Iterable<string>): void;
}

export function createHeldWaiters({ maxWaiters, maxWaitMs }: HeldWaitersOptions): HeldWaiters {
  const watchers = createWatchers();
  let held = 0;

  return {
    hold(id, gone) {
      if (held >= maxWaiters) return undefined;
      held++;
      let end = (_byte?: Uint8Array) => {};
      const body = new ReadableStream<Uint8Array>({
        start(controller) {
          let isOver = false;
          end = (byte) => {
            if (isOver) return;
            isOver = true;
            held--;
            clearTimeout(timer);
            stop();
            if (byte !== undefined) controller.enqueue(byte);
            controller.close();
          };
          const stop = watchers.watch(id, () => end(SETTLED));
          const timer = setTimeout(end, maxWaitMs);
        },
        cancel: () => end(),
      });
      gone?.addEventListener("abort", () => end());
      return new Response(body);
    },
    wake: watchers.wake,
  };
}

const SETTLED = new Uint8Array([1]);
