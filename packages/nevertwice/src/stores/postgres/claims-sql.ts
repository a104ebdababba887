/** The full claim of the Postgres store, which can judge every record. */
import { lacksHeldIndex } from "./held-sql.ts";
import { toHex } from "./ids.ts";
import {
  type CallColumns,
  CLOCK,
  CLOCK_BACK_MARGIN,
  claimLock,
  DAMAGE,
  HAS_STEPS,
  IS_EXPIRED,
  IS_LAPSED,
  IS_SOUND,
  input,
  judge,
  LOCK_LIMIT,
  nextHistory,
  purgeAt,
  RECORD,
  STATE_SEEN,
} from "./record-sql.ts";

/** How long to wait before another claim of a record whose advisory lock is taken, in microseconds. */
const TAKEN_US = 1_000_000;

const digestVersion = (digest: string) => `left(${digest}, greatest(strpos(${digest}, ':') - 1, 0))`;
/** Null, which counts as false, if either fingerprint is missing. */
export const DIFFERS = `(fingerprint <> asked_fingerprint
        AND ${digestVersion("fingerprint")} = ${digestVersion("asked_fingerprint")})`;

/** The detail of `pending`: the microseconds left of the lease, and those since the attempt began. */
export const pendingDetail = (left: string, now: string, claimedAt = "claimed_at") =>
  `concat(${left}, ' ', ${now} - ${claimedAt})`;

/** The verdicts that begin an attempt, for which a claim takes the record's advisory lock. */
const CLAIM_BEGINS = "('begin', 'next')";
/** The verdicts that write: an absent record, the next attempt, a repeat of the owner's claim, and a corrected deadline. */
const CLAIM_WRITES = "('begin', 'next', 'again', 'shorten')";

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

/** The attempt that the claim replaces goes into the history. Past retention nothing is remembered. */
const NEXT_HISTORY = `,
      CASE verdict WHEN 'begin' THEN NULL WHEN 'next' THEN ${nextHistory("asked_token")} ELSE history END AS next_history`;

/**
 * Whether the record stays out of purges until it is decided: an attempt that goes on after it was found to have lapsed, or
 * that is held from now on, which is not looked for among the records of its time any more.
 */
const waits = (records: string) => `next_hold AND CASE
        WHEN ${IS_FRESH} THEN ${lacksHeldIndex(records)}
        ELSE purge_at IS NULL OR NOT hold
      END`;

/** Judges the locked records again, and computes their new content. */
const claimDecided = (records: string, isMigrated: boolean) => `verdicts AS MATERIALIZED (
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
      ${purgeAt({ waits: waits(records), keptUntil: "now + next_lease + next_retention", retention: "next_retention", lease: "next_lease" })} AS next_purge_at${isMigrated ? NEXT_STEPS + NEXT_HISTORY : ""}
    FROM attempts
  )`;

/**
 * Rows of (position, status, detail, number, took over, id or steps). The detail of `new` is its fence (an inserted record has an id
 * instead of a position); of `pending` see `pendingDetail`; of `conflict` the state; of `unknown` the fence; of `damaged`
 * the column. `completed` has no detail: an extra row `outcome` has it once for each id. A record that was not inserted may
 * have steps.
 */
const claimAnswer = (
  isMigrated: boolean,
) => `SELECT position::text, CASE verdict WHEN 'nothing' THEN 'pending' ELSE verdict END,
    CASE verdict
      WHEN 'nothing' THEN '0'
      WHEN 'pending' THEN ${pendingDetail("lease_ends_at - now", "now")}
      WHEN 'conflict' THEN state_seen
      WHEN 'unknown' THEN fence::text
      WHEN 'damaged' THEN damage
    END, NULL, NULL, NULL
  FROM judged WHERE verdict NOT IN ${CLAIM_WRITES}
  UNION ALL
  SELECT position::text, 'pending', '${TAKEN_US}', NULL, NULL, NULL
  FROM judged WHERE ${IS_FRESH} AND id = ANY (ARRAY(SELECT id FROM free WHERE NOT is_free))
  UNION ALL
  SELECT NULL, 'outcome', outcome, NULL, NULL, ${toHex("id")}
  FROM (SELECT DISTINCT ON (id) id, outcome FROM judged WHERE verdict = 'completed' ORDER BY id) AS completed
  UNION ALL
  SELECT NULL, 'new', fence::text, '1', 'false', ${toHex("id")} FROM inserted
  UNION ALL
  SELECT position::text, CASE verdict WHEN 'shorten' THEN 'pending' ELSE 'new' END,
    CASE verdict WHEN 'shorten' THEN shortened ELSE next_fence::text END, next_number::text, next_took_over::text, ${isMigrated ? "next_steps" : "NULL"}
  FROM updated`;

/**
 * Claims. Writes what `claimRecord` grants or corrects. Of several calls with one id, the first that would write does so,
 * and the others get no row. A new id is inserted; a call that loses the race for it writes nothing.
 */
export function claim(
  records: string,
  lock: string,
  isMigrated: boolean,
  limits: readonly string[] = [LOCK_LIMIT],
  answer = claimAnswer(isMigrated),
): string {
  const record = isMigrated ? `${RECORD}, steps, history` : RECORD;
  const columns = Object.keys(CLAIM_COLUMNS).join(", ");
  return `WITH ${input(CLAIM_COLUMNS, limits)}, judged AS MATERIALIZED (
    SELECT ${columns}, position, fence, outcome, lease_ends_at, claimed_at, now, damage, ${STATE_SEEN} AS state_seen,
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
    SELECT *, CASE WHEN ${IS_FRESH} THEN pg_try_advisory_xact_lock(${claimLock(toHex("id"))}) ELSE true END AS is_free
    FROM wanted
  ), inserted AS (
    INSERT INTO ${records} (${INSERTED})
    SELECT ${firstClaim(records)}
    FROM (SELECT *, ${CLOCK} AS now FROM free WHERE NOT is_found AND is_free ORDER BY id OFFSET 0) AS absent
    ON CONFLICT (id) DO NOTHING
    RETURNING id, fence
  ), locked AS MATERIALIZED (
    SELECT found.*, r.*, ${CLOCK} AS now
    FROM (SELECT ${columns}, position FROM free WHERE is_found AND is_free ORDER BY id OFFSET 0) AS found
    CROSS JOIN LATERAL (SELECT ${record} FROM ${records} WHERE id = found.id AND ${IS_SOUND} ${lock}) AS r
  ), ${claimDecided(records, isMigrated)}, updated AS (
    UPDATE ${records} AS r SET
      parts = next_parts, fingerprint = next_fingerprint, state = 'pending', token = next_token, spent = false,
      fence = next_fence, number = next_number, hold = next_hold, took_over = next_took_over,
      claimed_at = next_claimed_at, lease = next_lease, lease_ends_at = now + next_lease,
      retention = next_retention, kept_until = now + next_lease + next_retention, purge_at = next_purge_at,
      completed_at = NULL, outcome = NULL${isMigrated ? ", steps = next_steps, history = next_history" : ""}
    FROM decided AS d WHERE r.id = d.id AND d.verdict IN ${CLAIM_WRITES}
    RETURNING d.position, d.verdict, next_fence, next_number, next_took_over,
      ${pendingDetail("next_lease", "now", "r.claimed_at")} AS shortened${isMigrated ? ", next_steps" : ""}
  )
  ${answer}`;
}

/** The columns of a record that a first claim inserts. */
export const INSERTED = `id, parts, fingerprint, state, token, spent, fence, number, hold, took_over, claimed_at,
      lease, lease_ends_at, retention, kept_until, purge_at`;

/** Their values, from the call and `now`. */
export const firstClaim = (
  records: string,
) => `id, asked_parts, asked_fingerprint, 'pending', asked_token, false, now, 1, asked_hold, false, now,
      asked_lease, now + asked_lease, asked_retention, now + asked_lease + asked_retention,
      CASE WHEN asked_hold AND ${lacksHeldIndex(records)} THEN NULL ELSE now + asked_lease + asked_retention + asked_retention / 16 END`;

/**
 * The claim of one call in a transaction of the application. It leaves the settings of the transaction unchanged and waits
 * for no lock. Returns the rows of the answer as one JSON text.
 */
export function claimInside(records: string, isMigrated: boolean): string {
  const rows = `SELECT json_agg(json_build_array(a, b, c, d, e, f))::text FROM (${claimAnswer(isMigrated)}) AS rows (a, b, c, d, e, f)`;
  return claim(records, "FOR UPDATE SKIP LOCKED", isMigrated, [], rows);
}
