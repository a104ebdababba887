/** Tests lists of one scope and of one key in Postgres, whose indexes are in periods of time. */

import { expect, onTestFinished, test } from "vitest";
import { toIdentity } from "../../src/core/identity.ts";
import type { ListRequest } from "../../src/core/store.ts";
import { LIST_INDEXES, REPLACED_INDEXES } from "../../src/stores/postgres/lists-sql.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { sharedUrl } from "../services/services.ts";
import { claimOf, createDatabase, poolOf, query } from "./postgres/database.ts";

const SECOND_US = 1_000_000;
const HOUR_US = 3_600 * SECOND_US;

test("records of a scope and of a key are listed newest first over all periods, page by page, until a time", async (context) => {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  const pool = poolOf(url);
  onTestFinished(() => pool.end());
  const { list, ...store } = postgresStore({ client: pool });
  if (list === undefined) throw new Error("the store lists nothing");
  await store.migrate();
  const made: string[] = [];
  for (let index = 0; index < 24; index++) {
    const parts = { namespace: "n", scope: `s-${index % 2}`, operation: `o-${index}`, key: `k-${index % 3}` };
    const { id, ...claim } = { ...claimOf(), parts };
    await store.claim({ ...claim, id });
    // Some periods have several records, some have none, and one lies years ago.
    const ago = index === 23 ? 9_000 * HOUR_US : Math.floor(index / 3) * 2 * HOUR_US + index * SECOND_US;
    await query(url, `UPDATE nevertwice_records SET claimed_at = claimed_at - ${ago} WHERE id = '\\x${id}'`);
    made.push(parts.operation);
  }
  const times = new Map<string | undefined, number>();
  const read = async (filter: Partial<ListRequest>) => {
    const operations: (string | undefined)[] = [];
    let after: string | undefined;
    do {
      const page = await list({ namespace: "n", limit: 2, after, ...filter });
      for (const { parts, claimedAt } of page.records) times.set(parts?.operation, claimedAt);
      operations.push(...page.records.map(({ parts }) => parts?.operation));
      after = page.next;
    } while (after !== undefined);
    return operations;
  };
  const every = (count: number, first: number) => made.filter((_, index) => index % count === first);
  expect(await read({})).toEqual(made);
  expect(await read({ scope: "s-1" })).toEqual(every(2, 1));
  expect(await read({ key: "k-2" })).toEqual(every(3, 2));
  expect(await read({ scope: "s-1", key: "k-2" })).toEqual(every(6, 5));
  expect(await read({ scope: "s-1", operation: "o-23" })).toEqual(["o-23"]);
  expect(await read({ scope: "nobody" })).toEqual([]);
  expect(await read({ key: "k-2", before: times.get("o-11") })).toEqual(every(3, 2).slice(3));
});

test("scopes and keys are found whatever their parts end with", async (context) => {
  const pool = poolOf(await createDatabase(sharedUrl(context, "postgres")));
  onTestFinished(() => pool.end());
  const { list, ...store } = postgresStore({ client: pool });
  if (list === undefined) throw new Error("the store lists nothing");
  await store.migrate();
  // The text between two parts is `","`.
  const texts = ["a", 'a",', '","', 'a","b', "\\"];
  const made = texts.flatMap((namespace) =>
    texts.flatMap((scope) =>
      texts.flatMap((operation) => texts.map((key) => toIdentity({ namespace, scope, operation, key }))),
    ),
  );
  await Promise.all(made.map(({ id, parts }) => store.claim({ ...claimOf(), id, parts })));
  const idsOf = (found: readonly { readonly id: string }[]) => found.map(({ id }) => id).sort();
  for (const namespace of texts)
    for (const text of texts) {
      const own = made.filter(({ parts }) => parts.namespace === namespace);
      const byScope = await list({ namespace, scope: text, limit: 1_000 });
      expect(idsOf(byScope.records)).toEqual(idsOf(own.filter(({ parts }) => parts.scope === text)));
      const byKey = await list({ namespace, key: text, limit: 1_000 });
      expect(idsOf(byKey.records)).toEqual(idsOf(own.filter(({ parts }) => parts.key === text)));
    }
});

test("a migration replaces the indexes of earlier releases", async (context) => {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  const pool = poolOf(url);
  onTestFinished(() => pool.end());
  const store = postgresStore({ client: pool, schema: "apart" });
  await store.migrate();
  for (const name of REPLACED_INDEXES)
    await query(url, `CREATE INDEX ${name} ON apart.nevertwice_records (claimed_at)`);
  await Promise.all([store.migrate(), store.migrate()]);
  const rows = await query<{ name: string }>(
    url,
    "SELECT indexname AS name FROM pg_indexes WHERE schemaname = 'apart'",
  );
  const names = rows.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(LIST_INDEXES.map(([name]) => name)));
  expect(names.filter((name) => REPLACED_INDEXES.includes(name))).toEqual([]);
});
