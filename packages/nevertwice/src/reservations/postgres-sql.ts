/**
 * The statements of reservations on Postgres. A transaction is `lock`, `read`, `write`, for any number of actions.
 *
 * Rows of two tables are locked: first keys, then resources, each in the byte order of their names. A name without a row
 * gets an empty row, a placeholder, so that it can be locked too: a second transaction waits for the first, and a rollback
 * removes the placeholder. (Advisory locks could do the same, but they use a table of fixed size that the whole server
 * shares.) A commitment changes only under the lock of its resource, so it needs no lock itself.
 *
 * All parameters are text. Rows are found by LATERAL subqueries and written with ON CONFLICT, because Postgres may keep a
 * plan that was made for an empty table, and that plan must not scan a full one.
 */
import { hash } from "node:crypto";
import type { Statement } from "../stores/postgres/client.ts";
import { WAITS_FOR_STANDBYS } from "../stores/postgres/durability.ts";
import { CHECKPOINT, COMMITMENT, type ColumnTypes, EVENT, KEY, RESOURCE } from "./postgres/rows.ts";
import type { TableNames } from "./postgres/schema.ts";
import { writeText } from "./postgres/write-sql.ts";

/** Milliseconds since the epoch at the moment of evaluation. */
const CLOCK = "floor(date_part('epoch', clock_timestamp()) * 1000)::bigint";
/**
 * Milliseconds since the epoch when a read-only statement began. Its snapshot is older than `clock_timestamp`, so with
 * that clock a hold that was confirmed in between would look as if its time had run out.
 */
const BEGUN = CLOCK.replace("clock_", "transaction_");
/** The longest wait for a lock. */
export const LOCK_TIMEOUT_MS = 2_000;
/** Ends a transaction whose process stopped between two statements, so that its locks are released. */
const IDLE_TIMEOUT_MS = 10_000;

const columnList = (columns: ColumnTypes) => Object.keys(columns).join(", ");
const textColumnList = (columns: ColumnTypes) =>
  Object.keys(columns)
    .map((name) => `${name}::text`)
    .join(", ");

/**
 * The advisory lock that a transaction of the application holds for each key and resource that it has locked. The store's
 * own transactions only look whether it is taken. A row lock would not tell them: it may be held for a millisecond by
 * another group, or for seconds by an application, and a row that is not committed cannot be looked at.
 */
function openLock(table: string, name: string): string {
  return `hashtextextended('${table.replaceAll("'", "''")} ' || given.namespace || ' ' || ${name}, 0)`;
}

/** Whether another session holds it. The lock is given back at once: the server has room for few of them. */
function isTaken(id: string): string {
  return `CASE WHEN pg_try_advisory_lock_shared(${id}) THEN NOT pg_advisory_unlock_shared(${id}) ELSE true END`;
}

/** The commitments that are wanted, each with its resource. */
function wantedCommitments({ commitments }: TableNames): string {
  return `given, unnest(commitment_ids) AS wanted CROSS JOIN LATERAL (
      SELECT resource FROM ${commitments} WHERE namespace = given.namespace AND id = wanted LIMIT 1
    ) AS c`;
}

/** The parameters of every form of `lock`, and the resources of a group. */
function wanted(tables: TableNames, limits: string): string {
  return `given AS MATERIALIZED (
    SELECT ($1::text) COLLATE "C" AS namespace, ($2::text)::text[] AS key_ids, ($3::text)::text[] AS names,
      ($4::text)::text[] AS commitment_ids, ${limits}
  ), named AS MATERIALIZED (
    SELECT namespace, name COLLATE "C" AS name FROM given, unnest(names) AS name
    UNION
    SELECT given.namespace, c.resource FROM ${wantedCommitments(tables)}
  )`;
}

/** Locks the rows of the keys, then those of the resources, under these conditions. */
function lockRows({ keys, resources }: TableNames, tables: string, condition: string): string {
  return `locked_keys AS (
    INSERT INTO ${keys} AS k (namespace, id)
    SELECT namespace, id FROM given, unnest(key_ids) AS id${tables} WHERE ${condition} ORDER BY id COLLATE "C"
    ON CONFLICT (namespace, id) DO UPDATE SET digest = k.digest WHERE false
    RETURNING id
  ), keys_first AS MATERIALIZED (
    SELECT count(*) AS new_keys FROM locked_keys
  ), locked_resources AS (
    INSERT INTO ${resources} AS r (namespace, name)
    SELECT namespace, name FROM named, keys_first${tables} WHERE new_keys >= 0 AND ${condition} ORDER BY name
    ON CONFLICT (namespace, name) DO UPDATE SET state = r.state WHERE false
  )`;
}

/**
 * Locks the keys `$2`, then the resources: those named in `$3`, and those of the commitments `$4`, which never change. All
 * are of the namespace `$1`. Waits up to `$5` milliseconds for each lock. Returns the name of each resource.
 */
function lock(tables: TableNames): string {
  return `WITH ${wanted(tables, LIMITS)}, ${lockRows(tables, "", "true")} SELECT name FROM named`;
}

const LIMITS = `set_config('lock_timeout', ($5::text), true),
      set_config('idle_in_transaction_session_timeout', '${IDLE_TIMEOUT_MS}', true)`;

/**
 * The same, but locks nothing if a transaction of the application has locked one of them, and returns rows of (name, kind)
 * for what is locked: keys, resources, commitments.
 */
function lockUnlessOpen(tables: TableNames): string {
  const { keys, resources } = tables;
  return `WITH ${wanted(tables, LIMITS)}, taken AS MATERIALIZED (
    SELECT 'key' AS kind, id AS name FROM given, unnest(key_ids) AS id WHERE ${isTaken(openLock(keys, "id"))}
    UNION ALL
    SELECT 'resource', name FROM given, unnest(names) AS name WHERE ${isTaken(openLock(resources, "name"))}
    UNION ALL
    SELECT 'commitment', wanted FROM ${wantedCommitments(tables)} WHERE ${isTaken(openLock(resources, "c.resource"))}
  ), ${lockRows(tables, "", "NOT EXISTS (SELECT FROM taken)")}
  SELECT name, NULL FROM named WHERE NOT EXISTS (SELECT FROM taken)
  UNION ALL
  SELECT name, kind FROM taken`;
}

/**
 * The same in a transaction of the application, with the advisory locks that let others see it. Returns one JSON array: the
 * transaction's own lock_timeout, which `readInside` puts back, and the names of the resources. If the application has set
 * no limit, the store's own applies.
 */
function lockInside(tables: TableNames): string {
  const { keys, resources } = tables;
  const current = "current_setting('lock_timeout')";
  return `WITH ${wanted(
    tables,
    `${current} AS previous,
      set_config('lock_timeout', CASE ${current} WHEN '0' THEN '${LOCK_TIMEOUT_MS}' ELSE ${current} END, true)`,
  )}, open_keys AS MATERIALIZED (
    SELECT count(*) AS opened FROM (
      SELECT pg_advisory_xact_lock(${openLock(keys, "id")}) FROM given, unnest(key_ids) AS id ORDER BY id OFFSET 0
    ) AS held
  ), opened AS MATERIALIZED (
    SELECT count(*) AS opened FROM (
      SELECT pg_advisory_xact_lock(${openLock(resources, "named.name")}) FROM open_keys, given, named
      WHERE opened >= 0 ORDER BY named.name OFFSET 0
    ) AS held
  ), ${lockRows(tables, ", opened", "opened >= 0")}
  SELECT json_build_array(previous, (SELECT coalesce(json_agg(json_build_array(name)), '[]') FROM named))::text FROM given`;
}

const WIDTH = Math.max(...[KEY, RESOURCE, COMMITMENT].map((columns) => Object.keys(columns).length));

/** The kind of the row, its columns, and NULLs up to the width of the widest row. */
function shown(kind: string, columns: ColumnTypes): string {
  const padding = ", NULL".repeat(WIDTH - Object.keys(columns).length);
  return `'${kind}', ${textColumnList(columns)}${padding}`;
}

/**
 * Selects the time and the locked rows, with a snapshot taken after the locks: the keys `$2`, the resources `$3`, the
 * commitments `$4`, and for each resource `$5` up to `$6` holds whose time is over, oldest first. The expression
 * `resource || ''` is in one index only; with another index, a plan could read all commitments of the resource.
 */
function read({ keys, resources, commitments }: TableNames, locking = ""): string {
  const each = (array: string, columns: ColumnTypes, table: string, name: string) =>
    `given CROSS JOIN unnest(${array}) AS wanted CROSS JOIN LATERAL (
      SELECT ${columnList(columns)} FROM ${table} WHERE namespace = given.namespace AND ${name} = wanted LIMIT 1${locking}
    ) AS r`;
  return `WITH given AS MATERIALIZED (
    SELECT ($1::text) COLLATE "C" AS namespace, ($2::text)::text[] AS key_ids, ($3::text)::text[] AS names,
      ($4::text)::text[] AS commitment_ids, ($5::text)::text[] AS placements, ($6::text)::bigint[] AS limits,
      ${CLOCK} AS now
  )
  SELECT 'now', now::text${", NULL".repeat(WIDTH - 1)} FROM given
  UNION ALL
  SELECT ${shown("key", qualified(KEY))} FROM ${each("key_ids", KEY, keys, "id")} WHERE ${isFilled(KEY)}
  UNION ALL
  SELECT ${shown("resource", qualified(RESOURCE))} FROM ${each("names", RESOURCE, resources, "name")}
    WHERE ${isFilled(RESOURCE)}
  UNION ALL
  SELECT ${shown("commitment", qualified(COMMITMENT))} FROM ${each("commitment_ids", COMMITMENT, commitments, "id")}
  UNION ALL
  SELECT * FROM (
    SELECT ${shown("elapsed", qualified(COMMITMENT))}
    FROM given CROSS JOIN unnest(placements, limits) AS sought (wanted, bound) CROSS JOIN LATERAL (
      SELECT ${columnList(COMMITMENT)} FROM ${commitments}
      WHERE namespace = given.namespace AND resource || '' = wanted AND state = 'held' AND expires_at <= given.now
      ORDER BY expires_at, id LIMIT bound${locking}
    ) AS r ORDER BY r.expires_at, r.id
  ) AS elapsed`;
}

/**
 * The same in a transaction of the application, as one JSON array: its isolation, and the rows. Puts back the lock_timeout
 * `$7`. Above READ COMMITTED the snapshot is older than the locks. So the rows are locked as they are read, and the server
 * answers 40001 if one of them has changed since.
 */
function readInside(tables: TableNames): string {
  const columns = Array.from({ length: WIDTH + 1 }, (_, index) => `c${index}`).join(", ");
  return `SELECT json_build_array(current_setting('transaction_isolation'),
    (SELECT json_agg(json_build_array(${columns})) FROM (${read(tables, " FOR UPDATE")}) AS r (${columns})),
    set_config('lock_timeout', ($7::text), true))::text`;
}

/**
 * Inserts a row for the commitment `$2`, which the transaction's snapshot does not contain. Above READ COMMITTED the server
 * answers 40001 if another transaction has placed it since. `unprobe` removes the row.
 */
function probe({ commitments }: TableNames): string {
  return `INSERT INTO ${commitments} (namespace, id, resource, requester, units, placed_at, expires_at, state, occupied,
    requester_salt, events, last_hash) VALUES (($1::text), ($2::text), '', '', 0, 0, 0, '', 0, '', 0, '') ON CONFLICT DO NOTHING`;
}

function unprobe({ commitments }: TableNames): string {
  return `DELETE FROM ${commitments} WHERE namespace = ($1::text) AND id = ($2::text) AND units = 0`;
}

/**
 * Whether the row is not a placeholder, in which all cells but its namespace and name are NULL. A row with some NULL cells
 * is damaged. It must not count as missing, or its action would run again.
 */
function isFilled(columns: ColumnTypes): string {
  const [, , ...rest] = Object.keys(columns).map((name) => `r.${name}`);
  return `num_nonnulls(${rest.join(", ")}) > 0`;
}

function qualified(columns: ColumnTypes): ColumnTypes {
  return Object.fromEntries(Object.entries(columns).map(([name, type]) => [`r.${name}`, type]));
}

/** Returns a row if the transaction `$3` wrote the key `$2`. */
function written({ keys }: TableNames): string {
  return `SELECT id FROM ${keys} WHERE namespace = ($1::text) AND id = ($2::text) AND written_by = ($3::text)`;
}

/** Deletes up to `$1` keys past their time; locked keys are skipped. Returns (selected, deleted). */
function purge({ keys }: TableNames): string {
  return `WITH old AS MATERIALIZED (
    SELECT namespace, id FROM ${keys} WHERE kept_until <= ${CLOCK.replace("clock_", "statement_")}
    ORDER BY kept_until LIMIT ($1::text)::bigint FOR UPDATE SKIP LOCKED
  ), removed AS (
    DELETE FROM ${keys} AS k USING old
    WHERE k.namespace = old.namespace AND k.id = old.id AND k.kept_until <= ${CLOCK} RETURNING k.id
  )
  SELECT (SELECT count(*) FROM old)::text, (SELECT count(*) FROM removed)::text`;
}

/** The same columns as in the claim store: (version, schema, default isolation, is a replica, is read-only, encoding, waits for standbys). */
function check({ migrations }: TableNames): string {
  return `SELECT (SELECT max(version) FROM ${migrations})::text, NULL, current_setting('default_transaction_isolation'),
    pg_is_in_recovery()::text, current_setting('transaction_read_only'), current_setting('server_encoding'),
    ${WAITS_FOR_STANDBYS}`;
}

/** Rows of (name, value). `unlogged` names a table that is UNLOGGED. */
function settings(tables: TableNames): string {
  const { commitments, resources, keys, events, checkpoints } = tables;
  const all = [commitments, resources, keys, events, checkpoints].map(
    (table) => `'${table.replaceAll("'", "''")}'::regclass`,
  );
  return `SELECT name, current_setting(name) FROM unnest(ARRAY['server_version', 'fsync', 'full_page_writes',
    'synchronous_commit', 'synchronous_standby_names']) AS name
  UNION ALL
  (SELECT unnest(ARRAY['relpersistence', 'unlogged']), unnest(ARRAY['u', relname::text]) FROM pg_class
    WHERE oid IN (${all.join(", ")}) AND relpersistence = 'u' ORDER BY relname LIMIT 2)
  UNION ALL
  SELECT 'standbys', CASE WHEN count(*) = count(sync_state) THEN count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) END::text
  FROM pg_stat_replication`;
}

/**
 * A page of a table in the namespace `$1`: up to `$2` rows after the position `$3`, sorted by the column `order`. Each
 * filter is a column that must equal the next parameter. The statement sorts by `r.order`, since the output column is text.
 */
export interface PageShape {
  readonly table: keyof Omit<TableNames, "migrations">;
  readonly order: string;
  readonly filters: readonly string[];
}

const COLUMNS = {
  commitments: COMMITMENT,
  resources: RESOURCE,
  keys: KEY,
  events: EVENT,
  checkpoints: CHECKPOINT,
};

function page(tables: TableNames, { table, order, filters }: PageShape): string {
  const where = filters.map((name, index) => ` AND ${name} = ($${index + 4}::text)`).join("");
  return `SELECT ${textColumnList(COLUMNS[table])} FROM ${tables[table]} AS r
  WHERE namespace = ($1::text) AND ${order} > ($3::text)${where} ORDER BY r.${order} LIMIT ($2::text)::bigint`;
}

/** Events are sorted by two columns: those after the subject `$3` and the number `$4`; only those of the subject `$5`, if `isOfOne`. */
function eventsPage(tables: TableNames, isOfOne: boolean): string {
  return `SELECT ${textColumnList(EVENT)} FROM ${tables.events} AS r
  WHERE namespace = ($1::text) AND (subject, number) > (($3::text), ($4::text)::bigint)${
    isOfOne ? " AND subject = ($5::text)" : ""
  } ORDER BY r.subject, r.number LIMIT ($2::text)::bigint`;
}

function elapsed({ commitments }: TableNames, hasPosition: boolean): string {
  const afterPosition = ` AND (expires_at, id) > (SELECT expires_at, id FROM ${commitments}
        WHERE namespace = ($1::text) AND id = ($3::text))`;
  return `SELECT id FROM ${commitments} WHERE namespace = ($1::text) AND state = 'held'
        AND expires_at <= (SELECT ${CLOCK})${hasPosition ? afterPosition : ""}
        ORDER BY expires_at, id LIMIT ($2::text)::bigint`;
}

export type Statements = ReturnType<typeof createStatements>;

export function createStatements(tables: TableNames) {
  const { commitments } = tables;
  return {
    lock: named("lock", lock(tables)),
    lockUnlessOpen: named("lock_unless_open", lockUnlessOpen(tables)),
    read: named("read", read(tables)),
    write: named("write", writeText(tables)),
    /** The texts for a connection of the application, which are sent with literals. */
    inside: {
      lock: lockInside(tables),
      read: readInside(tables),
      probe: probe(tables),
      unprobe: unprobe(tables),
      write: writeText(tables),
    },
    written: named("written", written(tables)),
    purge: named("purge", purge(tables)),
    check: named("check", check(tables)),
    settings: named("settings", settings(tables)),
    now: named("now", `SELECT (${CLOCK})::text`),
    /** Returns one row: (now, the columns of the commitment `$2` or NULLs). */
    get: named(
      "get",
      `SELECT (${BEGUN})::text, found.* FROM (SELECT 1) AS once LEFT JOIN LATERAL (
        SELECT ${textColumnList(COMMITMENT)} FROM ${commitments} WHERE namespace = ($1::text) AND id = ($2::text)
      ) AS found ON true`,
    ),
    /** Up to `$2` ids of holds in the namespace `$1`; only those after the commitment `$3`, if `hasPosition`. */
    elapsed: (hasPosition: boolean) => named("elapsed", elapsed(tables, hasPosition)),
    page: (paged: PageShape) => named("page", page(tables, paged)),
    events: (isOfOne: boolean) => named("events", eventsPage(tables, isOfOne)),
  };
}

/** The name contains a hash of the text: tables of another schema change the text, and a name must mean the same text on every connection. */
function named(what: string, text: string): Statement {
  return { name: `nevertwice_r_${what}_${hash("sha256", text, "hex").slice(0, 16)}`, text };
}
