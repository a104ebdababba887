/** Tests that a transaction finds its rows by the primary keys, whatever the planner knew of the tables when it made its plan. */
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { tableNames } from "../../src/reservations/postgres/schema.ts";
import { createStatements } from "../../src/reservations/postgres-sql.ts";
import { migrated } from "./postgres/reservations.ts";

const { lock, lockUnlessOpen, read } = createStatements(tableNames(undefined));

/** The statements with the right number of parameters; a generic plan does not depend on their values. */
const ASKED = [
  [lock, "'n', '{a}', '{b}', '{c}', '300'"],
  [lockUnlessOpen, "'n', '{a}', '{b}', '{c}', '300'"],
  [read, "'n', '{a}', '{b}', '{c}', '{d}', '{1}'"],
] as const;

const SIZES = {
  "tables that were just created": "SELECT 1",
  "tables of 20,000 holds without ANALYZE": `INSERT INTO nevertwice_commitments
    SELECT 'n', md5(i::text), 'seat ' || i, 'ann', 1, 0, 1, 'held', NULL, NULL, 1, 1, '' FROM generate_series(1, 20000) AS i`,
};

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
