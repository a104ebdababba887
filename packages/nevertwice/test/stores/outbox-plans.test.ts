/**
 * Tests that claims of the outbox on Postgres read only the rows that they need, with and without statistics: neither a busy
 * key, nor messages that wait, nor those that are parked, may make a claim slow.
 */
import { expect, test } from "vitest";
import { outboxTables } from "../../src/outbox/postgres/schema.ts";
import { postgresOutbox } from "../../src/outbox/postgres.ts";
import { createStatements } from "../../src/outbox/postgres-sql.ts";
import { sharedUrl } from "../services/services.ts";
import { createDatabase, poolOf } from "./postgres/database.ts";

const ROWS = 20_000;
const { claim, settle, advance } = createStatements(outboxTables(undefined));
const LIMIT = "100";

interface PlanNode {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Actual Rows": number;
  readonly "Actual Loops": number;
  readonly Plans?: readonly PlanNode[];
}

function nodesIn(node: PlanNode): readonly PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesIn)];
}

test("a claim, a settlement and an advance touch only their own rows", async (context) => {
  const pool = poolOf(await createDatabase(sharedUrl(context, "postgres")));
  context.onTestFinished(() => pool.end());
  const store = postgresOutbox({ client: pool });
  await store.migrate();
  await pool.query("ALTER TABLE nevertwice_outbox SET (autovacuum_enabled = off)");
  const fill = (key: string, columns: string, values: string) =>
    pool.query(`INSERT INTO nevertwice_outbox (id, namespace, scope, topic, key, content, created_at, ${columns})
      SELECT md5(g::text), 'default', '', 't', ${key}, '["1vp",[{},"json",1]]', 1, ${values} FROM generate_series(1, ${ROWS}) AS g`);
  await fill("'hot'", "due_at", "CASE WHEN g = 1 THEN 0 END");
  await fill("'later-' || g", "due_at", "9000000000000000");
  await fill("'parked-' || g", "due_at, parked_at", "NULL, 1");
  await fill("NULL", "due_at", "0");

  async function rowsRead(text: string, values: readonly string[]): Promise<number> {
    const client = await pool.connect();
    await client.query("BEGIN");
    const { rows } = await client.query(`EXPLAIN (ANALYZE, FORMAT JSON) ${text}`, [...values]);
    await client.query("ROLLBACK");
    client.release();
    const nodes = nodesIn(rows[0]["QUERY PLAN"][0].Plan);
    expect(nodes.filter((node) => node["Node Type"] === "Seq Scan")).toEqual([]);
    const scans = nodes.filter((node) => node["Relation Name"] === "nevertwice_outbox");
    return Math.max(...scans.map((node) => node["Actual Rows"] * node["Actual Loops"]));
  }

  for (const isAnalysed of [false, true]) {
    if (isAnalysed) await pool.query("ANALYZE nevertwice_outbox");
    expect(await rowsRead(claim.text, ["default", LIMIT, "30000000", "t", LIMIT, "0"])).toBeLessThanOrEqual(
      100,
    );
    const many = Array.from({ length: 100 }, (_, index) => index + 1);
    const none = ["{}", "{}"];
    const tokens = `{${many.map(() => "t").join(",")}}`;
    const settled = [`{${many}}`, tokens, ...none, ...none, ...none, "{}", ...none];
    expect(await rowsRead(settle.text, settled)).toBeLessThanOrEqual(100);
    expect(await rowsRead(advance.text, ["default", "{hot,later-1,parked-1}"])).toBeLessThanOrEqual(3);
  }
});
