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
 * scan it.
 */

import { LAST_MICROSECOND } from "../core/checked-record.ts";
import { CLOCK_BACK_MARGIN_MS } from "../core/record.ts";
import type { Statement } from "./postgres/client.ts";
import { WAITS_FOR_STANDBYS } from "./postgres/durability.ts";
import { STEPS_COLUMN } from "./postgres/schema.ts";
import * as sound from "./sound-sql.ts";

const isTime = (column: string) => sound.isTime(column, LAST_MICROSECOND);

/** Each column with the condition that it must meet. No statement decides by a row that the store did not write. */
const SOUND: readonly (readonly [column: string, condition: string])[] = [
  ["state", sound.IS_STATE],
  ["token", sound.IS_TOKEN],
  ["fence", sound.isCount("fence")],
  ["number", sound.isCount("number")],
  ["claimed_at", isTime("claimed_at")],
  ["lease", isTime("lease")],
  ["lease_ends_at", isTime("lease_ends_at")],
  ["retention", isTime("retention")],
  ["kept_until", isTime("kept_until")],
  ["completed_at", sound.isCompletionTime("completed_at", LAST_MICROSECOND)],
  ["outcome", sound.isOfCompletion("outcome")],
  ["kept_until", sound.IS_KEPT_LONG_ENOUGH],
  ["parts", sound.ARE_PARTS],
];

/** The first damaged column, or null. */
const DAMAGE = `CASE
      ${SOUND.map(([column, condition]) => `WHEN (${condition}) IS NOT TRUE THEN '${column}'`).join("\n      ")}
    END`;

/**
 * Whether no column is damaged. Written so that the planner expects it to be true for nearly every row: for a condition that
 * it considers rare, it would scan the table.
 */
const IS_SOUND = `((CASE WHEN ${SOUND.map(([, condition]) => condition).join(" AND ")} THEN true END) IS NOT NULL)`;

/** Microseconds since the epoch, at the time of evaluation. */
export const CLOCK = "(date_part('epoch', clock_timestamp()) * 1000000)::bigint";
/** Microseconds since the epoch when the statement arrived. For a statement that writes, this is before its snapshot. */
const STARTED = "(date_part('epoch', statement_timestamp()) * 1000000)::bigint";
/**
 * The same for a statement that only reads. Its snapshot is taken when its parameters arrive, but `statement_timestamp` is
 * when it begins to run, which may be much later: a record that was renewed in between would look lapsed.
 */
const BEGUN = "(date_part('epoch', transaction_timestamp()) * 1000000)::bigint";
/** In microseconds. */
const CLOCK_BACK_MARGIN = CLOCK_BACK_MARGIN_MS * 1_000;
/** How long a statement waits for a lock: another open transaction must not use up the store's connections. */
const LOCK_TIMEOUT_MS = 1_000;

const LOCK_LIMIT = `set_config('lock_timeout', '${LOCK_TIMEOUT_MS}', true)`;

/** The answer does not wait until the commit is on disk. A later commit that does wait is flushed together with it. */
const UNFLUSHED = "set_config('synchronous_commit', 'off', true)";

/**
 * The advisory lock of a record, by its id. Every claim that begins an attempt takes it until its transaction ends, and
 * never waits for it: a claim that finds it taken answers `pending`. So no claim waits for a transaction of the application
 * that has claimed the same id and not committed yet, and neither do the other claims of its batch.
 */
export const claimLock = (id: string) => `hashtextextended(${id}, 0)`;
/** How long to wait before another claim of a record whose advisory lock is taken, in microseconds. */
const TAKEN_US = 1_000_000;

/** The columns that every decision needs. */
const RECORD = `state, token, spent, fence, number, hold, took_over, claimed_at, lease, lease_ends_at, retention,
      kept_until, purge_at, fingerprint, parts`;

const IS_EXPIRED = "((state <> 'pending' OR NOT hold) AND now >= kept_until)";
const IS_LAPSED = "(spent OR now >= lease_ends_at)";
const IS_OWNED = `(token IS NOT NULL AND token = asked_token AND NOT ${IS_EXPIRED})`;
const STATE_SEEN = `CASE WHEN state = 'pending' AND ${IS_LAPSED} THEN 'lapsed' ELSE state END`;

const digestVersion = (digest: string) => `left(${digest}, greatest(strpos(${digest}, ':') - 1, 0))`;
/** Null, which counts as false, if either fingerprint is missing. */
const DIFFERS = `(fingerprint <> asked_fingerprint
        AND ${digestVersion("fingerprint")} = ${digestVersion("asked_fingerprint")})`;

/** The verdicts that begin an attempt, for which a claim takes the record's advisory lock. */
const CLAIM_BEGINS = "('begin', 'next')";
/** The verdicts that write: an absent record, the next attempt, a repeat of the owner's claim, and a corrected deadline. */
const CLAIM_WRITES = "('begin', 'next', 'again', 'shorten')";

/** The verdict about a record that may be damaged. A damaged one is never evaluated. */
const judge = (verdict: string) =>
  `CASE WHEN damage IS NOT NULL THEN 'damaged' ELSE ${verdict} END AS verdict`;

/**
 * Whether the record has finished steps (core/kept-steps.ts). The column `steps` is added without a new version of the tables,
 * so that a release that does not know it can use them at the same time. Each statement that names it has a second form for
 * tables that were not migrated yet: the one of that release.
 */
const HAS_STEPS = "(steps IS NOT NULL AND starts_with(steps, token || E'\\n'))";

/** Whether the record has a step whose line begins with `start`. */
export const hasStep = (start: string) => `(${HAS_STEPS} AND strpos(steps, E'\\n' || ${start}) > 0)`;

/** The steps of the record with one more line, which has the time in microseconds `now` between its two parts. */
export const addedStep = (start: string, now: string, end: string) =>
  `CASE WHEN ${HAS_STEPS} THEN steps ELSE token || E'\\n' END || ${start} || (${now} / 1000)::text || ${end}`;

const claimVerdict = (isMigrated: boolean) => `CASE
      WHEN fence IS NULL OR ${IS_EXPIRED} THEN CASE WHEN takeover IS NULL THEN 'begin' ELSE 'nothing' END
      WHEN ${isMigrated ? `(state <> 'released' OR ${HAS_STEPS})` : "state <> 'released'"} AND ${DIFFERS} THEN 'conflict'
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
 * When purge looks at a record: some time after it expires, so that a renewal or a completion can leave the index entry
 * unchanged (a heap-only update). Never for a held record that waits for a decision.
 */
function purgeAt(given: { waits: string; keptUntil: string; retention: string; lease: string }): string {
  const { waits, keptUntil, retention, lease } = given;
  return `CASE
      WHEN ${waits} THEN NULL
      WHEN purge_at BETWEEN ${keptUntil} AND ${keptUntil} + ${retention} / 16 + ${lease} THEN purge_at
      ELSE ${keptUntil} + ${retention} / 16
    END`;
}

/** The parameters of a call: their names with their types, in order. */
type CallColumns = Readonly<Record<string, string>>;

/**
 * The calls, one row each. The subquery hides the length of the arrays from the planner: for a short array it would make a
 * new plan each time, and planning takes longer than the step.
 */
function input(columns: CallColumns, limits: readonly string[] = [LOCK_LIMIT]): string {
  const names = Object.keys(columns);
  const arrays = Object.entries(columns).map(
    ([name, type], index) => `($${index + 1}::text)::${type}[] AS all_${name}`,
  );
  // Rows are locked in the order of their ids; this collation orders them the same way in every database.
  return `input AS MATERIALIZED (
    SELECT ${names.map((name) => (name === "id" ? 'calls.id COLLATE "C" AS id' : name)).join(", ")}, position, started
    FROM (
      SELECT ${arrays.join(", ")}, ${[`${STARTED} AS started`, ...limits].join(", ")} OFFSET 0
    ) AS given, unnest(${names.map((name) => `all_${name}`).join(", ")})
      WITH ORDINALITY AS calls (${names.join(", ")}, position)
  )`;
}

const CLAIM_COLUMNS: CallColumns = {
  id: "text",
  asked_parts: "text",
  asked_fingerprint: "text",
  asked_token: "text",
  asked_lease: "bigint",
  asked_retention: "bigint",
  asked_hold: "boolean",
  takeover: "bigint",
};

const IS_FRESH = `verdict IN ${CLAIM_BEGINS}`;
const IS_AFTER_LAPSED = "verdict = 'next' AND state = 'pending'";

/** An attempt that goes on with the work of an earlier one keeps its fingerprint. */
const isContinued = (isMigrated: boolean) =>
  isMigrated ? `(${IS_AFTER_LAPSED}) OR (verdict = 'next' AND ${HAS_STEPS})` : IS_AFTER_LAPSED;

/** The steps go on under the token of the claim that continues them. */
const NEXT_STEPS = `,
      CASE WHEN NOT ${HAS_STEPS} OR verdict = 'begin' THEN NULL
        WHEN verdict = 'next' THEN asked_token || substr(steps, length(token) + 1)
        ELSE steps
      END AS next_steps`;

/** Judges the locked records again, and computes their new content. */
const claimDecided = (isMigrated: boolean) => `verdicts AS MATERIALIZED (
    SELECT *, ${claimVerdict(isMigrated)} AS verdict FROM locked
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
        WHEN ${IS_FRESH} AND NOT (${isContinued(isMigrated)}) THEN asked_fingerprint
        WHEN ${IS_FRESH} THEN coalesce(asked_fingerprint, fingerprint)
        ELSE fingerprint
      END AS next_fingerprint,
      CASE WHEN ${IS_FRESH} THEN asked_token ELSE token END AS next_token,
      CASE WHEN ${IS_FRESH} THEN greatest(fence + 1, now) ELSE fence END AS next_fence,
      CASE verdict WHEN 'begin' THEN 1 WHEN 'next' THEN number + 1 ELSE number END AS next_number,
      CASE WHEN ${IS_FRESH} THEN ${IS_AFTER_LAPSED} ELSE took_over END AS next_took_over,
      CASE WHEN ${IS_FRESH} THEN now ELSE claimed_at END AS next_claimed_at,
      ${purgeAt({ waits: "next_hold", keptUntil: "now + next_lease + next_retention", retention: "next_retention", lease: "next_lease" })} AS next_purge_at${isMigrated ? NEXT_STEPS : ""}
    FROM attempts
  )`;

/**
 * Rows of (position, status, detail, number, took over, id or steps). The detail of `new` is its fence (an inserted record has an id
 * instead of a position); of `pending` the microseconds left; of `conflict` the state; of `unknown` the fence; of `damaged`
 * the column. `completed` has no detail: an extra row `outcome` has it once for each id. A record that was not inserted may
 * have steps.
 */
const claimAnswer = (
  isMigrated: boolean,
) => `SELECT position::text, CASE verdict WHEN 'nothing' THEN 'pending' ELSE verdict END,
    CASE verdict
      WHEN 'nothing' THEN '0'
      WHEN 'pending' THEN (lease_ends_at - now)::text
      WHEN 'conflict' THEN state_seen
      WHEN 'unknown' THEN fence::text
      WHEN 'damaged' THEN damage
    END, NULL, NULL, NULL
  FROM judged WHERE verdict NOT IN ${CLAIM_WRITES}
  UNION ALL
  SELECT position::text, 'pending', '${TAKEN_US}', NULL, NULL, NULL
  FROM judged WHERE ${IS_FRESH} AND id = ANY (ARRAY(SELECT id FROM free WHERE NOT is_free))
  UNION ALL
  SELECT NULL, 'outcome', outcome, NULL, NULL, id
  FROM (SELECT DISTINCT ON (id) id, outcome FROM judged WHERE verdict = 'completed' ORDER BY id) AS completed
  UNION ALL
  SELECT NULL, 'new', fence::text, '1', 'false', id FROM inserted
  UNION ALL
  SELECT position::text, CASE verdict WHEN 'shorten' THEN 'pending' ELSE 'new' END,
    CASE verdict WHEN 'shorten' THEN next_lease ELSE next_fence END::text, next_number::text, next_took_over::text, ${isMigrated ? "next_steps" : "NULL"}
  FROM updated`;

/**
 * Claims. Writes what `claimRecord` grants or corrects. Of several calls with one id, the first that would write does so,
 * and the others get no row. A new id is inserted; a call that loses the race for it writes nothing.
 */
function claim(
  records: string,
  lock: string,
  isMigrated: boolean,
  limits: readonly string[] = [LOCK_LIMIT],
  answer = claimAnswer(isMigrated),
): string {
  const record = isMigrated ? `${RECORD}, steps` : RECORD;
  const columns = Object.keys(CLAIM_COLUMNS).join(", ");
  return `WITH ${input(CLAIM_COLUMNS, limits)}, judged AS MATERIALIZED (
    SELECT ${columns}, position, fence, outcome, lease_ends_at, now, damage, ${STATE_SEEN} AS state_seen,
      ${judge(claimVerdict(isMigrated))}
    FROM (
      SELECT input.*, r.*, started AS now FROM input
      LEFT JOIN LATERAL (
        SELECT ${record}, outcome, ${DAMAGE} AS damage FROM ${records} WHERE id = input.id LIMIT 1
      ) AS r ON true
    ) AS look
  ), wanted AS MATERIALIZED (
    SELECT DISTINCT ON (id) ${columns}, position, verdict, fence IS NOT NULL AS is_found
    FROM judged WHERE verdict IN ${CLAIM_WRITES} ORDER BY id, position
  ), free AS MATERIALIZED (
    SELECT *, CASE WHEN ${IS_FRESH} THEN pg_try_advisory_xact_lock(${claimLock("id")}) ELSE true END AS is_free
    FROM wanted
  ), inserted AS (
    INSERT INTO ${records} (${INSERTED})
    SELECT ${FIRST_CLAIM}
    FROM (SELECT *, ${CLOCK} AS now FROM free WHERE NOT is_found AND is_free ORDER BY id OFFSET 0) AS absent
    ON CONFLICT (id) DO NOTHING
    RETURNING id, fence
  ), locked AS MATERIALIZED (
    SELECT found.*, r.*, ${CLOCK} AS now
    FROM (SELECT ${columns}, position FROM free WHERE is_found AND is_free ORDER BY id OFFSET 0) AS found
    CROSS JOIN LATERAL (SELECT ${record} FROM ${records} WHERE id = found.id AND ${IS_SOUND} ${lock}) AS r
  ), ${claimDecided(isMigrated)}, updated AS (
    UPDATE ${records} AS r SET
      parts = next_parts, fingerprint = next_fingerprint, state = 'pending', token = next_token, spent = false,
      fence = next_fence, number = next_number, hold = next_hold, took_over = next_took_over,
      claimed_at = next_claimed_at, lease = next_lease, lease_ends_at = now + next_lease,
      retention = next_retention, kept_until = now + next_lease + next_retention, purge_at = next_purge_at,
      completed_at = NULL, outcome = NULL${isMigrated ? ", steps = next_steps" : ""}
    FROM decided AS d WHERE r.id = d.id AND d.verdict IN ${CLAIM_WRITES}
    RETURNING d.position, d.verdict, next_fence, next_number, next_took_over, next_lease${isMigrated ? ", next_steps" : ""}
  )
  ${answer}`;
}

/** The columns of a record that a first claim inserts. */
const INSERTED = `id, parts, fingerprint, state, token, spent, fence, number, hold, took_over, claimed_at,
      lease, lease_ends_at, retention, kept_until, purge_at`;

/** Their values, from the call and `now`. */
const FIRST_CLAIM = `id, asked_parts, asked_fingerprint, 'pending', asked_token, false, now, 1, asked_hold, false, now,
      asked_lease, now + asked_lease, asked_retention, now + asked_lease + asked_retention,
      CASE WHEN NOT asked_hold THEN now + asked_lease + asked_retention + asked_retention / 16 END`;

/** About a record that was found. `other` is left to the full statement. */
const QUICK_VERDICT = `CASE
          WHEN ${DIFFERS} OR NOT ${IS_SOUND} THEN 'other'
          WHEN state = 'completed' AND started < kept_until THEN 'completed'
          WHEN state = 'pending' AND NOT spent AND token <> asked_token
            AND lease_ends_at - started BETWEEN 1 AND lease + ${CLOCK_BACK_MARGIN} THEN 'pending'
          ELSE 'other'
        END`;

/**
 * The common claims: a new id is inserted, and a completed record, or one that another token is working on, is answered. Every
 * other call gets no row, and is judged by the full statement. Rows have the form of `claimAnswer`. It takes two thirds of the
 * time of the full statement: the server sets up every part of a statement each time that it runs, used or not.
 */
function quickClaim(records: string, limits: readonly string[]): string {
  return `WITH ${input(CLAIM_COLUMNS, limits)}, look AS MATERIALIZED (
    SELECT input.*, r.* FROM input LEFT JOIN LATERAL (
      SELECT outcome, lease_ends_at, ${QUICK_VERDICT} AS verdict
      FROM ${records} WHERE id = input.id LIMIT 1
    ) AS r ON true
  ), inserted AS (
    INSERT INTO ${records} (${INSERTED})
    SELECT ${FIRST_CLAIM}
    FROM (
      SELECT *, ${CLOCK} AS now FROM look
      WHERE verdict IS NULL AND takeover IS NULL AND pg_try_advisory_xact_lock(${claimLock("id")})
      ORDER BY id, position OFFSET 0
    ) AS absent
    ON CONFLICT (id) DO NOTHING
    RETURNING id, fence
  )
  SELECT NULL, 'new', fence::text, '1', 'false', id FROM inserted
  UNION ALL
  SELECT position::text, verdict, CASE verdict WHEN 'pending' THEN (lease_ends_at - started)::text END, NULL, NULL, NULL
  FROM look WHERE verdict IN ('completed', 'pending')
  UNION ALL
  SELECT NULL, 'outcome', outcome, NULL, NULL, id
  FROM (SELECT DISTINCT ON (id) id, outcome FROM look WHERE verdict = 'completed' ORDER BY id) AS completed`;
}

/**
 * The same for one call. Its parameters are texts, and an empty text stands for a missing fingerprint or takeover. Without
 * arrays it takes less of the server's time. A row of `completed` has the outcome as its detail.
 */
function quickClaimOfOne(records: string, limits: readonly string[]): string {
  const asked = Object.entries(CLAIM_COLUMNS).map(([name, type], index) => {
    const text = `($${index + 1}::text)`;
    const isOptional = name === "asked_fingerprint" || name === "takeover";
    return `${isOptional ? `nullif(${text}, '')` : text}::${type} AS ${name}`;
  });
  return `WITH look AS MATERIALIZED (
    SELECT outcome, lease_ends_at, started, ${QUICK_VERDICT} AS verdict
    FROM (SELECT ${asked.map((column) => column.replace(/ AS id$/, " AS asked_id")).join(", ")}, ${STARTED} AS started) AS call, ${records}
    WHERE id = asked_id
  ), inserted AS (
    INSERT INTO ${records} (${INSERTED})
    SELECT ${FIRST_CLAIM}
    FROM (SELECT ${[...asked, `${CLOCK} AS now`, ...limits].join(", ")} OFFSET 0) AS absent
    WHERE CASE WHEN takeover IS NOT NULL OR EXISTS (SELECT FROM look) THEN false
      ELSE pg_try_advisory_xact_lock(${claimLock("id")}) END
    ON CONFLICT (id) DO NOTHING
    RETURNING fence
  )
  SELECT '1', 'new', fence::text, '1', 'false', NULL FROM inserted
  UNION ALL
  SELECT '1', verdict, CASE verdict WHEN 'pending' THEN (lease_ends_at - started)::text ELSE outcome END, NULL, NULL, NULL
  FROM look WHERE verdict IN ('completed', 'pending')`;
}

/**
 * The claim of one call in a transaction of the application. It leaves the settings of the transaction unchanged and waits
 * for no lock. Returns the rows of the answer as one JSON text.
 */
export function claimInside(records: string, isMigrated: boolean): string {
  const rows = `SELECT json_agg(json_build_array(a, b, c, d, e, f))::text FROM (${claimAnswer(isMigrated)}) AS rows (a, b, c, d, e, f)`;
  return claim(records, "FOR UPDATE SKIP LOCKED", isMigrated, [], rows);
}

interface OwnerStep {
  readonly columns: CallColumns;
  /** What the step reads of a record besides the columns that every decision needs. */
  readonly reads?: string;
  /** The condition for a record to be written at any time. No other record is locked. */
  readonly writable: string;
  /** `write`; or `yes` or `no`, which write nothing. */
  readonly verdict: string;
  /** The new value of each column that changes, as an expression of the record, the call and `now`. */
  readonly next: Readonly<Record<string, string>>;
}

const COMPLETE: OwnerStep = {
  columns: { id: "text", asked_token: "text", asked_outcome: "text", asked_retention: "bigint" },
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

/** Steps have no meaning once the record has an outcome. */
export const completeStep = (isMigrated: boolean): OwnerStep =>
  isMigrated ? { ...COMPLETE, next: { ...COMPLETE.next, steps: "NULL::text" } } : COMPLETE;

/** `asked_start` and `asked_end` are the line of the step, without the time in the middle. */
const KEEP_STEP: OwnerStep = {
  columns: { id: "text", asked_token: "text", asked_start: "text", asked_end: "text" },
  reads: ", steps",
  writable: "state = 'pending' AND NOT spent",
  verdict: `CASE
      WHEN NOT ${IS_OWNED} OR state <> 'pending' OR spent THEN 'no'
      WHEN ${hasStep("asked_start")} THEN 'yes'
      ELSE 'write'
    END`,
  next: { steps: addedStep("asked_start", "now", "asked_end") },
};

const IS_RELEASED = "(asked_as = 'released' OR (asked_as = 'unrun' AND NOT took_over))";

const ABANDON: OwnerStep = {
  columns: { id: "text", asked_token: "text", asked_as: "text" },
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

const RENEW: OwnerStep = {
  columns: { id: "text", asked_token: "text", asked_lease: "bigint" },
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
 * Completes, abandons or renews; no two calls have the same id. Answers rows of (position; `yes`, `no` or `damaged`; the
 * damaged column). The records that the calls' tokens own are locked immediately; only for the others does the statement
 * read why it refuses them.
 */
function settle(records: string, lock: string, step: OwnerStep): string {
  const { columns, reads = "", writable, verdict, next } = step;
  const changes = Object.entries(next);
  return `WITH ${input(columns)}, locked AS MATERIALIZED (
    SELECT calls.*, r.*, ${CLOCK} AS now
    FROM (SELECT * FROM input ORDER BY id OFFSET 0) AS calls
    CROSS JOIN LATERAL (
      SELECT ${RECORD}${reads}, ctid AS place FROM ${records}
      WHERE id = calls.id AND token = calls.asked_token AND ${writable} AND ${IS_SOUND} ${lock}
    ) AS r
  ), decided AS MATERIALIZED (
    SELECT id, place, position, ${verdict} AS verdict,
      ${changes.map(([name, value]) => `${value} AS next_${name}`).join(", ")}
    FROM locked
  ), updated AS (
    UPDATE ${records} AS r SET ${changes.map(([name]) => `${name} = next_${name}`).join(", ")}
    FROM decided AS d WHERE r.ctid = d.place AND r.id = d.id AND d.verdict = 'write'
    RETURNING d.position
  ), judged AS (
    SELECT position, damage, ${judge(verdict)}
    FROM (
      SELECT input.*, r.*, started AS now FROM input
      LEFT JOIN LATERAL (
        SELECT ${RECORD}${reads}, ${DAMAGE} AS damage FROM ${records} WHERE id = input.id LIMIT 1
      ) AS r ON true
      WHERE position NOT IN (SELECT position FROM locked)
    ) AS look
  )
  SELECT position::text, verdict, damage FROM judged WHERE verdict <> 'write'
  UNION ALL
  SELECT position::text, verdict, NULL FROM decided WHERE verdict <> 'write'
  UNION ALL
  SELECT position::text, 'yes', NULL FROM updated`;
}

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
    complete: stepInTwoForms("complete", (lock, isMigrated) =>
      settle(records, lock, completeStep(isMigrated)),
    ),
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
