/** Tests that the first page of a list comes as fast from very many keys as from few. */
import { describe, expect, type TestContext, test } from "vitest";
import type { ListRequest, Store } from "../../src/core/store.ts";
import { dropListIndexes } from "./dropped-indexes.ts";
import { count, medianOf, ms, report } from "./figures.ts";
import { fill, OPERATIONS, SCOPES } from "./filling.ts";
import { timeClaimsAtOnce } from "./load.ts";
import { sizeOf } from "./sizes.ts";
import { openSubject, POSTGRES, SQLITE, type Subject } from "./subjects.ts";

const PAGE = 50;

/** Filled without the indexes of lists, which `migrate` then makes as on the table of an earlier release. */
async function openFilled(context: TestContext, subject: Subject, records: number): Promise<Store> {
  const url = await subject.create(context);
  const first = await openSubject(context, url);
  await readPage(first, {}); // SQLite makes its tables at the first call.
  await dropListIndexes(url);
  await fill({ store: first, url, records, isExpired: false, isVaried: true });
  return openSubject(context, url);
}

type Filter = Omit<ListRequest, "namespace" | "limit">;

/** Neither SQLite's index nor Postgres's has the operation: both look at some rows and leave out the others. */
const FILTERS: Readonly<Record<string, Filter>> = {
  "all keys": {},
  "one operation": { operation: `operation-${OPERATIONS - 1}` },
  "one scope": { scope: `customer-${SCOPES - 1}` },
};

async function readPage(store: Store, filter: Filter) {
  const startedAt = performance.now();
  const page = await store.list?.({ namespace: "scale", limit: PAGE, ...filter });
  return { tookMs: performance.now() - startedAt, page };
}

describe("the first page of a list takes as long among many keys as among few", () => {
  const { few, many, windows, worst } = sizeOf("lists");
  for (const subject of [SQLITE, POSTGRES])
    test(`on ${subject.name}`, async (context) => {
      const [small, large] = await Promise.all(
        [few, many].map((records) => openFilled(context, subject, records)),
      );
      if (small === undefined || large === undefined) throw new Error("two stores are compared");
      for (const [name, filter] of Object.entries(FILTERS)) {
        const took = { small: [] as number[], large: [] as number[] };
        for (const store of [small, large]) await readPage(store, filter);
        // In turns, so that other load on the machine affects both equally.
        for (let window = 0; window < windows; window++) {
          took.small.push((await readPage(small, filter)).tookMs);
          const { tookMs, page } = await readPage(large, filter);
          took.large.push(tookMs);
          expect(page?.records.length, name).toBeGreaterThan(0);
          const claimed = page?.records.map(({ claimedAt }) => claimedAt) ?? [];
          expect(claimed, "newest first").toEqual([...claimed].sort((a, b) => b - a));
        }
        const ratio = medianOf(took.large) / medianOf(took.small);
        await report(large, {
          trial: "The first page of a list",
          figures: `${PAGE} of ${name} take ${ms(medianOf(took.small))} among ${count(few)} keys and ${ms(medianOf(took.large))} among ${count(many)} (median of ${count(windows)}): ${ratio.toFixed(2)} times`,
        });
        expect(ratio, name).toBeLessThan(worst);
      }
    });
});

describe("every key is on one page of a list, in order", () => {
  for (const subject of [SQLITE, POSTGRES])
    test(`on ${subject.name}`, async (context) => {
      const { keys, page: limit } = sizeOf("list-walk");
      const store = await openFilled(context, subject, keys);
      const seen: string[] = [];
      let after: string | undefined;
      let pages = 0;
      do {
        const page = await store.list?.({ namespace: "scale", limit, after });
        seen.push(...(page?.records.map(({ parts }) => parts?.key ?? "") ?? []));
        after = page?.next;
        pages++;
        // Keys that are claimed between two pages move none of the others.
        await timeClaimsAtOnce(store, 3);
      } while (after !== undefined);
      // Numbers, since a difference of a million texts takes minutes to print.
      const numbers = seen.filter((key) => key.startsWith("order-")).map((key) => Number(key.slice(6)));
      const misplaced = numbers.findIndex((number, index) => number !== index + 1);
      expect({ misplaced, last: numbers.at(-1) }).toEqual({ misplaced: -1, last: keys });
      const startedAt = performance.now();
      const found: (string | undefined)[] = [];
      do {
        const { page } = await readPage(store, { key: `order-${keys}`, after });
        found.push(...(page?.records.map(({ parts }) => parts?.key) ?? []));
        after = page?.next;
      } while (after !== undefined);
      expect(found).toEqual([`order-${keys}`]);
      await report(store, {
        trial: "Every page of a list",
        figures: `${count(keys)} keys on ${count(pages)} pages, each key once and in order, while others were claimed between the pages; the oldest key by its exact text in ${ms(performance.now() - startedAt)}`,
      });
    });
});
