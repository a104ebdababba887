/**
 * The small statements of the Postgres store, which are tried first: they answer the common claims and completions. Every call
 * that they leave open gets no row, and is judged by the full statement. They take less of the server's time, since the server
 * sets up every part of a statement each time that it runs, used or not.
 *
 * Parameters are text, with the values of one column for all calls: texts with a separator in between, which the server splits
 * much faster than it reads an array literal, and numbers as array literals. `quick-steps.ts` writes them. The calls of a
 * statement have different ids. The forms for one call have no arrays at all.
 */
import { DIFFERS, firstClaim, INSERTED, pendingDetail } from "./claims-sql.ts";
import { fromHex, toHex } from "./ids.ts";
import { CLOCK, CLOCK_BACK_MARGIN, claimLock, IS_EXPIRED, IS_SOUND, STARTED } from "./record-sql.ts";
import { completeStep } from "./settlements-sql.ts";

/** An information separator of ASCII, which JSON escapes. */
export const SEPARATOR = "\x1f";

/** The parameters of a call: their names with their types, in order. */
type QuickColumns = Readonly<Record<string, "text" | "bigint" | "boolean">>;

/** A missing fingerprint is an empty text. */
const CLAIM_COLUMNS: QuickColumns = {
  asked_id: "text",
  asked_parts: "text",
  fingerprint_text: "text",
  asked_token: "text",
  asked_lease: "bigint",
  asked_retention: "bigint",
  asked_hold: "boolean",
};

const COMPLETE_COLUMNS: QuickColumns = {
  asked_id: "text",
  asked_token: "text",
  asked_outcome: "text",
  asked_retention: "bigint",
};

/**
 * The calls as rows. The subquery hides the length of the arrays from the planner: for a short array it would make a new plan
 * each time, and planning takes longer than the step.
 */
function calls(columns: QuickColumns, others: readonly string[] = []): string {
  const names = Object.keys(columns);
  const arrays = Object.entries(columns).map(([name, type], index) => {
    const parameter = `($${index + 1}::text)`;
    return `${type === "text" ? `string_to_array(${parameter}, E'\\x1f')` : `${parameter}::${type}[]`} AS all_${name}`;
  });
  return `(SELECT ${[...arrays, ...others].join(", ")} OFFSET 0) AS given,
      unnest(${names.map((name) => `all_${name}`).join(", ")}) WITH ORDINALITY AS calls (${names.join(", ")}, position)`;
}

/** The same for one call. */
function oneCall(columns: QuickColumns): string {
  return Object.entries(columns)
    .map(([name, type], index) => `($${index + 1}::text)::${type} AS ${name}`)
    .join(", ");
}

const ASKED_CLAIM = `asked_parts, nullif(fingerprint_text, '') AS asked_fingerprint, asked_token, asked_lease, asked_retention,
      asked_hold`;

/** About a record that was found. `other` is left to the full statement. */
const VERDICT = `CASE
        WHEN ${DIFFERS} OR NOT ${IS_SOUND} THEN 'other'
        WHEN state = 'completed' AND started < kept_until THEN 'completed'
        WHEN state = 'pending' AND NOT spent AND token <> asked_token
          AND lease_ends_at - started BETWEEN 1 AND lease + ${CLOCK_BACK_MARGIN} THEN 'pending'
        ELSE 'other'
      END`;

const FOUND = `verdict, CASE verdict WHEN 'completed' THEN outcome ELSE ${pendingDetail("lease_ends_at - started", "started")} END,
    CASE verdict WHEN 'pending' THEN token END
  FROM look WHERE verdict IN ('completed', 'pending')`;

/**
 * Claims: a new id is inserted, and a completed record, or one that another token is working on, is answered. Rows are (id,
 * status, detail, owner). The detail of `new` is its fence; of `pending` see `pendingDetail`; of `completed` the outcome.
 * Only `pending` has an owner: the token of the record.
 */
export function quickClaim(records: string, limits: readonly string[]): string {
  return `WITH look AS MATERIALIZED (
    SELECT asked.*, r.*
    FROM (
      SELECT ${fromHex("asked_id")} AS id, ${ASKED_CLAIM}, started
      FROM ${calls(CLAIM_COLUMNS, [`${STARTED} AS started`, ...limits])}
    ) AS asked
    LEFT JOIN LATERAL (
      SELECT outcome, lease_ends_at, claimed_at, token, ${VERDICT} AS verdict FROM ${records} WHERE id = asked.id LIMIT 1
    ) AS r ON true
  ), inserted AS (
    INSERT INTO ${records} (${INSERTED})
    SELECT ${firstClaim(records)}
    FROM (
      SELECT *, ${CLOCK} AS now FROM look
      WHERE verdict IS NULL AND pg_try_advisory_xact_lock(${claimLock(toHex("id"))})
      ORDER BY id OFFSET 0
    ) AS absent
    ON CONFLICT (id) DO NOTHING
    RETURNING id, fence
  )
  SELECT ${toHex("id")}, 'new', fence::text, NULL FROM inserted
  UNION ALL
  SELECT ${toHex("id")}, ${FOUND}`;
}

/** The same for one call. */
export function quickClaimOfOne(records: string, limits: readonly string[]): string {
  const asked = `SELECT asked_id, ${ASKED_CLAIM} FROM (SELECT ${oneCall(CLAIM_COLUMNS)}) AS call`;
  return `WITH look AS MATERIALIZED (
    SELECT id, outcome, lease_ends_at, claimed_at, token, started, ${VERDICT} AS verdict
    FROM (SELECT *, ${STARTED} AS started FROM (${asked}) AS call) AS call, ${records}
    WHERE id = ${fromHex("asked_id")}
  ), inserted AS (
    INSERT INTO ${records} (${INSERTED})
    SELECT ${firstClaim(records)}
    FROM (SELECT ${[`${fromHex("asked_id")} AS id`, "call.*", `${CLOCK} AS now`, ...limits].join(", ")} FROM (${asked}) AS call OFFSET 0) AS absent
    WHERE CASE WHEN EXISTS (SELECT FROM look) THEN false ELSE pg_try_advisory_xact_lock(${claimLock("asked_id")}) END
    ON CONFLICT (id) DO NOTHING
    RETURNING id, fence
  )
  SELECT ${toHex("id")}, 'new', fence::text, NULL FROM inserted
  UNION ALL
  SELECT ${toHex("id")}, ${FOUND}`;
}

/** The record that the call owns. It is locked, and its place read, before the clock is. */
const owned = (records: string, wakes: string) => `(
        SELECT ctid AS place, state, hold, kept_until, ${wakes} AS wakes FROM ${records}
        WHERE id = ${fromHex("asked_id")} AND token = asked_token AND state = 'pending' AND ${IS_SOUND} FOR UPDATE SKIP LOCKED
      ) AS owned`;

/**
 * Completes the pending records that their callers own. Rows are (position, whether waiters must be told). It never waits for a
 * row's lock, so the order in which it locks them does not matter.
 */
export function quickComplete(records: string, isMigrated: boolean): string {
  return complete(records, isMigrated, calls(COMPLETE_COLUMNS), "position");
}

/** The same for one call. */
export function quickCompleteOfOne(records: string, isMigrated: boolean): string {
  return complete(
    records,
    isMigrated,
    `(SELECT ${oneCall(COMPLETE_COLUMNS)} OFFSET 0) AS call`,
    "1 AS position",
  );
}

/** Selects by a verdict, of which the planner expects few, so that it finds each record by its place and never scans the table. */
function complete(records: string, isMigrated: boolean, asked: string, position: string): string {
  const { next, wakes = "true" } = completeStep(isMigrated);
  const changes = Object.entries(next).map(([name, value]) => `${name} = ${value}`);
  return `UPDATE ${records} AS r SET ${changes.join(", ")}
  FROM (
    SELECT *, CASE WHEN ${IS_EXPIRED} THEN 'no' ELSE 'write' END AS verdict
    FROM (
      SELECT asked_id, asked_outcome, asked_retention, ${position}, owned.*, ${CLOCK} AS now
      FROM ${asked} CROSS JOIN LATERAL ${owned(records, wakes)} OFFSET 0
    ) AS locked OFFSET 0
  ) AS d (asked_id, asked_outcome, asked_retention, position, place, state_seen, is_held, kept, wakes, now, verdict)
  WHERE r.ctid = place AND r.id = ${fromHex("asked_id")} AND verdict = 'write'
  RETURNING position::text, wakes::text`;
}
