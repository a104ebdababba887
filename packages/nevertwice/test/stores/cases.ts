/** Runs every published case against a store, one test each. */
import { describe, expect, inject, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { type StoreCase, type StoreUnderTest, storeCases } from "../../src/testing/store-cases.ts";
import type { ServiceName } from "../services/services.ts";
import { documentedCases } from "../stores-doc.ts";

/** Names of cases, each with the reason why a store cannot run it. */
export type Without = Readonly<Record<string, string>>;

const NOT_OURS = "the store uses the clock of its server, which this test does not move";

/** For a store that runs in real time. On a server with `clock: true` and an `advance`, no case is left out. */
export const CLOCK_CANNOT_GO_BACK: Without = {
  "when the clock went back, the key is not handed over at once": NOT_OURS,
  "when the clock went back, the key can be had one lease after somebody asked": NOT_OURS,
  "when the clock went back, the lease that counts is the last one written": NOT_OURS,
  "when the clock went back, the owner may still complete": NOT_OURS,
  "a fence grows though the clock went back": NOT_OURS,
};

const WAITERS_POLL = "a store without `watch` wakes no waiter: its waiters poll";

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

const NO_INDEX = "the database has no index for it, and a scan has no order";

/** For a store that finds records by a scan. */
export const SCANS: Without = {
  "a list shows the newest claim first": NO_INDEX,
  "pages of a list stay as they are while new claims arrive": NO_INDEX,
  "every namespace that has records is listed once": NO_INDEX,
};

/** For a store whose database removes expired records itself. */
export const COLLECTS_ITSELF: Without = {
  "purge removes what is past its time": "the database does this itself, some time later",
};

export interface StoreCasesOptions {
  /** The shared server that the store needs. If it is not available, every case is skipped with the reason. */
  readonly service?: ServiceName;
  /**
   * Cases that this store cannot run by its nature. They are not skipped tests, since a skip is a failure in CI;
   * one test runs them anyway, and fails if one of them passes.
   */
  readonly without?: Without;
  /** For stores whose `advance` moves a shared clock: the cases run one after another. */
  readonly oneByOne?: boolean;
  /** The row of docs/stores.md that counts these cases. */
  readonly row?: string;
}

type Create = () => Store | StoreUnderTest | Promise<Store | StoreUnderTest>;

export function describeStoreCases(title: string, create: Create, options: StoreCasesOptions = {}): void {
  describeCases(title, storeCases(create), options);
}

/** For cases that run somewhere else, such as in another runtime. */
export function describeCases(
  title: string,
  cases: readonly StoreCase[],
  options: StoreCasesOptions = {},
): void {
  const { service, without = {}, oneByOne = false, row } = options;
  const found = service === undefined ? "" : inject("services")[service];

  describe(title, { concurrent: !oneByOne }, () => {
    let passed = 0;
    for (const storeCase of cases.filter(({ name }) => !(name in without)))
      test(`${storeCase.guarantee}: ${storeCase.name}`, async ({ skip }) => {
        if (typeof found !== "string") skip(found.skipped);
        const answer = await storeCase.run();
        if (answer) skip(answer.skipped);
        passed++;
      });

    test("runs every case that it can run", async ({ skip }) => {
      if (typeof found !== "string") skip(found.skipped);
      expect(await casesThatSkip(cases, Object.keys(without))).toEqual(Object.keys(without));
    });

    if (row !== undefined)
      test.sequential("docs/stores.md counts the cases that pass, and says why others are left out", ({
        skip,
      }) => {
        if (typeof found !== "string") skip(found.skipped);
        expect(documentedCases(row)).toEqual({ passed, leftOut: leftOut(without) });
      });
  });
}

/** As docs/stores.md says it: `10 because …; 3 because …`. */
export function leftOut(without: Without): string {
  const counts = new Map<string, number>();
  for (const reason of Object.values(without)) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  return [...counts].map(([reason, count]) => `${count} because ${reason}`).join("; ") || "none";
}

/** The names that belong to cases and are skipped. */
async function casesThatSkip(
  cases: readonly StoreCase[],
  names: readonly string[],
): Promise<readonly string[]> {
  const skipped: string[] = [];
  for (const name of names) if (await cases.find((each) => each.name === name)?.run()) skipped.push(name);
  return skipped;
}
