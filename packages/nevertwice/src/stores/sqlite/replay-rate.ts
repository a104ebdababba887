/** Estimates which share of the latest claims were replays, to decide whether a look for one is worth its time. */

export interface ReplayRate {
  add(isReplay: boolean): void;
  /** More than half of the latest claims were replays. */
  isHigh(): boolean;
}

/** About how many claims count. 22 replays in a row make the rate high; as many others make it low again. */
const CLAIMS = 32;
/**
 * A look that finds nothing costs time, and more after a commit, which empties the connection's page cache. A look that
 * finds its outcome saves the message to the worker, which is most of a call alone, but little of a call in a large group.
 */
const HIGH = 0.5;

export function createReplayRate(): ReplayRate {
  let rate = 0;
  return {
    add(isReplay) {
      rate += ((isReplay ? 1 : 0) - rate) / CLAIMS;
    },
    isHigh: () => rate > HIGH,
  };
}
