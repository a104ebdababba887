/** One direction of a connection through the proxy: chunks pass in order, at once, later, or when they are released. */
import type { Socket } from "node:net";

export interface ProxyLane {
  push(chunk: Buffer): void;
  /** Holds everything back, or releases it. */
  hold(isHeld: boolean): void;
  /** Delays what is pushed from now on by this much. */
  delay(ms: number): void;
  /** Ends the socket once everything before has passed. */
  end(): void;
}

interface Waiting {
  /** Undefined is the end. */
  readonly chunk: Buffer | undefined;
  readonly dueAt: number;
}

export function startLane(to: Socket): ProxyLane {
  const queue: Waiting[] = [];
  let isHeld = false;
  let delayMs = 0;
  let timer: NodeJS.Timeout | undefined;

  function flush(): void {
    clearTimeout(timer);
    for (let first = queue[0]; first !== undefined && !isHeld; first = queue[0]) {
      const earlyMs = first.dueAt - performance.now();
      if (earlyMs > 0) {
        timer = setTimeout(flush, earlyMs);
        return;
      }
      queue.shift();
      if (to.destroyed) continue;
      if (first.chunk === undefined) to.end();
      else to.write(first.chunk);
    }
  }

  const add = (chunk: Buffer | undefined): void => {
    queue.push({ chunk, dueAt: performance.now() + delayMs });
    flush();
  };

  return {
    push: add,
    hold(value) {
      isHeld = value;
      flush();
    },
    delay(ms) {
      delayMs = ms;
    },
    end: () => add(undefined),
  };
}
