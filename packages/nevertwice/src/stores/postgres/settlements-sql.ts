/** The steps of a claim's owner in Postgres: complete, keep a step, abandon, renew. */
import {
  addedStep,
  type CallColumns,
  CLOCK,
  DAMAGE,
  endedHistory,
  hasStep,
  IS_OWNED,
  IS_SOUND,
  input,
  judge,
  purgeAt,
  RECORD,
  renewedHistory,
} from "./record-sql.ts";

export interface OwnerStep {
  readonly columns: CallColumns;
  /** What the step reads of a record besides the columns that every decision needs. */
  readonly reads?: string;
  /** Whether waiters must be told, as an expression of the record. */
  readonly wakes?: string;
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
  waking(
    isMigrated ? { ...COMPLETE, next: { ...COMPLETE.next, steps: "NULL::text" } } : COMPLETE,
    isMigrated,
  );

/** `asked_start` and `asked_end` are the line of the step, without the time in the middle. */
export const KEEP_STEP: OwnerStep = {
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
    // Says when the record lapsed. How long it is kept does not change.
    lease_ends_at: `CASE WHEN ${IS_RELEASED} THEN lease_ends_at ELSE least(lease_ends_at, now) END`,
    purge_at: purgeAt({
      waits: `hold AND NOT ${IS_RELEASED}`,
      keptUntil: "kept_until",
      retention: "retention",
      lease: "lease",
    }),
  },
};

/** The attempt's end goes into the history. */
export const abandonStep = (isMigrated: boolean): OwnerStep =>
  waking(withHistory(ABANDON, isMigrated, endedHistory("now", "asked_as")), isMigrated);

const RENEW: OwnerStep = {
  columns: { id: "text", asked_token: "text", asked_lease: "bigint" },
  writable: "state = 'pending' AND NOT spent",
  verdict: `CASE WHEN ${IS_OWNED} AND state = 'pending' AND NOT spent THEN 'write' ELSE 'no' END`,
  next: {
    lease: "asked_lease",
    lease_ends_at: "now + asked_lease",
    kept_until: "now + asked_lease + retention",
    purge_at: purgeAt({
      waits: "hold AND purge_at IS NULL",
      keptUntil: "now + asked_lease + retention",
      retention: "retention",
      lease: "asked_lease",
    }),
  },
};

export const renewStep = (isMigrated: boolean): OwnerStep =>
  withHistory(RENEW, isMigrated, renewedHistory("now"));

function withHistory(step: OwnerStep, isMigrated: boolean, history: string): OwnerStep {
  return isMigrated ? { ...step, reads: ", history", next: { ...step.next, history } } : step;
}

/** A step after which waiters go on. Tables without the column for marks do not say who waits. */
function waking(step: OwnerStep, isMigrated: boolean): OwnerStep {
  return isMigrated
    ? { ...step, reads: `${step.reads ?? ""}, awaited`, wakes: "awaited" }
    : { ...step, wakes: "true" };
}

/**
 * Completes, abandons or renews; no two calls have the same id. Answers rows of (position; `yes`, `no` or `damaged`; the
 * damaged column; whether waiters must be told). The records that the calls' tokens own are locked immediately; only for the others does the statement
 * read why it refuses them.
 *
 * A repeat of a step that was taken finds it done. The step's own commit may have been interrupted while it waited for a
 * standby: it is visible then, and lost with this server. So the repeat locks the record (`confirmed`). A lock is written to
 * the log, the repeat's commit waits for a standby, and a standby that has it has everything before it.
 */
export function settle(records: string, lock: string, step: OwnerStep): string {
  const { columns, reads = "", wakes = "false", writable, verdict, next } = step;
  const changes = Object.entries(next);
  return `WITH ${input(columns)}, locked AS MATERIALIZED (
    SELECT calls.*, r.*, ${CLOCK} AS now
    FROM (SELECT * FROM input ORDER BY id OFFSET 0) AS calls
    CROSS JOIN LATERAL (
      SELECT ${RECORD}${reads}, ctid AS place FROM ${records}
      WHERE id = calls.id AND token = calls.asked_token AND ${writable} AND ${IS_SOUND} ${lock}
    ) AS r
  ), decided AS MATERIALIZED (
    SELECT id, place, position, ${verdict} AS verdict, ${wakes} AS wakes,
      ${changes.map(([name, value]) => `${value} AS next_${name}`).join(", ")}
    FROM locked
  ), updated AS (
    UPDATE ${records} AS r SET ${changes.map(([name]) => `${name} = next_${name}`).join(", ")}
    FROM decided AS d WHERE r.ctid = d.place AND r.id = d.id AND d.verdict = 'write'
    RETURNING d.position, d.wakes
  ), judged AS (
    SELECT id, asked_token, position, damage, ${wakes} AS wakes, ${judge(verdict)}
    FROM (
      SELECT input.*, r.*, started AS now FROM input
      LEFT JOIN LATERAL (
        SELECT ${RECORD}${reads}, ${DAMAGE} AS damage FROM ${records} WHERE id = input.id LIMIT 1
      ) AS r ON true
      WHERE position NOT IN (SELECT position FROM locked)
    ) AS look
  ), confirmed AS (
    SELECT position FROM (SELECT * FROM judged WHERE verdict = 'yes' ORDER BY id OFFSET 0) AS done
    CROSS JOIN LATERAL (
      SELECT FROM ${records} WHERE id = done.id AND token = done.asked_token ${lock}
    ) AS r
  )
  SELECT position::text, verdict, damage, (verdict = 'yes' AND wakes)::text FROM judged
  WHERE verdict NOT IN ('write', 'yes') OR position IN (SELECT position FROM confirmed)
  UNION ALL
  SELECT position::text, verdict, NULL, (verdict = 'yes' AND wakes)::text FROM decided WHERE verdict <> 'write'
  UNION ALL
  SELECT position::text, 'yes', NULL, wakes::text FROM updated`;
}
