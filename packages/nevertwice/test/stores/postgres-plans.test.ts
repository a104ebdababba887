/** Tests that every statement finds its records by an index, whatever the planner knew of the table when it made its plan. */
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { partsStart } from "../../src/core/parts.ts";
import type { Statement } from "../../src/stores/postgres/client.ts";
import { keyEnd, LIST_INDEXES } from "../../src/stores/postgres/lists-sql.ts";
import { quickClaims, quickCompletions } from "../../src/stores/postgres/quick-steps.ts";
import { migrationText, recordTables } from "../../src/stores/postgres/schema.ts";
import {
  abandonStep,
  claimStep,
  completeStep,
  readStep,
  renewStep,
} from "../../src/stores/postgres/steps.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { createStatements } from "../../src/stores/postgres-sql.ts";
import { sharedUrl } from "../services/services.ts";
import { claimOf, createDatabase } from "./postgres/database.ts";

const statements = createStatements(recordTables(undefined), (what) => `plan_${what}`);
const { claim, complete, abandon, renew, read, forget, purge } = statements;

const createCall = () => ({ ...claimOf(), outcome: "done", as: "released" as const });
const calls = Array.from({ length: 64 }, createCall);
const call = createCall();

const ASKED: readonly (readonly [Statement, readonly string[]])[] = [
  [claim.quick.together, quickClaims.toParameters(calls)],
  [claim.quick.one, quickClaims.toParametersOfOne(call)],
  [complete.quick.together, quickCompletions.toParameters(calls)],
  [complete.quick.one, quickCompletions.toParametersOfOne(call)],
  [claim.together, claimStep.toParameters(calls)],
  [claim.alone, claimStep.toParameters(calls.slice(0, 1))],
  [complete.together, completeStep.toParameters(calls)],
  [complete.alone, completeStep.toParameters(calls.slice(0, 1))],
  [abandon.together, abandonStep.toParameters(calls)],
  [renew.together, renewStep.toParameters(calls)],
  [read.together, readStep.toParameters(calls)],
  [read.alone, readStep.toParameters(calls.slice(0, 1))],
  [forget, ["00", "1", "gone", "true"]],
  [purge, ["100", "0"]],
];

const literal = (text: string) => `'${text.replaceAll("'", "''")}'`;

/** The generic plan, which a connection keeps until it is closed. */
async function planOf(client: pg.Client, [statement, parameters]: (typeof ASKED)[number]): Promise<string> {
  const asked = `EXPLAIN EXECUTE ${statement.name} (${parameters.map(literal).join(", ")})`;
  const { rows } = await client.query<{ "QUERY PLAN": string }>(asked);
  return rows.map((row) => row["QUERY PLAN"]).join("\n");
}

const SIZES = {
  "a table that was just created": "SELECT 1",
  "a table of 200,000 records that was never analysed": `INSERT INTO nevertwice_records
    SELECT decode(md5(n::text) || md5((-n)::text), 'hex'), 'completed', 't', false, false, false, 1, n, n, 1, n, 1, 8e15, n, 8e15, NULL,
      '["n","s","o","k"]', 'done' FROM generate_series(1, 200000) AS n`,
};

for (const [name, fill] of Object.entries(SIZES)) {
  test(`no statement scans ${name}`, async (context) => {
    const client = new pg.Client(await createDatabase(sharedUrl(context, "postgres")));
    await client.connect();
    onTestFinished(() => client.end());
    await client.query(migrationText(undefined));
    await client.query("ALTER TABLE nevertwice_records SET (autovacuum_enabled = off)");
    await client.query(fill);
    await client.query("SET plan_cache_mode = force_generic_plan");
    for (const asked of ASKED) {
      const [statement] = asked;
      await client.query(`PREPARE ${statement.name} AS ${statement.text}`);
      const plan = await planOf(client, asked);
      expect(plan, statement.name).toContain("nevertwice_records_p");
      expect(plan, statement.name).not.toMatch(/Seq Scan on nevertwice_records|Bitmap|Hash Join|Merge Join/);
    }
  });
}

const NO_FILTER = { scope: false, key: false, operation: false, state: false };
const PAGES = [
  ["all keys", NO_FILTER, partsStart("n"), ""],
  ["one operation", { ...NO_FILTER, operation: true }, partsStart("n"), ""],
  ["one scope", { ...NO_FILTER, scope: true }, partsStart("n", "s"), ""],
  ["one key", { ...NO_FILTER, key: true }, partsStart("n"), keyEnd("k")],
] as const;

test("a page of a list, and a search for held records, read an index in its order, whatever the planner knows of the index", async (context) => {
  const client = new pg.Client(await createDatabase(sharedUrl(context, "postgres")));
  await client.connect();
  onTestFinished(() => client.end());
  await client.query(migrationText(undefined));
  await client.query("ALTER TABLE nevertwice_records SET (autovacuum_enabled = off)");
  await client.query(`DROP INDEX ${LIST_INDEXES.map(([name]) => name).join(", ")}`);
  await client.query(SIZES["a table of 200,000 records that was never analysed"]);
  // As when an earlier release had analysed its table, and `migrate` adds the indexes.
  await client.query("ANALYZE nevertwice_records");
  await client.query(migrationText(undefined));
  for (const [name, shape, start, end] of PAGES) {
    const parameters = [start, "9000000000000000", "ff", "5000", "51", end, shape.operation ? '"o"' : "", ""];
    await client.query("BEGIN");
    await client.query(statements.listSettings.text);
    const asked = `EXPLAIN ${statements.list(shape).text}`;
    const { rows } = await client.query<{ "QUERY PLAN": string }>(asked, parameters);
    await client.query("COMMIT");
    const plan = rows.map((row) => row["QUERY PLAN"]).join("\n");
    const index = shape.key ? "period_keys" : shape.scope ? "period_scopes" : "claims";
    expect(plan, name).toMatch(
      new RegExp(`Incremental Sort.*Index Scan Backward using nevertwice_records_${index}`, "s"),
    );
    expect(plan, name).not.toMatch(/Seq Scan on nevertwice_records|Bitmap/);
    // Rows come period after period, so that later periods are not read once there are enough.
    expect(/Limit[^\n]*\n *-> {2}Nested Loop[^\n]*\n *-> {2}CTE Scan on periods/.test(plan), name).toBe(
      shape.key || shape.scope,
    );
  }
  for (const search of Object.values(statements.markLapsed)) {
    await client.query("BEGIN");
    await client.query(statements.listSettings.text);
    const { rows } = await client.query<{ "QUERY PLAN": string }>(`EXPLAIN ${search.text}`, ["0", "5000"]);
    await client.query("COMMIT");
    const plan = rows.map((row) => row["QUERY PLAN"]).join("\n");
    expect(plan).toMatch(/Index Scan using nevertwice_records_held/);
    expect(plan).not.toMatch(/Seq Scan on nevertwice_records|Bitmap|Sort/);
  }
});

test("a statement is planned once for each connection, however few calls it contains", async (context) => {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  onTestFinished(() => pool.end());
  const store = postgresStore({ client: pool });
  await store.migrate();
  for (let i = 0; i < 20; i++) {
    const call = { ...claimOf(), outcome: "done" };
    await store.claim(call);
    await store.renew(call);
    await store.complete(call);
  }
  const { rows } = await pool.query<{ name: string; custom: number }>(
    "SELECT name, custom_plans::int AS custom FROM pg_prepared_statements WHERE name ~ 'claim|renew|complete'",
  );
  expect(rows).toHaveLength(3);
  // Postgres makes five custom plans before it compares them with a generic one.
  for (const { name, custom } of rows) expect(custom, name).toBeLessThanOrEqual(5);
});
