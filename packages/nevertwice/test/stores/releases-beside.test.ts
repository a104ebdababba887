/**
 * Tests that a release without steps and this one agree on one database. Each store without steps runs the statements of that
 * release. Redis is not among them: its records have had steps since their first format, and redis-damaged.test.ts shows that
 * any other value at their keys is refused by every step.
 */
import { describe, expect, onTestFinished, type TestContext, test } from "vitest";
import { createEngine } from "../../src/core/engine.ts";
import type { Store } from "../../src/core/store.ts";
import { mysqlStore } from "../../src/stores/mysql.ts";
import { TABLES } from "../../src/stores/mysql-sql.ts";
import type { Statement } from "../../src/stores/postgres/client.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { createStatements } from "../../src/stores/postgres-sql.ts";
import { sqliteStore } from "../../src/stores/sqlite.ts";
import { FIND } from "../../src/stores/sqlite-sql.ts";
import { sharedUrl } from "../services/services.ts";
import { AGREEMENTS } from "./beside/agreement.ts";
import { newDatabase, poolOn } from "./mysql/pools.ts";
import { createDatabase, poolOf, query } from "./postgres/database.ts";
import { connections, scratchFiles } from "./sqlite/scratch.ts";

interface Releases {
  readonly withSteps: Store;
  readonly withoutSteps: Store;
}

const connect = connections();
const fileNamed = scratchFiles();

/** The release without steps never reads the column, and has no other statement that this one lacks. */
function onSqlite(): Releases {
  const file = fileNamed();
  const withSteps = sqliteStore({ database: connect(file) });
  const other = connect(file);
  const prepare = (sql: string) =>
    other.prepare(sql === FIND ? sql.replace(", steps FROM", ", NULL FROM") : sql);
  const database = { exec: (sql: string) => other.exec(sql), prepare };
  return { withSteps, withoutSteps: sqliteStore({ database: database as never }) };
}

async function pools(context: TestContext) {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  const [first, second] = [poolOf(url), poolOf(url)];
  onTestFinished(async () => {
    await first.end();
    await second.end();
  });
  return { url, first, second };
}

const DROP_STEPS = "ALTER TABLE nevertwice_records DROP COLUMN steps";

/** A store that met tables without the column goes on with the statements of the release without steps for a while. */
async function onPostgres(context: TestContext): Promise<Releases> {
  const { url, first, second } = await pools(context);
  const withSteps = postgresStore({ client: first });
  await withSteps.migrate();
  await query(url, DROP_STEPS);
  const withoutSteps = postgresStore({ client: second });
  await withoutSteps.read("none");
  await withSteps.migrate();
  return { withSteps, withoutSteps };
}

type Query = (...args: unknown[]) => Promise<readonly unknown[]>;

/** Hides the column, as the release without steps does not read it. Such a record is written without it. */
function hidingSteps(run: Query): Query {
  return async (...args) => {
    const [rows, ...rest] = await run(...args);
    const hidden = Array.isArray(rows) ? rows.map(({ steps: _, ...row }) => row) : rows;
    return [hidden, ...rest];
  };
}

async function onMysql(context: TestContext): Promise<Releases> {
  const url = await newDatabase(context);
  const withSteps = mysqlStore({ client: poolOn(context, url) });
  await withSteps.migrate();
  const pool = poolOn(context, url);
  const client = {
    query: hidingSteps(pool.query.bind(pool) as Query),
    async getConnection() {
      const connection = await pool.getConnection();
      return Object.assign(connection, { query: hidingSteps(connection.query.bind(connection) as Query) });
    },
  };
  return { withSteps, withoutSteps: mysqlStore({ client: client as never }) };
}

describe.for([
  ["SQLite", onSqlite],
  ["Postgres", onPostgres],
  ["MySQL", onMysql],
] as const)("on %s", ([, open]) => {
  test.for(Object.entries(AGREEMENTS))("%s", async ([, agree], context) => {
    const { withSteps, withoutSteps } = await open(context);
    await agree(withSteps, withoutSteps);
  });
});

test("before migrate() has run, no statement for Postgres names the column of steps", () => {
  const tables = { records: "nevertwice_records", migrations: "nevertwice_migrations" };
  const { keepStep: _, check: __, ...statements } = createStatements(tables, (purpose) => purpose);
  const forms = Object.values(statements).flatMap((each) =>
    "together" in each ? [each.together, each.alone] : [each],
  ) as Statement[];
  const before = forms.map(({ unmigrated, text }) => unmigrated?.text ?? text);
  expect(before.filter((text) => /\bsteps\b/.test(text))).toEqual([]);
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
      { version: 2 },
    ]);
    expect(TABLES.MIGRATIONS.at(-1)?.version).toBe(2);
  });
});
