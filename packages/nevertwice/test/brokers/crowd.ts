/** Work that counts how many messages a consumer processes at once. */
import { setTimeout as sleep } from "node:timers/promises";
import { deferred } from "../deferred.ts";

export interface Crowd {
  work(): Promise<void>;
  done(): number;
  /** The most that ran at the same time. */
  most(): number;
}

/** The work waits until `size` messages run at once, so that a slow start does not hide the limit. */
export function crowdOf(size: number): Crowd {
  let most = 0;
  let underWay = 0;
  let done = 0;
  const { promise: full, resolve: fill } = deferred();
  return {
    async work() {
      most = Math.max(most, ++underWay);
      if (underWay === size) fill();
      await full;
      await sleep(5);
      underWay--;
      done++;
    },
    done: () => done,
    most: () => most,
  };
}
