/** Removes expired records, and looks for held ones that have lapsed, so that later purges need not look at them. */
import type { Store } from "../../core/store.ts";
import { allCancelled, type RunStatement, type Statement } from "./client.ts";
import type { SearchReport } from "./held-search.ts";

/** No sound record can be purged before this. */
const FIRST_TIME = "0";
const NOTHING = { removed: 0, isFull: false };

/**
 * Each purge continues where the last one has ended. While an old transaction keeps the server from cleaning up, the index
 * still leads to every record that was removed, and each purge would step over all of them. A purge that comes to the end
 * begins again with the earliest time: another transaction may have locked a record meanwhile, or written an earlier time.
 */
export function createPurge(
  run: RunStatement,
  statement: Statement,
  searchHeld: (bound: { readonly signal?: AbortSignal | undefined }) => Promise<Pick<SearchReport, "more">>,
): Store["purge"] {
  let from = FIRST_TIME;

  async function purgeFrom(start: string, limit: number, isCancelled: () => boolean) {
    const [row] = await run(statement, [String(limit), start], isCancelled);
    const isFull = Number(row?.[0]) === limit;
    from = isFull ? (row?.[2] ?? FIRST_TIME) : FIRST_TIME;
    return { removed: Number(row?.[1]), isFull };
  }

  /** While an old transaction lasts, this may take longer than a statement may. Then the next purge continues at `start`. */
  async function purgeEarlier(start: string, limit: number, isCancelled: () => boolean) {
    try {
      return await purgeFrom(FIRST_TIME, limit, isCancelled);
    } catch {
      from = start;
      return NOTHING;
    }
  }

  return async (limit, bound = {}) => {
    const isCancelled = allCancelled([bound]);
    const start = from;
    const found = await purgeFrom(start, limit, isCancelled);
    const isWhole = found.isFull || start === FIRST_TIME;
    const rest = isWhole ? NOTHING : await purgeEarlier(start, limit - found.removed, isCancelled);
    // A purge does not fail because of the search: a count of undecided records repeats it and reports the error.
    const search = await searchHeld(bound).catch(() => ({ more: false }));
    return { removed: found.removed + rest.removed, more: search.more || found.isFull || rest.isFull };
  };
}
