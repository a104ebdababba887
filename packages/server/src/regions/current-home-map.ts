/** The newest home map of the store, for the requests of one gateway. */
import { NevertwiceError } from "nevertwice";
import type { HomeMap } from "./home-map.ts";
import type { HomeMapLog } from "./home-map-log.ts";

export interface CurrentHomeMap {
  /** The newest map, as read at most `FRESH_MS` ago: good enough to find the way of a request, not to run it. */
  lately(): Promise<HomeMap>;
  /** The newest map, read from the store after this call. */
  now(): Promise<HomeMap>;
}

/** A map that is older is read again. */
const FRESH_MS = 1_000;

/** `now` is a monotonic clock in milliseconds. Both methods throw `unavailable` if the store cannot be read, or has no map. */
export function createCurrentHomeMap(
  log: Pick<HomeMapLog, "newest">,
  now: () => number = () => performance.now(),
): CurrentHomeMap {
  let known: HomeMap | undefined;
  let readAt = Number.NEGATIVE_INFINITY;
  let reading: Promise<HomeMap> | undefined;

  async function readNewest(): Promise<HomeMap> {
    const startedAt = now();
    const map = await log.newest(known);
    if (map === undefined)
      throw new NevertwiceError(
        "unavailable",
        "this region has no home map, so no key has a home; publish one with `nevertwice regions init`. Nothing was done.",
      );
    // Reads overlap, and an earlier one may end later.
    if (known === undefined || map.version >= known.version) known = map;
    readAt = Math.max(readAt, startedAt);
    return known;
  }

  return {
    async lately() {
      if (known !== undefined && now() - readAt < FRESH_MS) return known;
      reading ??= readNewest().finally(() => {
        reading = undefined;
      });
      return reading;
    },
    now: readNewest,
  };
}
