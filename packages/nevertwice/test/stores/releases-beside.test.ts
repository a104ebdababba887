/**
 * Tests that a release without steps and history and this one agree on one database. Each store without steps runs the statements of that
 * release. Redis is not among them: its records have had steps since their first format, and redis-damaged.test.ts shows that
 * any other value at their keys is refused by every step.
 */
import { describe, expect, test } from "vitest";
import { createEngine } from "../../src/core/engine.ts";
import type { Store } from "../../src/core/store.ts";
import { mysqlStore } from "../../src/stores/mysql.ts";
import { TABLES } from "../../src/stores/mysql-sql.ts";
import type { Statement } from "../../src/stores/postgres/client.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { createStatements } from "../../src/stores/postgres-sql.ts";
import { AGREEMENTS } from "./beside/agreement.ts";
import { DROP_STEPS, pools, RELEASES } from "./beside/releases.ts";
import { newDatabase, poolOn } from "./mysql/pools.ts";
import { query } from "./postgres/database.ts";

describe.for(RELEASES)("on %s", ([, open]) => {
  test.for(Object.entries(AGREEMENTS))("%s", async ([, agree], context) => {
    const { withSteps, withoutSteps, migrate } = await open(context);
    await migrate();
    await agree(withSteps, withoutSteps);
  });
});

test("before migrate() has run, no statement for Postgres names the columns that were added", () => {
  const tables = { records: "nevertwice_records", migrations: "nevertwice_migrations" };
  const { keepStep: _, check: __, ...statements } = createStatements(tables, (purpose) => purpose);
  const forms = Object.values(statements).flatMap((each) =>
    "together" in each ? [each.together, each.alone] : [each],
  ) as Statement[];
  const before = forms.map(({ unmigrated, text }) => unmigrated?.text ?? text);
  expect(before.filter((text) => /\b(steps|history)\b/.test(text))).toEqual([]);
  expect(forms.filter(({ text }) => /\bsteps\b/.test(text)).length).toBeGreaterThan(5);
});

const REQUEST = { operation: "order", key: "1" };

async function expectRefusedSteps(store: Store): Promise<void> {
  const guard = createEngine({ store, purgeEveryMs: 0 });
  expect(await guard.run({ ...REQUEST, key: "2" }, () => "without steps")).toBe("without steps");
  let isRun = false;
  const run = guard.run(REQUEST, (attempt) =>
    attempt.step("charge", () => {
      isRun = true;
    }),
  );
  await expect(run).rejects.toMatchObject({ code: "options-invalid" });
  expect(isRun).toBe(false);
}

async function expectSteps(store: Store): Promise<void> {
  const guard = createEngine({ store, purgeEveryMs: 0 });
  expect(await guard.run(REQUEST, (attempt) => attempt.step("charge", () => "paid"))).toBe("paid");
}

describe("before migrate() has run", () => {
  test("Postgres works without steps, and refuses work with steps before it runs", async (context) => {
    const { url, first, second } = await pools(context);
    await postgresStore({ client: first }).migrate();
    await query(url, DROP_STEPS);
    const store = postgresStore({ client: second });
    await expectRefusedSteps(store);
    await store.migrate();
    await expectSteps(store);
  });

  test("MySQL works without steps, and refuses work with steps before it runs", async (context) => {
    const pool = poolOn(context, await newDatabase(context));
    await mysqlStore({ client: pool }).migrate();
    await pool.query(DROP_STEPS);
    const store = mysqlStore({ client: pool });
    await expectRefusedSteps(store);
    await store.migrate();
    await expectSteps(store);
  });

  test("the column is no new version of the tables, which the release without steps would refuse", async (context) => {
    const { url, first } = await pools(context);
    await postgresStore({ client: first }).migrate();
    expect(await query(url, "SELECT max(version) AS version FROM nevertwice_migrations")).toEqual([
      { version: 3 },
    ]);
    expect(TABLES.MIGRATIONS.at(-1)?.version).toBe(2);
  });
});
