/**
 * The cases that every store must pass, as plain objects that need no test runner. `nevertwice/testing` publishes them,
 * so that authors and users of other stores can run the same cases.
 */
import type { Store } from "../core/store.ts";
import { abandonFrees } from "./cases/abandon-frees.ts";
import { bytesExact } from "./cases/bytes-exact.ts";
import { completeIsFinal } from "./cases/complete-is-final.ts";
import { completeTwiceIsOnce } from "./cases/complete-twice-is-once.ts";
import { conflictWins } from "./cases/conflict-wins.ts";
import { isUnexpected } from "./cases/expect.ts";
import { expiredIsAbsent } from "./cases/expired-is-absent.ts";
import { fenceGrows } from "./cases/fence-grows.ts";
import { GUARANTEES, type Guarantee } from "./cases/guarantee.ts";
import { historyKept } from "./cases/history-kept.ts";
import { identitiesApart } from "./cases/identities-apart.ts";
import { leaseEnds } from "./cases/lease-ends.ts";
import { listsFindRecords } from "./cases/lists-find-records.ts";
import { oneOwner } from "./cases/one-owner.ts";
import { ownClaimRecognised } from "./cases/own-claim-recognised.ts";
import { purgeSparesTheLiving } from "./cases/purge-spares-the-living.ts";
import { retentionEnds } from "./cases/retention-ends.ts";
import { staleTokenRefused } from "./cases/stale-token-refused.ts";
import { stepsStayDone } from "./cases/steps-stay-done.ts";
import { takeoverIsSingle } from "./cases/takeover-is-single.ts";
import { type GuaranteeCase, type GuaranteeCases, missing, startTrial } from "./cases/trial.ts";
import { waitersWake } from "./cases/waiters-wake.ts";

export { GUARANTEES, type Guarantee } from "./cases/guarantee.ts";

/** The store that the cases test. */
export interface StoreUnderTest {
  /** An empty store. */
  readonly store: Store;
  /** Moves the store's clock, back if `ms` is negative. Without it the cases really wait. */
  readonly advance?: (ms: number) => void | Promise<void>;
  /** Called when the case is over. Without it the store is closed. */
  readonly dispose?: () => void | Promise<void>;
}

/** A case that a store must pass. */
export interface StoreCase {
  /** A sentence about behaviour. */
  readonly name: string;
  /** The guarantee that it proves. */
  readonly guarantee: Guarantee;
  /**
   * Resolves if the store passes, with the reason for a skip if the case cannot run on this store. Rejects with an error
   * that says what was expected, what came, and why it matters.
   */
  // biome-ignore lint/suspicious/noConfusingVoidType: a case that passed returns nothing.
  run(): Promise<void | {
    /** Why the case cannot run on this store. */
    readonly skipped: string;
  }>;
}

const CASES: Readonly<Record<Guarantee, GuaranteeCases>> = {
  "one-owner": oneOwner,
  "conflict-wins": conflictWins,
  "own-claim-recognised": ownClaimRecognised,
  "lease-ends": leaseEnds,
  "fence-grows": fenceGrows,
  "stale-token-refused": staleTokenRefused,
  "complete-is-final": completeIsFinal,
  "complete-twice-is-once": completeTwiceIsOnce,
  "abandon-frees": abandonFrees,
  "retention-ends": retentionEnds,
  "expired-is-absent": expiredIsAbsent,
  "identities-apart": identitiesApart,
  "bytes-exact": bytesExact,
  "purge-spares-the-living": purgeSparesTheLiving,
  "waiters-wake": waitersWake,
  "takeover-is-single": takeoverIsSingle,
  "steps-stay-done": stepsStayDone,
  "lists-find-records": listsFindRecords,
  "history-kept": historyKept,
};

type Create = () => Store | StoreUnderTest | Promise<Store | StoreUnderTest>;

/**
 * The cases of all guarantees, in their order. Each run calls `create` itself and uses its own keys, so
 * `create` may return a store on the same database with other records in it. Cases may run at once unless they share a clock that
 * `advance` moves.
 * @example
 * ```ts
 * import { memoryStore } from "nevertwice/stores/memory";
 * import { manualClock, storeCases } from "nevertwice/testing";
 *
 * const createStore = () => {
 *   const clock = manualClock();
 *   return { store: memoryStore({ clock }), advance: (ms: number) => clock.advance(ms) };
 * };
 * for (const { run } of storeCases(createStore).slice(0, 3)) await run(); // each as a test of your runner
 * ```
 */
export function storeCases(create: Create): readonly StoreCase[] {
  return GUARANTEES.flatMap((guarantee) =>
    Object.entries(CASES[guarantee]).map(([name, asked]) => ({
      name,
      guarantee,
      run: () => runCase(create, asked, `${guarantee}: ${name}`),
    })),
  );
}

async function runCase(create: Create, asked: GuaranteeCase, title: string): ReturnType<StoreCase["run"]> {
  const made = await create();
  const { store, advance, dispose }: StoreUnderTest = "store" in made ? made : { store: made };
  const skipped = missing(asked.needs ?? [], store, advance);
  const [failed] = await Promise.allSettled([
    skipped === undefined && asked.check(startTrial(store, advance)),
  ]);
  const [left] = await Promise.allSettled([dispose === undefined ? store.close() : dispose()]);
  // The failure of a case is reported even if the store then fails to close.
  if (failed.status === "rejected") throw failure(title, asked.why, failed.reason);
  if (left.status === "rejected") throw left.reason;
  return skipped === undefined ? undefined : { skipped };
}

function failure(title: string, why: string, error: unknown): Error {
  const said = isUnexpected(error) ? error.message : `the store failed\n  came:     ${String(error)}`;
  return new Error(`${title}\n  asked:    ${said}\n  why:      ${why}`, { cause: error });
}
