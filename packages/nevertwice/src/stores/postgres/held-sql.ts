/**
 * Held records of the Postgres store whose outcome waits for a decision. Completed records must not be among them, and a
 * completion must write to no index, so no index can tell the two apart. Therefore a held record is claimed with the
 * `purge_at` that its completion leaves unchanged. Only a record that has lapsed loses it. These few are found by the index of
 * purges, and a purge never looks at them again. Who counts them, or purges, first looks for records that have lapsed since,
 * among those that were claimed with hold: `held-search.ts`.
 *
 * A record without `purge_at` is only looked at more often, so it does no harm if one that is still running loses it.
 */
import { IS_NO_PRIMARY } from "./lists-sql.ts";
import { BEGUN, IS_LAPSED, IS_SOUND } from "./record-sql.ts";

const MINUTE_US = 60_000_000;
/** A record that has been running for longer loses its `purge_at` too: otherwise it would be looked at again each time. */
const YOUNG_US = 5 * MINUTE_US;
/**
 * Records that were claimed longer ago are looked at a second time. A transaction of the application may have committed its
 * claim only after later ones were looked at, and the clock may have been set back.
 */
const RECENT_US = 15 * MINUTE_US;

const NAME = "nevertwice_records_held";

/** No completion, renewal or step changes these columns. */
export const HELD_INDEX = [NAME, "claimed_at", "hold"] as const;

/** The name of the index of a table of records, which has the same schema. */
const nameOfIndex = (records: string) => `'${`${records}_held`.replaceAll("'", "''")}'`;

/** Whether the tables lack the index: then held records cannot be looked for, and are kept out of purges from the beginning. */
export const lacksHeldIndex = (records: string) => `to_regclass(${nameOfIndex(records)}) IS NULL`;

/** Tables of an earlier release lack the index until `migrate`, and an index is not valid while it is built. */
const hasHeldIndex = (records: string) =>
  `(SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(${nameOfIndex(records)}))`;

/** Each kind of search with the records that it looks at, by the time of their claim and the end of the search before. */
const SEARCHED = {
  recent: `claimed_at >= greatest($1::bigint, ${BEGUN} - ${RECENT_US}) AND claimed_at <= ${BEGUN}`,
  earlier: `claimed_at >= $1::bigint AND claimed_at < ${BEGUN} - ${RECENT_US}`,
};

export type HeldSearch = keyof typeof SEARCHED;

/**
 * Takes the `purge_at` of held records that have lapsed, among the first `$2` that were claimed since `$1`. Answers (is no
 * primary, whether there is an index, how many were looked at, when the first one was claimed that must be looked at again,
 * when the last one was).
 */
export function markLapsedSql(records: string, search: HeldSearch): string {
  return `WITH looked AS MATERIALIZED (
    SELECT id, claimed_at, state = 'pending' AND purge_at IS NOT NULL AND ${IS_SOUND} AS waits,
      ${IS_LAPSED} OR claimed_at < now - ${YOUNG_US} AS is_due
    FROM (
      SELECT *, ${BEGUN} AS now FROM ${records}
      WHERE hold AND ${SEARCHED[search]} AND ${hasHeldIndex(records)} ORDER BY claimed_at LIMIT $2::bigint
    ) AS held
  ), marked AS (
    UPDATE ${records} AS r SET purge_at = NULL
    FROM (
      SELECT found.id FROM looked CROSS JOIN LATERAL (
        SELECT id FROM ${records} AS r
        WHERE r.id = looked.id AND claimed_at = looked.claimed_at AND state = 'pending' AND hold FOR UPDATE SKIP LOCKED
      ) AS found
      WHERE waits AND is_due
    ) AS due
    WHERE r.id = due.id
    RETURNING r.id
  )
  SELECT ${IS_NO_PRIMARY}, coalesce(${hasHeldIndex(records)}, false)::text, count(*)::text,
    (min(claimed_at) FILTER (WHERE waits AND id NOT IN (SELECT id FROM marked)))::text, max(claimed_at)::text
  FROM looked`;
}
