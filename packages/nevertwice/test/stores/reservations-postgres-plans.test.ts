/** Tests that a transaction finds its rows by the primary keys, whatever the planner knew of the tables when it made its plan. */
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { tableNames } from "../../src/reservations/postgres/schema.ts";
import { createStatements } from "../../src/reservations/postgres-sql.ts";
import { migrated } from "./postgres/reservations.ts";

const { lock, lockUnlessOpen, read, page } = createStatements(tableNames(undefined));

/** The statements with the right number of parameters; a generic plan does not depend on their values. */
const ASKED = [
  [lock, "'n', '{a}', '{b}', '{c}', '300'"],
  [lockUnlessOpen, "'n', '{a}', '{b}', '{c}', '300'"],
  [read, "'n', '{a}', '{b}', '{c}', '{d}', '{1}'"],
] as const;

const SIZES = {
  "tables that were just created": "SELECT 1",
  "tables of 20,000 holds without ANALYZE": `INSERT INTO nevertwice_commitments
    SELECT 'n', md5(i::text), 'seat ' || i, 'ann', 1, 0, 1, 'held', NULL, NULL, 1, '', 1, '' FROM generate_series(1, 20000) AS i`,
};

test("a page of the commitments in a state that few are in reads those alone", async (context) => {
  const client = new pg.Client(await migrated(context));
  await client.connect();
  onTestFinished(() => client.end());
  await client.query(SIZES["tables of 20,000 holds without ANALYZE"]);
  const { text } = page({ table: "commitments", order: "id", filters: ["state"] });
  for (const isAnalysed of [false, true]) {
    if (isAnalysed) await client.query("ANALYZE nevertwice_commitments");
    const { rows } = await client.query(`EXPLAIN (ANALYZE, FORMAT JSON) ${text}`, [
      "n",
      "101",
      "",
      "expired",
    ]);
    const plan = JSON.stringify(rows[0]["QUERY PLAN"]);
    expect(plan).toContain('"nevertwice_commitments_state"');
    expect(plan).not.toContain('"Rows Removed by Filter":2');
  }
});

for (const [name, fill] of Object.entries(SIZES)) {
  test(`a commitment is found by its primary key in ${name}`, async (context) => {
    const client = new pg.Client(await migrated(context));
    await client.connect();
    onTestFinished(() => client.end());
    await client.query("ALTER TABLE nevertwice_commitments SET (autovacuum_enabled = off)");
    await client.query(fill);
    await client.query("SET plan_cache_mode = force_generic_plan");
    for (const [statement, parameters] of ASKED) {
      await client.query(`PREPARE ${statement.name} AS ${statement.text}`);
      const { rows } = await client.query<{ "QUERY PLAN": string }>(
        `EXPLAIN EXECUTE ${statement.name} (${parameters})`,
      );
      const plan = rows.map((row) => row["QUERY PLAN"]).join("\n");
      expect(plan).toContain("Index Scan using nevertwice_commitments_pkey");
      expect(plan).not.toMatch(
        /Seq Scan on nevertwice_(commitments|res)|using nevertwice_commitments_re[^\n]*\n *Index Cond:[^\n]*\(id =/,
      );
    }
  });
}
