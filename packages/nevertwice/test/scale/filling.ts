/**
 * Fills a database with thousands of records. The database copies one record that the store wrote, under other ids. So the
 * copies equal what the store would have written, regardless of its columns.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { DatabaseSync } from "@photostructure/sqlite";
import pg from "pg";
import { toIdentity } from "../../src/core/identity.ts";
import type { Store } from "../../src/core/store.ts";

const TABLE = "nevertwice_records";
const PORTION = 100_000;

export interface Filling {
  readonly store: Store;
  readonly url: string;
  readonly records: number;
  /** Whether the records have expired. Otherwise they are kept for a month. */
  readonly isExpired: boolean;
}

export async function fill({ store, url, records, isExpired }: Filling): Promise<void> {
  const parts = { namespace: "scale", scope: "", operation: "fill", key: randomUUID() };
  const { id } = toIdentity(parts);
  const token = randomUUID();
  const retentionMs = isExpired ? 1 : 2_592_000_000;
  await store.claim({ id, parts, token, leaseMs: 1_000, retentionMs, hold: false });
  await store.complete({ id, token, outcome: JSON.stringify({ receipt: "r".repeat(100) }), retentionMs });
  const made = url.startsWith("sqlite:")
    ? await fillSqlite(url.slice("sqlite:".length), id, records)
    : await fillPostgres(url, id, records);
  if (made !== records) throw new Error(`${made} records were created instead of ${records}`);
  if (isExpired) await sleep(10);
}

async function fillSqlite(file: string, id: string, records: number): Promise<number> {
  const database = new DatabaseSync(file);
  const columns = database.prepare(`PRAGMA table_info(${TABLE})`).all() as { name: string }[];
  const numbers = `(WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?2)
    SELECT n FROM numbers)`;
  // These writes are not measured and need no durability: a crash of the machine ends the trial anyway.
  database.exec("PRAGMA synchronous = OFF");
  const copy = database.prepare(copySql(columns, "randomblob(32)", numbers, "?1"));
  let made = 0;
  while (made < records) {
    made += Number(copy.run(Buffer.from(id, "hex"), Math.min(PORTION, records - made)).changes);
    // SQLite runs in this thread, and other tasks of the thread must not wait for the whole copy.
    await sleep(0);
  }
  // Overwriting a long log is faster than extending it. The number of filled records must not influence the measurement.
  database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
  return made;
}

async function fillPostgres(url: string, id: string, records: number): Promise<number> {
  const client = new pg.Client(url);
  await client.connect();
  const columns = await client.query<{ name: string }>(
    "SELECT column_name AS name FROM information_schema.columns WHERE table_name = $1",
    [TABLE],
  );
  const fresh = "encode(sha256(convert_to(gen_random_uuid()::text, 'UTF8')), 'hex')";
  const numbers = "generate_series(1, $2::bigint) AS numbers(n)";
  const made = await client.query(copySql(columns.rows, fresh, numbers, "$1"), [id, records]);
  await client.query(`VACUUM ANALYZE ${TABLE}`);
  await client.end();
  return made.rowCount ?? 0;
}

function copySql(
  columns: readonly { name: string }[],
  fresh: string,
  numbers: string,
  template: string,
): string {
  const names = columns.map(({ name }) => name);
  const copied = names.map((name) => (name === "id" ? fresh : name));
  return `INSERT INTO ${TABLE} (${names.join(", ")})
    SELECT ${copied.join(", ")} FROM ${TABLE}, ${numbers} WHERE id = ${template}`;
}
