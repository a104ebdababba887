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
import { quickClaim, quickClaimOfOne, quickComplete, quickCompleteOfOne } from "./postgres/quick-sql.ts";
import {
  BEGUN,
  CLOCK,
  DAMAGE,
  HAS_STEPS,
  IS_EXPIRED,
  IS_LAPSED,
  IS_SOUND,
  input,
  LOCK_LIMIT,
  LOCK_TIMEOUT_MS,
  STARTED,
  STATE_SEEN,
  UNFLUSHED,
} from "./postgres/record-sql.ts";
import { STEPS_COLUMN } from "./postgres/schema.ts";
import { ABANDON, completeStep, KEEP_STEP, RENEW, settle } from "./postgres/settlements-sql.ts";

export { CLOCK } from "./postgres/record-sql.ts";

/** The record for `read` and `list`, with times in microseconds, its damaged column, and its steps. */
const viewColumns = (
  isMigrated: boolean,
) => `id, parts, fingerprint, ${STATE_SEEN}, token, fence::text, number::text, hold::text, claimed_at::text,
    CASE WHEN state = 'pending' AND NOT ${IS_LAPSED} THEN lease_ends_at - now ELSE 0 END::text,
    completed_at::text, kept_until::text, outcome, ${DAMAGE}${isMigrated ? SHOWN_STEPS : ""}`;

const SHOWN_STEPS = `, CASE WHEN state <> 'completed' AND ${HAS_STEPS} THEN steps END`;

/** A damaged record is shown whatever its deadline says; otherwise it would look like a free key. */
const IS_SHOWN = `NOT (${IS_SOUND} AND ${IS_EXPIRED})`;

/** The server is not the primary, or no longer: it may lack the last claims. */
const IS_NO_PRIMARY = "(pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on')::text";

/** Answers rows of (is no primary, columns of a record): at least one row, with nulls if there is no record. */
function view(records: string, where: string, isMigrated: boolean): string {
  return `SELECT ${IS_NO_PRIMARY}, view.* FROM (SELECT 1) AS once LEFT JOIN LATERAL (
    SELECT ${viewColumns(isMigrated)} FROM (SELECT *, ${BEGUN} AS now FROM ${records}) AS look WHERE ${IS_SHOWN} AND ${where}
  ) AS view ON true`;
}

/** The record with the one id of the array `$1`. */
const READ = "id = (($1::text)::text[])[1]";

/** The same for all ids of the array `$1`: one row each, in the form of `view`, in any order. */
function readTogether(records: string, isMigrated: boolean): string {
  return `WITH ${input({ id: "text" })}
  SELECT ${IS_NO_PRIMARY}, view.* FROM input LEFT JOIN LATERAL (
    SELECT ${viewColumns(isMigrated)} FROM (SELECT *, ${BEGUN} AS now FROM ${records}) AS look
    WHERE ${IS_SHOWN} AND id = input.id LIMIT 1
  ) AS view ON true`;
}

/**
 * At most `$4` records whose parts begin with `$1`, in the order of their ids, after the id `$2`, in the state `$3` (empty
 * for any) or damaged. Parts are a JSON array of namespace, scope, operation and key, so a prefix that ends at a comma
 * selects exactly one namespace, or one namespace and scope.
 */
const LIST = `starts_with(parts, ($1::text)) AND id > ($2::text)
    AND (($3::text) = '' OR ${STATE_SEEN} = ($3::text) OR NOT ${IS_SOUND})
    ORDER BY id LIMIT ($4::text)::bigint`;

/**
 * Removes the record with the id `$1` and the fence `$2`. A completed record is blanked instead and gets the outcome `$3`;
 * or, if `$4` is true, it is released. Answers a row (id, null) if it changed something. Leaves a damaged record unchanged
 * and answers (id, column).
 */
function forget(records: string, isMigrated: boolean): string {
  const erased = isMigrated ? ", steps = NULL" : "";
  return `WITH locked AS MATERIALIZED (
    SELECT *, ${CLOCK} AS now FROM (
      SELECT *, ${DAMAGE} AS damage FROM ${records}
      WHERE id = ($1::text) AND (SELECT set_config('lock_timeout', '${LOCK_TIMEOUT_MS}', true)) IS NOT NULL
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
    UPDATE ${records} AS r SET state = 'released', spent = true, completed_at = NULL, outcome = NULL${erased} FROM decided AS d
    WHERE r.id = d.id AND d.state_seen = 'completed' AND d.reopen RETURNING r.id
  )
  SELECT id, NULL FROM removed UNION ALL SELECT id, NULL FROM blanked UNION ALL SELECT id, NULL FROM reopened
  UNION ALL SELECT id, damage FROM locked WHERE damage IS NOT NULL`;
}

/**
 * Removes at most `$1` expired records. Skips damaged and locked ones, which do not count. Answers (looked at, removed).
 * The DELETE selects by a verdict, of which the planner expects few, so that it looks up the records one by one.
 */
function purge(records: string): string {
  return `WITH old AS MATERIALIZED (
    SELECT *, ${CLOCK} AS now FROM (
      SELECT id, state, hold, kept_until FROM ${records}
      WHERE purge_at <= ${STARTED} AND kept_until <= ${STARTED} AND ${IS_SOUND}
      ORDER BY purge_at LIMIT ($1::text)::bigint FOR UPDATE SKIP LOCKED
    ) AS locked
  ), decided AS MATERIALIZED (
    SELECT id, CASE WHEN ${IS_EXPIRED} THEN 'remove' ELSE 'keep' END AS verdict FROM old
  ), removed AS (
    DELETE FROM ${records} AS r USING decided AS d WHERE r.id = d.id AND d.verdict = 'remove' RETURNING r.id
  )
  SELECT (SELECT count(*) FROM old)::text, (SELECT count(*) FROM removed)::text`;
}

/** Answers (version, schema, default isolation, is a replica, is read-only, encoding, waits for standbys, has steps). */
function check(records: string, migrations: string): string {
  return `SELECT (SELECT max(version) FROM ${migrations})::text,
    (SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = '${records.replaceAll("'", "''")}'::regclass),
    current_setting('default_transaction_isolation'), pg_is_in_recovery()::text,
    current_setting('transaction_read_only'), current_setting('server_encoding'), ${WAITS_FOR_STANDBYS},
    EXISTS (SELECT FROM pg_attribute WHERE attrelid = '${records.replaceAll("'", "''")}'::regclass
      AND attname = '${STEPS_COLUMN}' AND NOT attisdropped)::text`;
}

/**
 * Answers rows of (name, value): the settings that decide which faults a commit survives. `standbys` is the number of
 * standbys that take part in a synchronous commit, and null for a role that may not see it.
 */
function settings(records: string): string {
  return `SELECT name, current_setting(name) FROM unnest(ARRAY['server_version', 'fsync', 'full_page_writes',
    'synchronous_commit', 'synchronous_standby_names']) AS name
  UNION ALL
  SELECT 'relpersistence', relpersistence::text FROM pg_class WHERE oid = '${records.replaceAll("'", "''")}'::regclass
  UNION ALL
  SELECT 'standbys', CASE WHEN count(*) = count(sync_state) THEN count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) END::text
  FROM pg_stat_replication`;
}

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
    abandon: step("abandon", (lock) => settle(records, lock, ABANDON)),
    renew: step("renew", (lock) => settle(records, lock, RENEW)),
    read: {
      together: twoForms("read", (isMigrated) => readTogether(records, isMigrated)),
      alone: twoForms("read_alone", (isMigrated) => view(records, READ, isMigrated)),
    },
    list: twoForms("list", (isMigrated) => view(records, LIST, isMigrated)),
    forget: twoForms("forget", (isMigrated) => forget(records, isMigrated)),
    purge: statement("purge", purge(records)),
    notify: statement("notify", NOTIFY),
    check: statement("check", check(records, migrations)),
    settings: statement("settings", settings(records)),
  };
}
