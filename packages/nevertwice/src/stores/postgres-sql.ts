/**
 * The statements of the Postgres store. Each is one atomic step for a batch of calls, and follows core/record.ts.
 *
 * `input` is the calls, one row each. `judged` reads the records without locking them. A call that needs no write is
 * answered by that, so a record that is only read is never locked. The records that may be written are `locked` in the
 * order of their ids, and `decided` by their content and the clock after the lock. A call whose record was locked by another
 * transaction, or changed in between, gets no row in the answer and is repeated. A damaged record is never locked: `judged`
 * answers `damaged` with the column, and the other calls continue.
 *
 * `judged` uses the time at which the statement arrived, which is never later than its snapshot. So no renewal that the
 * snapshot misses can make a record look lapsed. Parameters are text: array literals with one element a call. Records are
 * looked up one by one in LATERAL subqueries, since a plan that was made for an empty table and kept for a full one must not
 * scan it. The small statements that claims and completions are tried with first are in `postgres/quick-sql.ts`.
 */

import { claim } from "./postgres/claims-sql.ts";
import type { Statement } from "./postgres/client.ts";
import { WAITS_FOR_STANDBYS } from "./postgres/durability.ts";
import { markLapsedSql } from "./postgres/held-sql.ts";
import { fromHex, toHex } from "./postgres/ids.ts";
import {
  IS_NO_PRIMARY,
  IS_SHOWN,
  LIST_SETTINGS,
  type ListShape,
  listSql,
  namespacesSql,
  overdueSql,
  undecidedSql,
  viewColumns,
} from "./postgres/lists-sql.ts";
import { markSql } from "./postgres/marks-sql.ts";
import { quickClaim, quickClaimOfOne, quickComplete, quickCompleteOfOne } from "./postgres/quick-sql.ts";
import {
  BEGUN,
  CLOCK,
  DAMAGE,
  endedHistory,
  IS_EXPIRED,
  IS_SOUND,
  input,
  LOCK_LIMIT,
  LOCK_TIMEOUT_MS,
  STARTED,
  STATE_SEEN,
  UNFLUSHED,
} from "./postgres/record-sql.ts";
import { hasAddedColumns } from "./postgres/schema.ts";
import { abandonStep, completeStep, KEEP_STEP, renewStep, settle } from "./postgres/settlements-sql.ts";

export { CLOCK } from "./postgres/record-sql.ts";

/** What `read` shows besides, with whether the attempt has given its claim up, and the end of its lease. */
const detailColumns = (isMigrated: boolean) =>
  `${viewColumns(isMigrated)}${isMigrated ? ", history, spent::text, lease_ends_at::text" : ""}`;

/** Answers rows of (is no primary, columns of a record): at least one row, with nulls if there is no record. */
function view(records: string, where: string, columns: string): string {
  return `SELECT ${IS_NO_PRIMARY}, view.* FROM (SELECT 1) AS once LEFT JOIN LATERAL (
    SELECT ${columns} FROM (SELECT *, ${BEGUN} AS now FROM ${records}) AS look WHERE ${IS_SHOWN} AND ${where}
  ) AS view ON true`;
}

/** The record with the one id of the array `$1`. */
const READ = `id = ${fromHex("(($1::text)::text[])[1]")}`;

/** The same for all ids of the array `$1`: one row each, in the form of `view`, in any order. */
function readTogether(records: string, isMigrated: boolean): string {
  return `WITH ${input({ id: "text" })}
  SELECT ${IS_NO_PRIMARY}, view.* FROM input LEFT JOIN LATERAL (
    SELECT ${detailColumns(isMigrated)} FROM (SELECT *, ${BEGUN} AS now FROM ${records}) AS look
    WHERE ${IS_SHOWN} AND id = input.id LIMIT 1
  ) AS view ON true`;
}

/**
 * Removes the record with the id `$1` and the fence `$2`. A completed record is blanked instead and gets the outcome `$3`;
 * or, if `$4` is true, it is released. Answers a row (id, null) if it changed something. Leaves a damaged record unchanged
 * and answers (id, column).
 */
function forget(records: string, isMigrated: boolean): string {
  const erased = isMigrated ? ", steps = NULL" : "";
  const reopened = isMigrated ? `${erased}, history = ${endedHistory("completed_at", "'completed'")}` : "";
  return `WITH locked AS MATERIALIZED (
    SELECT *, ${CLOCK} AS now FROM (
      SELECT *, ${DAMAGE} AS damage FROM ${records}
      WHERE id = ${fromHex("($1::text)")} AND (SELECT set_config('lock_timeout', '${LOCK_TIMEOUT_MS}', true)) IS NOT NULL
      FOR UPDATE
    ) AS r
  ), decided AS MATERIALIZED (
    SELECT id, ${STATE_SEEN} AS state_seen, ($4::text)::boolean AS reopen FROM locked
    WHERE damage IS NULL AND fence = ($2::text)::bigint AND NOT ${IS_EXPIRED}
  ), removed AS (
    DELETE FROM ${records} AS r USING decided AS d
    WHERE r.id = d.id AND d.state_seen IN ('lapsed', 'released') RETURNING r.id
  ), blanked AS (
    UPDATE ${records} AS r SET parts = NULL, fingerprint = NULL, outcome = ($3::text)${erased} FROM decided AS d
    WHERE r.id = d.id AND d.state_seen = 'completed' AND NOT d.reopen RETURNING r.id
  ), reopened AS (
    UPDATE ${records} AS r SET state = 'released', spent = true, completed_at = NULL, outcome = NULL${reopened} FROM decided AS d
    WHERE r.id = d.id AND d.state_seen = 'completed' AND d.reopen RETURNING r.id
  )
  SELECT ${toHex("id")}, NULL FROM removed UNION ALL SELECT ${toHex("id")}, NULL FROM blanked
  UNION ALL SELECT ${toHex("id")}, NULL FROM reopened UNION ALL SELECT ${toHex("id")}, damage FROM locked WHERE damage IS NOT NULL`;
}

/**
 * Removes at most `$1` expired records that may be purged since `$2` or later. Skips damaged and locked ones, which do not
 * count. Answers (looked at, removed, since when the last of them could be purged). A held record that waits for a decision
 * is kept, and no later purge looks at it (held-sql.ts).
 * The start is a comparison of rows, since the planner would expect few rows between two times, and sort all that there are.
 * The DELETE selects by a verdict, of which the planner expects few, so that it looks up the records one by one.
 */
function purge(records: string): string {
  return `WITH old AS MATERIALIZED (
    SELECT *, ${CLOCK} AS now FROM (
      SELECT id, state, hold, kept_until, purge_at FROM ${records}
      WHERE (purge_at, id) >= (($2::text)::bigint, '') AND purge_at <= ${STARTED} AND kept_until <= ${STARTED} AND ${IS_SOUND}
      ORDER BY purge_at LIMIT ($1::text)::bigint FOR UPDATE SKIP LOCKED
    ) AS locked
  ), decided AS MATERIALIZED (
    SELECT id, CASE WHEN ${IS_EXPIRED} THEN 'remove' WHEN hold AND state = 'pending' THEN 'wait' ELSE 'keep' END AS verdict FROM old
  ), waiting AS (
    UPDATE ${records} AS r SET purge_at = NULL FROM decided AS d WHERE r.id = d.id AND d.verdict = 'wait'
  ), removed AS (
    DELETE FROM ${records} AS r USING decided AS d WHERE r.id = d.id AND d.verdict = 'remove' RETURNING r.id
  )
  SELECT (SELECT count(*) FROM old)::text, (SELECT count(*) FROM removed)::text, (SELECT max(purge_at) FROM old)::text`;
}

/** Answers (version, schema, default isolation, is a replica, is read-only, encoding, waits for standbys, has the columns that were added). */
function check(records: string, migrations: string): string {
  return `SELECT (SELECT max(version) FROM ${migrations})::text,
    (SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = '${records.replaceAll("'", "''")}'::regclass),
    current_setting('default_transaction_isolation'), pg_is_in_recovery()::text,
    current_setting('transaction_read_only'), current_setting('server_encoding'), ${WAITS_FOR_STANDBYS},
    ${hasAddedColumns(records)}::text`;
}

/**
 * Answers rows of (name, value): the settings that decide which faults a commit survives, and how large the log is. `standbys`
 * is the number of standbys that take part in a synchronous commit, and null for a role that may not see it. Each `old
 * transaction` keeps purged records from being cleaned up: the oldest ones of the sessions that the role may see, and prepared
 * ones.
 */
function settings(records: string): string {
  return `SELECT name, current_setting(name) FROM unnest(ARRAY['server_version', 'fsync', 'full_page_writes',
    'synchronous_commit', 'synchronous_standby_names', 'wal_compression']) AS name
  UNION ALL
  SELECT 'max_wal_megabytes', setting FROM pg_settings WHERE name = 'max_wal_size'
  UNION ALL
  SELECT 'patroni', (count(*) = 3)::text FROM pg_settings
  WHERE name IN ('cluster_name', 'track_commit_timestamp', 'wal_log_hints') AND source = 'command line'
  UNION ALL
  SELECT 'relpersistence', relpersistence::text FROM pg_class WHERE oid = '${records.replaceAll("'", "''")}'::regclass
  UNION ALL
  SELECT 'standbys', CASE WHEN count(*) = count(sync_state) THEN count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) END::text
  FROM pg_stat_replication
  UNION ALL
  (SELECT 'old transaction', format('a transaction of %s (process %s, %s) has been open for %s minutes', coalesce(nullif(application_name, ''), usename),
      pid, state, floor(date_part('epoch', clock_timestamp() - xact_start) / 60))
    FROM pg_stat_activity WHERE datname = current_database() AND xact_start < clock_timestamp() - interval '${OLD_TRANSACTION}' AND backend_type = 'client backend'
    ORDER BY xact_start LIMIT 3)
  UNION ALL
  (SELECT 'old transaction', format('the prepared transaction %s has been open for %s minutes', quote_literal(gid),
      floor(date_part('epoch', clock_timestamp() - prepared) / 60))
    FROM pg_prepared_xacts WHERE database = current_database() AND prepared < clock_timestamp() - interval '${OLD_TRANSACTION}' ORDER BY prepared LIMIT 3)`;
}

/** No work of an application should keep a transaction open for so long. */
const OLD_TRANSACTION = "5 minutes";

const NOTIFY = "SELECT pg_notify(($1::text), ($2::text))::text";

/** `together` is for a batch and skips a locked row; `alone` is for one call and waits for the lock. */
export interface StepStatements {
  readonly together: Statement;
  readonly alone: Statement;
  readonly quick?: QuickStatements;
}

/** Tried first: they answer the common calls, and leave the others to the full statements. */
export interface QuickStatements {
  readonly together: Statement;
  readonly one: Statement;
}

/** `toName` creates a statement's name from its purpose and text: one connection may serve tables of several schemas. */
export function createStatements(
  tables: { readonly records: string; readonly migrations: string },
  toName: (purpose: string, text: string) => string,
) {
  const { records, migrations } = tables;
  const statement = (purpose: string, text: string): Statement => ({ name: toName(purpose, text), text });
  const step = (purpose: string, write: (lock: string) => string): StepStatements => ({
    together: statement(purpose, write("FOR UPDATE SKIP LOCKED")),
    alone: statement(`${purpose}_alone`, write("FOR UPDATE")),
  });
  /** A statement with its form for tables that were not migrated yet. */
  const twoForms = (purpose: string, write: (isMigrated: boolean) => string): Statement => ({
    ...statement(purpose, write(true)),
    unmigrated: statement(purpose, write(false)),
  });
  const stepInTwoForms = (
    purpose: string,
    write: (lock: string, isMigrated: boolean) => string,
  ): StepStatements => ({
    together: twoForms(purpose, (isMigrated) => write("FOR UPDATE SKIP LOCKED", isMigrated)),
    alone: twoForms(`${purpose}_alone`, (isMigrated) => write("FOR UPDATE", isMigrated)),
  });
  const quick = (purpose: string, limits: readonly string[]): QuickStatements => ({
    together: statement(purpose, quickClaim(records, limits)),
    one: statement(`${purpose}_one`, quickClaimOfOne(records, limits)),
  });
  return {
    claim: {
      ...stepInTwoForms("claim", (lock, isMigrated) => claim(records, lock, isMigrated)),
      quick: quick("claim_quick", [LOCK_LIMIT]),
    },
    /** The same for claims that a crash of the server may lose. */
    unflushedClaim: {
      ...stepInTwoForms("claim_unflushed", (lock, isMigrated) =>
        claim(records, lock, isMigrated, [LOCK_LIMIT, UNFLUSHED]),
      ),
      quick: quick("claim_quick_unflushed", [LOCK_LIMIT, UNFLUSHED]),
    },
    complete: {
      ...stepInTwoForms("complete", (lock, isMigrated) => settle(records, lock, completeStep(isMigrated))),
      quick: {
        together: twoForms("complete_quick", (isMigrated) => quickComplete(records, isMigrated)),
        one: twoForms("complete_quick_one", (isMigrated) => quickCompleteOfOne(records, isMigrated)),
      },
    },
    keepStep: step("keep_step", (lock) => settle(records, lock, KEEP_STEP)),
    abandon: stepInTwoForms("abandon", (lock, isMigrated) => settle(records, lock, abandonStep(isMigrated))),
    renew: stepInTwoForms("renew", (lock, isMigrated) => settle(records, lock, renewStep(isMigrated))),
    read: {
      together: twoForms("read", (isMigrated) => readTogether(records, isMigrated)),
      alone: twoForms("read_alone", (isMigrated) => view(records, READ, detailColumns(isMigrated))),
    },
    list: (shape: ListShape): Statement => ({
      name: "",
      text: listSql(records, shape, true),
      unmigrated: { name: "", text: listSql(records, shape, false) },
    }),
    undecided: { name: "", text: undecidedSql(records) },
    markLapsed: {
      recent: { name: "", text: markLapsedSql(records, "recent") },
      earlier: { name: "", text: markLapsedSql(records, "earlier") },
    },
    namespaces: { name: "", text: namespacesSql(records) },
    overdue: { name: "", text: overdueSql(records) },
    listSettings: { name: "", text: LIST_SETTINGS },
    forget: twoForms("forget", (isMigrated) => forget(records, isMigrated)),
    purge: statement("purge", purge(records)),
    mark: statement("mark", markSql(records)),
    notify: statement("notify", NOTIFY),
    check: statement("check", check(records, migrations)),
    settings: statement("settings", settings(records)),
  };
}
