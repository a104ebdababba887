/**
 * The Postgres store's statements. Each is one atomic step for a whole batch of calls, and mirrors core/record.ts.
 *
 * `input` is the calls, a row each. `judged` looks at records without locking them: what needs no write is answered by
 * that, so a key that is only asked for is never locked. What may be written is `locked`, in the order of ids, and
 * `decided` by the record as it is once locked and the clock as it is then. A call whose record was locked by somebody,
 * or moved in between, gets no row in the answer, and is asked again.
 *
 * A look is judged by the time at which the statement came, which is never later than the snapshot it looks at: so no
 * renewal that the snapshot misses can make a record look lapsed. Parameters are text: array literals, an element a
 * call. Records are looked up in LATERAL subqueries, one by one, since a plan that is made for an empty table and kept
 * for a full one must not scan it.
 */

import { CLOCK_BACK_MARGIN_MS } from "../core/record.ts";

/** Microseconds since the epoch, whenever it is evaluated. */
const CLOCK = "(date_part('epoch', clock_timestamp()) * 1000000)::bigint";
/** Microseconds since the epoch when the statement came. */
const STARTED = "(date_part('epoch', statement_timestamp()) * 1000000)::bigint";
/** In microseconds. */
const CLOCK_BACK_MARGIN = CLOCK_BACK_MARGIN_MS * 1_000;
/** No statement waits longer than this for a lock: somebody's open transaction must not use up our connections. */
const LOCK_TIMEOUT_MS = 1_000;

/** What every decision is made by. */
const RECORD = `state, token, spent, fence, number, hold, took_over, claimed_at, lease, lease_ends_at, retention,
      kept_until, purge_at, fingerprint, parts`;

const IS_EXPIRED = "((state <> 'pending' OR NOT hold) AND now >= kept_until)";
const IS_LAPSED = "(spent OR now >= lease_ends_at)";
const IS_OWNED = `(token IS NOT NULL AND token = asked_token AND NOT ${IS_EXPIRED})`;
const STATE_SEEN = `CASE WHEN state = 'pending' AND ${IS_LAPSED} THEN 'lapsed' ELSE state END`;

const versionOf = (digest: string) => `left(${digest}, greatest(strpos(${digest}, ':') - 1, 0))`;
/** Null, which counts as false, where a side has no fingerprint. */
const DIFFERS = `(fingerprint <> asked_fingerprint
        AND ${versionOf("fingerprint")} = ${versionOf("asked_fingerprint")})`;

/** The verdicts that write: an absent record, the next attempt, our own claim again, and a deadline put right. */
const CLAIM_WRITES = "('begin', 'next', 'again', 'shorten')";

const CLAIM_VERDICT = `CASE
      WHEN fence IS NULL OR ${IS_EXPIRED} THEN CASE WHEN takeover IS NULL THEN 'begin' ELSE 'nothing' END
      WHEN state <> 'released' AND ${DIFFERS} THEN 'conflict'
      WHEN state = 'completed' THEN 'completed'
      WHEN token = asked_token THEN CASE WHEN spent THEN 'nothing' ELSE 'again' END
      WHEN state = 'pending' AND NOT ${IS_LAPSED} THEN
        CASE WHEN lease_ends_at - now > lease + ${CLOCK_BACK_MARGIN} THEN 'shorten' ELSE 'pending' END
      WHEN state = 'released' THEN CASE WHEN takeover IS NULL THEN 'next' ELSE 'nothing' END
      WHEN takeover IS NULL AND NOT hold AND NOT asked_hold THEN 'next'
      WHEN takeover = fence THEN 'next'
      ELSE 'unknown'
    END`;

/**
 * When purge looks at a record: not before it may go, and somewhat later, so that a renewal or a completion finds the
 * index entry good enough and leaves it alone (a heap-only update). Never, for a held record that waits to be decided.
 */
function purgeAt(given: { waits: string; keptUntil: string; retention: string; lease: string }): string {
  const { waits, keptUntil, retention, lease } = given;
  return `CASE
      WHEN ${waits} THEN NULL
      WHEN purge_at BETWEEN ${keptUntil} AND ${keptUntil} + ${retention} / 16 + ${lease} THEN purge_at
      ELSE ${keptUntil} + ${retention} / 16
    END`;
}

/** What each call asks: the names of its parameters, with their types, in order. */
type Asked = Readonly<Record<string, string>>;

/**
 * The calls, a row each. That the arrays come out of a subquery hides their length from the planner: for a short one it
 * would make a plan of its own each time, and planning takes longer than the step.
 */
function input(asked: Asked): string {
  const names = Object.keys(asked);
  const arrays = Object.entries(asked).map(
    ([name, type], index) => `($${index + 1}::text)::${type}[] AS all_${name}`,
  );
  // The one collation that orders ids the same way in every database: it is the order in which rows are locked.
  return `input AS MATERIALIZED (
    SELECT ${names.map((name) => (name === "id" ? 'calls.id COLLATE "C" AS id' : name)).join(", ")}, position, started
    FROM (
      SELECT ${arrays.join(", ")}, ${STARTED} AS started, set_config('lock_timeout', '${LOCK_TIMEOUT_MS}', true) OFFSET 0
    ) AS given, unnest(${names.map((name) => `all_${name}`).join(", ")})
      WITH ORDINALITY AS calls (${names.join(", ")}, position)
  )`;
}

const CLAIM_ASKED: Asked = {
  id: "text",
  asked_parts: "text",
  asked_fingerprint: "text",
  asked_token: "text",
  asked_lease: "bigint",
  asked_retention: "bigint",
  asked_hold: "boolean",
  takeover: "bigint",
};

const IS_FRESH = "verdict IN ('begin', 'next')";
const IS_AFTER_LAPSED = "verdict = 'next' AND state = 'pending'";

/** What is locked, judged again, and what the record becomes. */
const CLAIM_DECIDED = `verdicts AS MATERIALIZED (
    SELECT *, ${CLAIM_VERDICT} AS verdict FROM locked
  ), attempts AS MATERIALIZED (
    SELECT *,
      CASE WHEN ${IS_FRESH} THEN asked_retention ELSE retention END AS next_retention,
      CASE WHEN verdict = 'shorten' THEN lease ELSE asked_lease END AS next_lease,
      CASE WHEN verdict = 'shorten' THEN hold ELSE asked_hold OR (hold AND (verdict = 'again' OR ${IS_AFTER_LAPSED})) END AS next_hold
    FROM verdicts WHERE verdict IN ${CLAIM_WRITES}
  ), decided AS MATERIALIZED (
    SELECT id, position, verdict, now, next_lease, next_retention, next_hold,
      CASE WHEN ${IS_FRESH} THEN asked_parts ELSE parts END AS next_parts,
      CASE
        WHEN ${IS_FRESH} AND NOT (${IS_AFTER_LAPSED}) THEN asked_fingerprint
        WHEN ${IS_FRESH} THEN coalesce(asked_fingerprint, fingerprint)
        ELSE fingerprint
      END AS next_fingerprint,
      CASE WHEN ${IS_FRESH} THEN asked_token ELSE token END AS next_token,
      CASE WHEN ${IS_FRESH} THEN greatest(fence + 1, now) ELSE fence END AS next_fence,
      CASE verdict WHEN 'begin' THEN 1 WHEN 'next' THEN number + 1 ELSE number END AS next_number,
      CASE WHEN ${IS_FRESH} THEN ${IS_AFTER_LAPSED} ELSE took_over END AS next_took_over,
      CASE WHEN ${IS_FRESH} THEN now ELSE claimed_at END AS next_claimed_at,
      ${purgeAt({ waits: "next_hold", keptUntil: "now + next_lease + next_retention", retention: "next_retention", lease: "next_lease" })} AS next_purge_at
    FROM attempts
  )`;

/**
 * Rows of (position, status, detail, number, took over, id): `new` with its fence, by id alone if it was inserted;
 * `pending` with the microseconds left; `conflict` with the state; `unknown` with the fence; `completed`, and its
 * outcome once for an id, as `outcome`.
 */
const CLAIM_ANSWER = `SELECT position::text, CASE verdict WHEN 'nothing' THEN 'pending' ELSE verdict END,
    CASE verdict
      WHEN 'nothing' THEN '0'
      WHEN 'pending' THEN lease_left::text
      WHEN 'conflict' THEN state_seen
      WHEN 'unknown' THEN fence::text
    END, NULL, NULL, NULL
  FROM judged WHERE verdict NOT IN ${CLAIM_WRITES}
  UNION ALL
  SELECT NULL, 'outcome', outcome, NULL, NULL, id
  FROM (SELECT DISTINCT ON (id) id, outcome FROM judged WHERE verdict = 'completed' ORDER BY id) AS completed
  UNION ALL
  SELECT NULL, 'new', fence::text, '1', 'false', id FROM inserted
  UNION ALL
  SELECT position::text, CASE verdict WHEN 'shorten' THEN 'pending' ELSE 'new' END,
    CASE verdict WHEN 'shorten' THEN next_lease ELSE next_fence END::text, next_number::text, next_took_over::text, NULL
  FROM updated`;

/**
 * Claims. Writes what `claimRecord` grants or puts right; of several calls of one id the first that would write does,
 * and the others get no row. An id that nobody has is inserted, and a lost race writes nothing.
 */
function claim(records: string, lock: string): string {
  const asked = Object.keys(CLAIM_ASKED).join(", ");
  return `WITH ${input(CLAIM_ASKED)}, judged AS MATERIALIZED (
    SELECT ${asked}, position, fence, outcome, lease_ends_at - now AS lease_left, ${STATE_SEEN} AS state_seen,
      ${CLAIM_VERDICT} AS verdict
    FROM (
      SELECT input.*, r.*, started AS now FROM input
      LEFT JOIN LATERAL (SELECT ${RECORD}, outcome FROM ${records} WHERE id = input.id LIMIT 1) AS r ON true
    ) AS look
  ), wanted AS MATERIALIZED (
    SELECT DISTINCT ON (id) ${asked}, position, fence IS NOT NULL AS is_found
    FROM judged WHERE verdict IN ${CLAIM_WRITES} ORDER BY id, position
  ), inserted AS (
    INSERT INTO ${records} (id, parts, fingerprint, state, token, spent, fence, number, hold, took_over, claimed_at,
      lease, lease_ends_at, retention, kept_until, purge_at)
    SELECT id, asked_parts, asked_fingerprint, 'pending', asked_token, false, now, 1, asked_hold, false, now,
      asked_lease, now + asked_lease, asked_retention, now + asked_lease + asked_retention,
      CASE WHEN NOT asked_hold THEN now + asked_lease + asked_retention + asked_retention / 16 END
    FROM (SELECT *, ${CLOCK} AS now FROM wanted WHERE NOT is_found ORDER BY id OFFSET 0) AS absent
    ON CONFLICT (id) DO NOTHING
    RETURNING id, fence
  ), locked AS MATERIALIZED (
    SELECT found.*, r.*, ${CLOCK} AS now
    FROM (SELECT ${asked}, position FROM wanted WHERE is_found ORDER BY id OFFSET 0) AS found
    CROSS JOIN LATERAL (SELECT ${RECORD} FROM ${records} WHERE id = found.id ${lock}) AS r
  ), ${CLAIM_DECIDED}, updated AS (
    UPDATE ${records} AS r SET
      parts = next_parts, fingerprint = next_fingerprint, state = 'pending', token = next_token, spent = false,
      fence = next_fence, number = next_number, hold = next_hold, took_over = next_took_over,
      claimed_at = next_claimed_at, lease = next_lease, lease_ends_at = now + next_lease,
      retention = next_retention, kept_until = now + next_lease + next_retention, purge_at = next_purge_at,
      completed_at = NULL, outcome = NULL
    FROM decided AS d WHERE r.id = d.id AND d.verdict IN ${CLAIM_WRITES}
    RETURNING d.position, d.verdict, next_fence, next_number, next_took_over, next_lease
  )
  ${CLAIM_ANSWER}`;
}

interface Settling {
  readonly asked: Asked;
  /** What a record must be like to be written, whatever the time: no other is locked. */
  readonly writable: string;
  /** `write`, or without writing `yes` or `no`. */
  readonly verdict: string;
  /** What is written: its columns, each by what it was, by what is asked, and by `now`. */
  readonly next: Readonly<Record<string, string>>;
}

const COMPLETE: Settling = {
  asked: { id: "text", asked_token: "text", asked_outcome: "text", asked_retention: "bigint" },
  writable: "state = 'pending'",
  verdict: `CASE
      WHEN NOT ${IS_OWNED} OR state = 'released' THEN 'no'
      WHEN state = 'completed' THEN 'yes'
      ELSE 'write'
    END`,
  next: {
    state: "'completed'::text",
    completed_at: "now",
    outcome: "asked_outcome",
    retention: "asked_retention",
    kept_until: "now + asked_retention",
    purge_at: purgeAt({
      waits: "false",
      keptUntil: "now + asked_retention",
      retention: "asked_retention",
      lease: "lease",
    }),
  },
};

const IS_RELEASED = "(asked_as = 'released' OR (asked_as = 'unrun' AND NOT took_over))";

const ABANDON: Settling = {
  asked: { id: "text", asked_token: "text", asked_as: "text" },
  writable: "state = 'pending' AND NOT spent",
  verdict: `CASE
      WHEN NOT ${IS_OWNED} OR state = 'completed' THEN 'no'
      WHEN spent THEN 'yes'
      ELSE 'write'
    END`,
  next: {
    state: `CASE WHEN ${IS_RELEASED} THEN 'released' ELSE 'pending' END`,
    spent: "true",
    purge_at: purgeAt({
      waits: `hold AND NOT ${IS_RELEASED}`,
      keptUntil: "kept_until",
      retention: "retention",
      lease: "lease",
    }),
  },
};

const RENEW: Settling = {
  asked: { id: "text", asked_token: "text", asked_lease: "bigint" },
  writable: "state = 'pending' AND NOT spent",
  verdict: `CASE WHEN ${IS_OWNED} AND state = 'pending' AND NOT spent THEN 'write' ELSE 'no' END`,
  next: {
    lease: "asked_lease",
    lease_ends_at: "now + asked_lease",
    kept_until: "now + asked_lease + retention",
    purge_at: purgeAt({
      waits: "hold",
      keptUntil: "now + asked_lease + retention",
      retention: "retention",
      lease: "asked_lease",
    }),
  },
};

/**
 * Completes, abandons or renews: no two calls of one id. Answers rows of (position, `yes` or `no`). What the calls'
 * tokens hold is locked at once; only for the others is there a look at why not.
 */
function settle(records: string, lock: string, { asked, writable, verdict, next }: Settling): string {
  const columns = Object.entries(next);
  return `WITH ${input(asked)}, locked AS MATERIALIZED (
    SELECT calls.*, r.*, ${CLOCK} AS now
    FROM (SELECT * FROM input ORDER BY id OFFSET 0) AS calls
    CROSS JOIN LATERAL (
      SELECT ${RECORD}, ctid AS place FROM ${records}
      WHERE id = calls.id AND token = calls.asked_token AND ${writable} ${lock}
    ) AS r
  ), decided AS MATERIALIZED (
    SELECT id, place, position, ${verdict} AS verdict,
      ${columns.map(([name, value]) => `${value} AS next_${name}`).join(", ")}
    FROM locked
  ), updated AS (
    UPDATE ${records} AS r SET ${columns.map(([name]) => `${name} = next_${name}`).join(", ")}
    FROM decided AS d WHERE r.ctid = d.place AND r.id = d.id AND d.verdict = 'write'
    RETURNING d.position
  ), judged AS (
    SELECT position, ${verdict} AS verdict
    FROM (
      SELECT input.*, r.*, started AS now FROM input
      LEFT JOIN LATERAL (SELECT ${RECORD} FROM ${records} WHERE id = input.id LIMIT 1) AS r ON true
      WHERE position NOT IN (SELECT position FROM locked)
    ) AS look
  )
  SELECT position::text, verdict FROM judged WHERE verdict <> 'write'
  UNION ALL
  SELECT position::text, verdict FROM decided WHERE verdict <> 'write'
  UNION ALL
  SELECT position::text, 'yes' FROM updated`;
}

/** The record as `read` and `list` show it; the times are microseconds. */
const VIEW = `id, parts, fingerprint, ${STATE_SEEN}, token, fence::text, number::text, hold::text, claimed_at::text,
    CASE WHEN state = 'pending' AND NOT ${IS_LAPSED} THEN lease_ends_at - now ELSE 0 END::text,
    completed_at::text, kept_until::text, outcome`;

/** Answers rows of (is a replica, then a record): at least one row, with nulls where there is no record. */
function view(records: string, where: string): string {
  return `SELECT pg_is_in_recovery()::text, view.* FROM (SELECT 1) AS once LEFT JOIN LATERAL (
    SELECT ${VIEW} FROM (SELECT *, ${STARTED} AS now FROM ${records}) AS look WHERE NOT ${IS_EXPIRED} AND ${where}
  ) AS view ON true`;
}

/** The record with the one id of the array `$1`. */
const READ = "id = (($1::text)::text[])[1]";

/** The same for all ids of the array `$1`: a row for each, as `view` has it, in any order. */
function readTogether(records: string): string {
  return `WITH ${input({ id: "text" })}
  SELECT pg_is_in_recovery()::text, view.* FROM input LEFT JOIN LATERAL (
    SELECT ${VIEW} FROM (SELECT *, input.started AS now FROM ${records}) AS look
    WHERE NOT ${IS_EXPIRED} AND id = input.id LIMIT 1
  ) AS view ON true`;
}

/**
 * At most `$4` records whose parts begin with `$1`, in the order of their ids, after the id `$2`, in the state `$3` if
 * it is not empty. Parts are a JSON array of namespace, scope, operation and key: the text up to a comma says exactly
 * which namespace, or which namespace and scope.
 */
const LIST = `starts_with(parts, ($1::text)) AND id > ($2::text) AND (($3::text) = '' OR ${STATE_SEEN} = ($3::text))
    ORDER BY id LIMIT ($4::text)::bigint`;

/**
 * Removes the record that has the id `$1` and the fence `$2`. If it is completed, blanks it, with `$3` for its outcome;
 * or, where `$4` is true, releases it. A row if it did.
 */
function forget(records: string): string {
  return `WITH locked AS MATERIALIZED (
    SELECT *, ${CLOCK} AS now FROM (
      SELECT * FROM ${records}
      WHERE id = ($1::text) AND (SELECT set_config('lock_timeout', '${LOCK_TIMEOUT_MS}', true)) IS NOT NULL
      FOR UPDATE
    ) AS r
  ), decided AS MATERIALIZED (
    SELECT id, ${STATE_SEEN} AS state_seen, ($4::text)::boolean AS reopen FROM locked
    WHERE fence = ($2::text)::bigint AND NOT ${IS_EXPIRED}
  ), removed AS (
    DELETE FROM ${records} AS r USING decided AS d
    WHERE r.id = d.id AND d.state_seen IN ('lapsed', 'released') RETURNING r.id
  ), blanked AS (
    UPDATE ${records} AS r SET parts = NULL, fingerprint = NULL, outcome = ($3::text) FROM decided AS d
    WHERE r.id = d.id AND d.state_seen = 'completed' AND NOT d.reopen RETURNING r.id
  ), reopened AS (
    UPDATE ${records} AS r SET state = 'released', spent = true, completed_at = NULL, outcome = NULL FROM decided AS d
    WHERE r.id = d.id AND d.state_seen = 'completed' AND d.reopen RETURNING r.id
  )
  SELECT id FROM removed UNION ALL SELECT id FROM blanked UNION ALL SELECT id FROM reopened`;
}

/**
 * Removes at most `$1` records past their time; those that somebody has locked are left. Answers (looked at, removed).
 * What is removed is found by a verdict, of which the planner expects few, so that it looks them up one by one.
 */
function purge(records: string): string {
  return `WITH old AS MATERIALIZED (
    SELECT *, ${CLOCK} AS now FROM (
      SELECT id, state, hold, kept_until FROM ${records} WHERE purge_at <= ${STARTED}
      ORDER BY purge_at LIMIT ($1::text)::bigint FOR UPDATE SKIP LOCKED
    ) AS locked
  ), decided AS MATERIALIZED (
    SELECT id, CASE WHEN ${IS_EXPIRED} THEN 'remove' ELSE 'keep' END AS verdict FROM old
  ), removed AS (
    DELETE FROM ${records} AS r USING decided AS d WHERE r.id = d.id AND d.verdict = 'remove' RETURNING r.id
  )
  SELECT (SELECT count(*) FROM old)::text, (SELECT count(*) FROM removed)::text`;
}

/** Answers (version, schema, default isolation, is a replica, is read-only, encoding). */
function check(records: string, migrations: string): string {
  return `SELECT (SELECT max(version) FROM ${migrations})::text,
    (SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = '${records.replaceAll("'", "''")}'::regclass),
    current_setting('default_transaction_isolation'), pg_is_in_recovery()::text,
    current_setting('transaction_read_only'), current_setting('server_encoding')`;
}

/**
 * Answers rows of (name, value): what decides which faults a commit survives. `standbys` are those that take part in a
 * synchronous commit, and null for a role that may not see what they do.
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

export interface Statement {
  readonly name: string;
  readonly text: string;
}

/** `together` is for a batch and skips a row that is locked; `alone` waits for it. */
export interface Step {
  readonly together: Statement;
  readonly alone: Statement;
}

/** `nameOf` names a statement by what it does and its text: one connection may serve tables of several schemas. */
export function statementsOf(
  tables: { readonly records: string; readonly migrations: string },
  nameOf: (what: string, text: string) => string,
) {
  const { records, migrations } = tables;
  const statement = (what: string, text: string): Statement => ({ name: nameOf(what, text), text });
  const step = (what: string, textOf: (lock: string) => string): Step => ({
    together: statement(what, textOf("FOR UPDATE SKIP LOCKED")),
    alone: statement(`${what}_alone`, textOf("FOR UPDATE")),
  });
  return {
    claim: step("claim", (lock) => claim(records, lock)),
    complete: step("complete", (lock) => settle(records, lock, COMPLETE)),
    abandon: step("abandon", (lock) => settle(records, lock, ABANDON)),
    renew: step("renew", (lock) => settle(records, lock, RENEW)),
    read: {
      together: statement("read", readTogether(records)),
      alone: statement("read_alone", view(records, READ)),
    },
    list: statement("list", view(records, LIST)),
    forget: statement("forget", forget(records)),
    purge: statement("purge", purge(records)),
    notify: statement("notify", NOTIFY),
    check: statement("check", check(records, migrations)),
    settings: statement("settings", settings(records)),
  };
}
