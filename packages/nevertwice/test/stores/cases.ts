/** Holds a store to every published case, one test each. */
import { describe, expect, inject, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { type StoreCase, type StoreUnderTest, storeCases } from "../../src/testing/store-cases.ts";
import type { ServiceName } from "../services/services.ts";

/** Names of cases, each with why it cannot be asked of a store. */
export type Without = Readonly<Record<string, string>>;

const NOT_OURS = "the store's clock is its server's, which nobody moves here";

/** For a store that is asked in real time. On a server with `clock: true` and an `advance` nothing is left out. */
export const CLOCK_CANNOT_GO_BACK: Without = {
  "when the clock went back, the key is not handed over at once": NOT_OURS,
  "when the clock went back, the key can be had one lease after somebody asked": NOT_OURS,
  "when the clock went back, the lease that counts is the last one written": NOT_OURS,
  "when the clock went back, the owner may still complete": NOT_OURS,
  "a fence grows though the clock went back": NOT_OURS,
};

const WAITERS_POLL = "a store without `watch` wakes nobody: its waiters poll";

export const NO_WATCH: Without = {
  "a waiter is woken by complete": WAITERS_POLL,
  "a waiter is woken by abandon as released": WAITERS_POLL,
  "a waiter is woken by abandon as unknown": WAITERS_POLL,
  "a waiter is woken by abandon as unrun": WAITERS_POLL,
  "a waiter is woken by forget": WAITERS_POLL,
  "a waiter is woken by reopen": WAITERS_POLL,
  "every waiter of a key is woken": WAITERS_POLL,
  "a key may be watched before anybody claims it": WAITERS_POLL,
  "a woken waiter finds what it was woken for": WAITERS_POLL,
  "a waiter that stopped is not woken, and the others still are": WAITERS_POLL,
};

/** For a store whose database removes what is past its time. */
export const COLLECTS_ITSELF: Without = {
  "purge removes what is past its time": "the database does so itself, some time later",
};

export interface StoreCasesOptions {
  /** The shared server that the store needs: where it cannot be had, every case is skipped and says why. */
  readonly service?: ServiceName;
  /**
   * Cases that cannot be asked of this store by its nature. They are no skipped tests, since in CI a skip is a failure;
   * one test asks them all the same, and fails once one of them can be asked.
   */
  readonly without?: Without;
  /** For stores whose `advance` moves a clock that they share: the cases run one after another, not at once. */
  readonly oneByOne?: boolean;
}

type Create = () => Store | StoreUnderTest | Promise<Store | StoreUnderTest>;

export function describeStoreCases(title: string, create: Create, options: StoreCasesOptions = {}): void {
  const { service, without = {}, oneByOne = false } = options;
  const found = service === undefined ? "" : inject("services")[service];
  const cases = storeCases(create);

  describe(title, { concurrent: !oneByOne }, () => {
    for (const asked of cases.filter(({ name }) => !(name in without)))
      test(`${asked.guarantee}: ${asked.name}`, async ({ skip }) => {
        if (typeof found !== "string") skip(found.skipped);
        const answer = await asked.run();
        if (answer) skip(answer.skipped);
      });

    test("is asked every case that can be asked of it", async ({ skip }) => {
      if (typeof found !== "string") skip(found.skipped);
      expect(await unaskable(cases, Object.keys(without))).toEqual(Object.keys(without));
    });
  });
}

/** Those of the names that are names of cases, and are skipped. */
async function unaskable(cases: readonly StoreCase[], names: readonly string[]): Promise<readonly string[]> {
  const skipped: string[] = [];
  for (const name of names) if (await cases.find((each) => each.name === name)?.run()) skipped.push(name);
  return skipped;
}
