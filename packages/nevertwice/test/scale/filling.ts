/**
 * Fills a database with very many records. The database copies one record that the store wrote, under other ids. So the
 * copies equal what the store would have written, regardless of its columns.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { DatabaseSync } from "@photostructure/sqlite";
import { Redis } from "ioredis";
import { createConnection } from "mysql2/promise";
import pg from "pg";
import { toIdentity } from "../../src/core/identity.ts";
import type { Store } from "../../src/core/store.ts";

const TABLE = "nevertwice_records";
const PORTION = 100_000;
const MONTH_MS = 2_592_000_000;
const LEASE_MS = 1_000;

export interface Filling {
  readonly store: Store;
  readonly url: string;
  readonly records: number;
  /** Whether the records have expired. Otherwise they are kept for a month. */
  readonly isExpired: boolean;
  /** Whether they differ as those of an application do: see `variedBy`. Otherwise they differ only in their ids. */
  readonly isVaried?: boolean;
}

/** Copies the record of an id. `values` are the columns that differ: SQL for the copy of number `n`. */
interface Copying {
  readonly url: string;
  readonly id: string;
  readonly records: number;
  readonly isVaried: boolean;
}

export const NAMESPACE = "scale";
export const SCOPES = 1_000;
export const OPERATIONS = 20;

export async function fill({ store, url, records, isExpired, isVaried = false }: Filling): Promise<void> {
  const parts = { namespace: NAMESPACE, scope: "", operation: "fill", key: randomUUID() };
  const { id } = toIdentity(parts);
  const token = randomUUID();
  const retentionMs = isExpired ? 1 : MONTH_MS;
  const startedAt = performance.now();
  await store.claim({ id, parts, token, leaseMs: LEASE_MS, retentionMs, hold: false });
  await store.complete({ id, token, outcome: JSON.stringify({ receipt: "r".repeat(100) }), retentionMs });
  await FILL[url.slice(0, url.indexOf(":")) as keyof typeof FILL]({ url, id, records, isVaried });
  // A completion may leave the time at which a purge looks at the record where the claim has put it: after its lease.
  if (isExpired) await sleep(Math.max(10, 1.1 * LEASE_MS - (performance.now() - startedAt)));
}

const FILL = { sqlite: fillSqlite, postgres: fillPostgres, mysql: fillMysql, redis: fillRedis };

async function fillSqlite({ url, id, records, isVaried }: Copying): Promise<void> {
  const database = new DatabaseSync(url.slice("sqlite:".length));
  const columns = database.prepare(`PRAGMA table_info(${TABLE})`).all() as { name: string }[];
  const numbers = `(WITH RECURSIVE numbers(n) AS (SELECT ?2 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?3)
    SELECT n FROM numbers)`;
  // These writes are not measured and need no durability: a crash of the machine ends the trial anyway.
  database.exec("PRAGMA synchronous = OFF");
  const values = { id: "randomblob(32)", ...(isVaried && { ...variedBy(1), ...VARIED_TEXT }) };
  const copy = database.prepare(copySql({ columns, values, numbers, template: "?1" }));
  for (const [first, last] of portions(records)) {
    copy.run(Buffer.from(id, "hex"), first, last);
    // SQLite runs in this thread, and other tasks of the thread must not wait for the whole copy.
    await sleep(0);
  }
  // Overwriting a long log is faster than extending it. The number of filled records must not influence the measurement.
  database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
}

async function fillPostgres({ url, id, records, isVaried }: Copying): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  const { rows: columns } = await client.query<{ name: string }>(
    "SELECT column_name AS name FROM information_schema.columns WHERE table_name = $1",
    [TABLE],
  );
  const fresh = "sha256(convert_to(gen_random_uuid()::text, 'UTF8'))";
  // In microseconds: as if the records were claimed in the course of a day, the default retention.
  const interval = Math.ceil(86_400_000_000 / records);
  const values = { id: fresh, ...(isVaried && { ...variedBy(interval), ...VARIED_TEXT }) };
  const numbers = "generate_series($2::bigint, $3::bigint) AS numbers(n)";
  const copy = copySql({ columns, values, numbers, template: "decode($1, 'hex')" });
  for (const portion of portions(records)) await client.query(copy, [id, ...portion]);
  await client.query(`VACUUM ANALYZE ${TABLE}`);
  await client.end();
}

async function fillMysql({ url, id, records, isVaried }: Copying): Promise<void> {
  const connection = await createConnection(url);
  const [columns] = await connection.query(
    "SELECT column_name AS name FROM information_schema.columns " +
      "WHERE table_schema = DATABASE() AND table_name = ? AND extra NOT LIKE '%GENERATED%'",
    [TABLE],
  );
  const values = {
    id: "SHA2(CONCAT(UUID(), RAND()), 256)",
    ...(isVaried && { ...variedBy(1), ...VARIED_PARTS }),
  };
  for (const [first, last] of portions(records)) {
    const numbers = `(SELECT seq AS n FROM seq_${first}_to_${last}) AS numbers`;
    const copy = copySql({ columns: columns as { name: string }[], values, numbers, template: "?" });
    await connection.query(copy.replace(/\bkey\b(?!-)/g, "`key`"), [id]);
  }
  await connection.query(`ANALYZE TABLE ${TABLE}`);
  await connection.end();
}

async function fillRedis({ url, id, records }: Copying): Promise<void> {
  const { searchParams } = new URL(url);
  const prefix = searchParams.get("prefix") ?? "nevertwice:";
  const client = new Redis(url);
  const text = String(await client.get(`${prefix}{${id}}`));
  for (const portion of portions(records, PORTION / 10))
    await client.eval(COPY_REDIS, 0, prefix, text, ...portion, SCOPES, MONTH_MS);
  client.disconnect();
}

/** Copies a completed record, which differs in its parts. */
const COPY_REDIS = `
local before, rest = string.match(ARGV[2], '^([^\\n]*\\n[^\\n]*\\n[^\\n]*\\n)[^\\n]*(\\n.*)$')
for n = ARGV[3], ARGV[4] do
  local parts = string.format('["${NAMESPACE}","customer-%d","operation-%d","order-%d"]', n % ARGV[5], n % ${OPERATIONS}, n)
  redis.call('SET', ARGV[1] .. '{' .. redis.sha1hex(n) .. '}', before .. parts .. rest, 'PX', ARGV[6])
end`;

function* portions(records: number, portion = PORTION): Iterable<readonly [first: number, last: number]> {
  for (let made = 0; made < records; made += portion) yield [made + 1, Math.min(made + portion, records)];
}

/** Each record was claimed by so much earlier than the one before it. Of 10,000 records one is held and has lapsed, one has lapsed, one was released, and the others are completed. */
const variedBy = (interval: number): Readonly<Record<string, string>> => ({
  claimed_at: `claimed_at - n * ${interval}`,
  state:
    "CASE WHEN n % 10000 IN (1, 2) THEN 'pending' WHEN n % 10000 = 3 THEN 'released' ELSE 'completed' END",
  hold: "(n % 10000 = 1)",
  lease_ends_at: "claimed_at",
  completed_at: "CASE WHEN n % 10000 IN (1, 2, 3) THEN NULL ELSE completed_at END",
  outcome: "CASE WHEN n % 10000 IN (1, 2, 3) THEN NULL ELSE outcome END",
  kept_until: "kept_until + n",
  purge_at: "CASE WHEN n % 10000 = 1 THEN NULL ELSE purge_at + n END",
});

/** The parts where they are one column. */
const VARIED_TEXT = {
  parts: `'["${NAMESPACE}","customer-' || (n % ${SCOPES}) || '","operation-' || (n % ${OPERATIONS}) || '","order-' || n || '"]'`,
};

/** The parts where they are columns of their own. */
const VARIED_PARTS = {
  scope: `CONCAT('customer-', n % ${SCOPES})`,
  operation: `CONCAT('operation-', n % ${OPERATIONS})`,
  key: "CONCAT('order-', n)",
};

interface Copy {
  readonly columns: readonly { readonly name: string }[];
  /** The columns that differ: SQL for the copy of number `n`. */
  readonly values: Readonly<Record<string, string>>;
  readonly numbers: string;
  readonly template: string;
}

function copySql({ columns, values, numbers, template }: Copy): string {
  const names = columns.map(({ name }) => name);
  const copied = names.map((name) => values[name] ?? name);
  return `INSERT INTO ${TABLE} (${names.join(", ")})
    SELECT ${copied.join(", ")} FROM ${TABLE}, ${numbers} WHERE id = ${template}`;
}
