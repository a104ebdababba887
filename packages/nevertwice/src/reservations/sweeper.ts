/** The sweeper: finds holds whose time is over and records that they expired. */

import type { Timer } from "../core/clock.ts";
import { callWithin, TimedOut } from "../core/store-call.ts";
import { createSweepRequest } from "./action-request.ts";
import type { Answer } from "./answer.ts";
import { MayBeWritten, type ReservationStore, type Rules } from "./store.ts";

/** How many pages one sweep reads. If every hold on them is stuck, the next sweep continues after them. */
const MAX_PAGES = 10;
/** How often an expiry is tried whose result is not known. */
const TRIES = 3;

export interface SweeperOptions {
  readonly store: ReservationStore;
  readonly rules: Rules;
  readonly timer: Timer;
  /** How long one expiry may take. */
  readonly actionMs: number;
}

export interface Sweeper {
  /** Expires up to `limit` holds whose time is over. Returns how many it expired itself; other sweepers count their own. */
  sweep(limit: number): Promise<number>;
}

/**
 * Each expiry is its own transaction. A hold that cannot be expired is skipped, so that it does not block the others: its
 * row cannot be read, or its time is not over because the clock was set back.
 */
export function createSweeper({ store, rules, timer, actionMs }: SweeperOptions): Sweeper {
  const { namespace } = rules;
  /** Where the next sweep starts: after the last hold that was tried. Undefined: at the oldest. */
  let resumeAfter: string | undefined;

  async function sweep(limit: number): Promise<number> {
    const tried = new Set<string>();
    let after = resumeAfter;
    let hasWrapped = after === undefined;
    let expired = 0;
    for (let pages = 0; pages < MAX_PAGES && expired < limit; pages++) {
      const ids = await store.elapsed(namespace, limit, after);
      const fresh = ids.filter((id) => !tried.has(id));
      for (const id of fresh) {
        if (expired === limit) break;
        tried.add(id);
        after = id;
        // If the sweep fails here, for example at a locked hold, the next sweep continues after this hold.
        resumeAfter = id;
        if (await expireOne(id)) expired++;
      }
      if (expired === limit || (ids.length === limit && fresh.length > 0)) continue;
      // This was the last page. A sweep that did not start at the oldest hold now reads from there.
      after = undefined;
      if (hasWrapped) break;
      hasWrapped = true;
    }
    resumeAfter = hasWrapped && tried.size === expired ? undefined : after;
    return expired;
  }

  /** Whether this call expired the hold. A rejected expiry is rolled back and leaves nothing in the store. */
  async function expireOne(id: string): Promise<boolean> {
    const request = createSweepRequest(namespace, id);
    for (let tries = 1; ; tries++) {
      try {
        const [answer] = await callWithin(
          { store: {}, timer },
          actionMs,
          async (): Promise<readonly (Answer | undefined)[]> =>
            store.transactSkippingLocked?.([request], rules) ?? store.transact([request], rules),
        );
        // Undefined: a transaction of the application has locked it. A later sweep comes back to it.
        return answer !== undefined;
      } catch (error) {
        // The store does not answer: leave it alone until the next sweep.
        if (error instanceof TimedOut) throw error;
        // Retrying is safe: only this call uses the key, so an answer stored under it is the answer of this call.
        if (!(error instanceof MayBeWritten) || tries === TRIES) return false;
      }
    }
  }

  return { sweep };
}
