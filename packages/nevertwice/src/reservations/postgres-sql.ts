/**
 * The statements of reservations on Postgres. A transaction is `lock`, `read`, `write`, however many actions it carries.
 *
 * What is locked are rows of two tables: keys, then resources, each in the byte order of their names. A name that has no
 * row gets one with nothing in it, so that it can be locked like the others: whoever comes second waits for the first to
 * end, and a rollback leaves nothing. (Advisory locks could do the same, but take room in a table of fixed size that the
 * whole server shares.) Nothing changes a commitment but under the lock of its resource, so it needs none of its own.
 *
 * Parameters are text. Rows are looked up in LATERAL subqueries, one by one, and written with ON CONFLICT, since a plan
 * that is made for an empty table and kept for a full one must not scan it.
 */
import { hash } from "node:crypto";
import type { Statement } from "../stores/postgres/client.ts";
import type { Tables } from "./postgres/migrations.ts";
import { CHECKPOINT, COMMITMENT, type Columns, EVENT, KEY, RESOURCE } from "./postgres/rows.ts";

/** Milliseconds since the epoch, whenever it is evaluated. */
const CLOCK = "floor(date_part('epoch', clock_timestamp()) * 1000)::bigint";
/** No lock is waited for longer than this. */
const LOCK_TIMEOUT_MS = 2_000;
/** A process that stands still between two statements must not keep others from what it has locked. */
const IDLE_TIMEOUT_MS = 10_000;

const columnsOf = (columns: Columns) => Object.keys(columns).join(", ");
const textsOf = (columns: Columns) =>
  Object.keys(columns)
    .map((name) => `${name}::text`)
    .join(", ");

/**
 * Locks the keys `$2` and then the resources: those named by `$3` and those of the commitments `$4`, which never change
 * theirs. All of the namespace `$1`. Answers a row with the name of each resource.
 */
function lock({ keys, resources, commitments }: Tables): string {
  return `WITH given AS MATERIALIZED (
    SELECT ($1::text) COLLATE "C" AS namespace, ($2::text)::text[] AS key_ids, ($3::text)::text[] AS names,
      ($4::text)::text[] AS commitment_ids, set_config('lock_timeout', '${LOCK_TIMEOUT_MS}', true),
      set_config('idle_in_transaction_session_timeout', '${IDLE_TIMEOUT_MS}', true)
  ), named AS MATERIALIZED (
    SELECT namespace, name COLLATE "C" AS name FROM given, unnest(names) AS name
    UNION
    SELECT given.namespace, c.resource FROM given, unnest(commitment_ids) AS wanted
    CROSS JOIN LATERAL (
      SELECT resource FROM ${commitments} WHERE namespace = given.namespace AND id = wanted LIMIT 1
    ) AS c
  ), locked_keys AS (
    INSERT INTO ${keys} AS k (namespace, id)
    SELECT namespace, id FROM given, unnest(key_ids) AS id ORDER BY id COLLATE "C"
    ON CONFLICT (namespace, id) DO UPDATE SET digest = k.digest WHERE false
    RETURNING id
  ), keys_first AS MATERIALIZED (
    SELECT count(*) AS new_keys FROM locked_keys
  ), locked_resources AS (
    INSERT INTO ${resources} AS r (namespace, name)
    SELECT namespace, name FROM named, keys_first WHERE new_keys >= 0 ORDER BY name
    ON CONFLICT (namespace, name) DO UPDATE SET state = r.state WHERE false
  )
  SELECT name FROM named`;
}

const WIDTH = Math.max(...[KEY, RESOURCE, COMMITMENT].map((columns) => Object.keys(columns).length));

/** What kind of row it is, then its columns, then nothing up to the widest. */
function shown(kind: string, columns: Columns): string {
  const padding = ", NULL".repeat(WIDTH - Object.keys(columns).length);
  return `'${kind}', ${textsOf(columns)}${padding}`;
}

/**
 * What was locked, by a snapshot that is younger than the locks, and the clock: the keys `$2`, the resources `$3`, the
 * commitments `$4`; and of each resource `$5` at most so many (`$6`) holds whose time is over, the oldest first.
 * `resource || ''` is in one index only: by another, a plan could go through all that was ever held of the resource.
 */
function read({ keys, resources, commitments }: Tables): string {
  const each = (array: string, columns: Columns, table: string, name: string) =>
    `given CROSS JOIN unnest(${array}) AS wanted CROSS JOIN LATERAL (
      SELECT ${columnsOf(columns)} FROM ${table} WHERE namespace = given.namespace AND ${name} = wanted LIMIT 1
    ) AS r`;
  return `WITH given AS MATERIALIZED (
    SELECT ($1::text) COLLATE "C" AS namespace, ($2::text)::text[] AS key_ids, ($3::text)::text[] AS names,
      ($4::text)::text[] AS commitment_ids, ($5::text)::text[] AS placements, ($6::text)::bigint[] AS limits,
      ${CLOCK} AS now
  )
  SELECT 'now', now::text${", NULL".repeat(WIDTH - 1)} FROM given
  UNION ALL
  SELECT ${shown("key", qualified(KEY))} FROM ${each("key_ids", KEY, keys, "id")} WHERE r.digest IS NOT NULL
  UNION ALL
  SELECT ${shown("resource", qualified(RESOURCE))} FROM ${each("names", RESOURCE, resources, "name")}
    WHERE r.capacity IS NOT NULL
  UNION ALL
  SELECT ${shown("commitment", qualified(COMMITMENT))} FROM ${each("commitment_ids", COMMITMENT, commitments, "id")}
  UNION ALL
  SELECT * FROM (
    SELECT ${shown("elapsed", qualified(COMMITMENT))}
    FROM given CROSS JOIN unnest(placements, limits) AS sought (wanted, bound) CROSS JOIN LATERAL (
      SELECT ${columnsOf(COMMITMENT)} FROM ${commitments}
      WHERE namespace = given.namespace AND resource || '' = wanted AND state = 'held' AND expires_at <= given.now
      ORDER BY expires_at, id LIMIT bound
    ) AS r ORDER BY r.expires_at, r.id
  ) AS elapsed`;
}

function qualified(columns: Columns): Columns {
  return Object.fromEntries(Object.entries(columns).map(([name, type]) => [`r.${name}`, type]));
}

/** Rows of a JSON array, whose names are those of the columns. */
function given(parameter: string, columns: Columns): string {
  const typed = Object.entries(columns).map(([name, type]) => `${name} ${type}`);
  return `json_to_recordset((${parameter}::text)::json) AS given (${typed.join(", ")})`;
}

function insert(table: string, columns: Columns, parameter: string): string {
  const names = columnsOf(columns);
  return `INSERT INTO ${table} (${names}) SELECT ${names} FROM ${given(parameter, columns)}`;
}

function upsert(table: string, columns: Columns, parameter: string, by: readonly string[]): string {
  const changed = Object.keys(columns).filter((name) => !by.includes(name));
  return `${insert(table, columns, parameter)} ON CONFLICT (${by.join(", ")}) DO UPDATE SET ${changed
    .map((name) => `${name} = excluded.${name}`)
    .join(", ")}`;
}

/** All that was decided, a JSON array a table; and removes the rows that were made to lock the resources `$7` of `$6`. */
function write({ keys, resources, commitments, events, checkpoints }: Tables): string {
  return `WITH written_keys AS (${upsert(keys, KEY, "$1", ["namespace", "id"])}),
  written_resources AS (${upsert(resources, RESOURCE, "$2", ["namespace", "name"])}),
  written_commitments AS (${upsert(commitments, COMMITMENT, "$3", ["namespace", "id"])}),
  written_events AS (${insert(events, EVENT, "$4")}),
  written_checkpoint AS (${insert(checkpoints, CHECKPOINT, "$5")})
  DELETE FROM ${resources} WHERE namespace = ($6::text) AND name = ANY (($7::text)::text[]) AND capacity IS NULL`;
}

/** A row if the transaction `$3` has written the key `$2`. */
function written({ keys }: Tables): string {
  return `SELECT id FROM ${keys} WHERE namespace = ($1::text) AND id = ($2::text) AND written_by = ($3::text)`;
}

/** Removes at most `$1` keys past their time; those that somebody has locked are left. Answers (looked at, removed). */
function purge({ keys }: Tables): string {
  return `WITH old AS MATERIALIZED (
    SELECT namespace, id FROM ${keys} WHERE kept_until <= ${CLOCK.replace("clock_", "statement_")}
    ORDER BY kept_until LIMIT ($1::text)::bigint FOR UPDATE SKIP LOCKED
  ), removed AS (
    DELETE FROM ${keys} AS k USING old
    WHERE k.namespace = old.namespace AND k.id = old.id AND k.kept_until <= ${CLOCK} RETURNING k.id
  )
  SELECT (SELECT count(*) FROM old)::text, (SELECT count(*) FROM removed)::text`;
}

/** As the store of claims asks it: (version, schema, default isolation, is a replica, is read-only, encoding). */
function check({ migrations }: Tables): string {
  return `SELECT (SELECT max(version) FROM ${migrations})::text, NULL, current_setting('default_transaction_isolation'),
    pg_is_in_recovery()::text, current_setting('transaction_read_only'), current_setting('server_encoding')`;
}

/** Rows of (name, value); a table that is UNLOGGED is named by `unlogged`. */
function settings(tables: Tables): string {
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

/** A page of a table, in the order of a column (`r.`, since the answer's own is text): of the namespace `$1`, after `$3`, at most `$2`; and where columns are what is given. */
export interface Paged {
  readonly table: keyof Omit<Tables, "migrations">;
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

function page(tables: Tables, { table, order, filters }: Paged): string {
  const where = filters.map((name, index) => ` AND ${name} = ($${index + 4}::text)`).join("");
  return `SELECT ${textsOf(COLUMNS[table])} FROM ${tables[table]} AS r
  WHERE namespace = ($1::text) AND ${order} > ($3::text)${where} ORDER BY r.${order} LIMIT ($2::text)::bigint`;
}

/** Events are in the order of two columns: after the subject `$3` and its number `$4`; of the subject `$5` alone. */
function eventsPage(tables: Tables, isOfOne: boolean): string {
  return `SELECT ${textsOf(EVENT)} FROM ${tables.events} AS r
  WHERE namespace = ($1::text) AND (subject, number) > (($3::text), ($4::text)::bigint)${
    isOfOne ? " AND subject = ($5::text)" : ""
  } ORDER BY r.subject, r.number LIMIT ($2::text)::bigint`;
}

export type Statements = ReturnType<typeof statementsOf>;

export function statementsOf(tables: Tables) {
  const { commitments } = tables;
  return {
    lock: named("lock", lock(tables)),
    read: named("read", read(tables)),
    write: named("write", write(tables)),
    written: named("written", written(tables)),
    purge: named("purge", purge(tables)),
    check: named("check", check(tables)),
    settings: named("settings", settings(tables)),
    now: named("now", `SELECT (${CLOCK})::text`),
    /** (now, then the commitment `$2` or nothing). */
    get: named(
      "get",
      `SELECT (${CLOCK})::text, found.* FROM (SELECT 1) AS once LEFT JOIN LATERAL (
        SELECT ${textsOf(COMMITMENT)} FROM ${commitments} WHERE namespace = ($1::text) AND id = ($2::text)
      ) AS found ON true`,
    ),
    elapsed: named(
      "elapsed",
      `SELECT id FROM ${commitments} WHERE namespace = ($1::text) AND state = 'held'
        AND expires_at <= (SELECT ${CLOCK}) ORDER BY expires_at, id LIMIT ($2::text)::bigint`,
    ),
    page: (paged: Paged) => named("page", page(tables, paged)),
    events: (isOfOne: boolean) => named("events", eventsPage(tables, isOfOne)),
  };
}

/** The same name means the same text on every connection, which the tables of another schema would break. */
function named(what: string, text: string): Statement {
  return { name: `nevertwice_r_${what}_${hash("sha256", text, "hex").slice(0, 16)}`, text };
}
