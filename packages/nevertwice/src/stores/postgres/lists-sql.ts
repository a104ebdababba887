/**
 * The statements of the Postgres store for operators: lists, the count of undecided records, and namespaces. Each looks at a
 * limited number of rows, found by an index on what a claim sets alone: completions and renewals write to no index.
 *
 * The index is on digests of the parts' beginnings and ends, since parts may be longer than an index allows. They only say
 * where to look, and every row is compared with the text that was asked for. JSON escapes quotes, so `","` occurs between
 * two parts, and elsewhere only where a part ends like that: then several values share a digest.
 */
import type { ListRequest } from "../../core/store.ts";
import { fromHex, toHex } from "./ids.ts";
import { BEGUN, DAMAGE, HAS_STEPS, IS_EXPIRED, IS_LAPSED, IS_SOUND, STATE_SEEN } from "./record-sql.ts";

const END_OF_PART = `'","'`;
const digest = (text: string) => `hashtextextended(${text}, 0)`;
/** What is before the first end of a part, or between two of them. It takes a tenth of the time of other functions of text. */
const piece = (parts: string, number: number) => `split_part(${parts}, ${END_OF_PART}, ${number})`;

function lastPiece(text: string): string {
  return `right(${text}, strpos(reverse(${text}), ${END_OF_PART}) - 1)`;
}

/** Of parts, or of `partsStart` of a namespace. */
const namespaceDigest = (parts: string) => digest(`left(${parts}, strpos(${parts}, ${END_OF_PART}))`);
/** Of parts, or of `partsStart` of a namespace and a scope. */
const scopeDigest = (parts: string) =>
  `hashtextextended(${piece(parts, 2)}, hashtextextended(${piece(parts, 1)}, 0))`;
/** Of `keyEnd` of a key, and of parts. */
const keyDigest = (end: string) => digest(lastPiece(end));
/** The same of parts. Only where a part ends like two parts, the key is not simply the fourth of four pieces. */
const keyDigestOfParts = digest(
  `CASE WHEN ${piece("parts", 5)} = '' AND NOT starts_with(${piece("parts", 4)}, ',"')
      THEN ${piece("parts", 4)} ELSE ${lastPiece("parts")} END`,
);

/** What the parts of every record with this key end with. */
export const keyEnd = (key: string) => `",${JSON.stringify(key)}]`;

/**
 * The period of about 72 minutes in which a record was claimed. A digest is anywhere in an index, so each claim would write
 * to another page of it, and each page that is written for the first time since a checkpoint is copied to the log. Behind
 * its period, a digest is among those of the last hour, whose pages are written anyway.
 */
const PERIOD = "(claimed_at >> 32)";

/** With a condition, only the records that meet it are in the index. */
export type AddedIndex = readonly [name: string, columns: string, condition?: string];

/** Each can be created ahead, with `CONCURRENTLY`: `migrate()` creates the ones that are missing. */
export const LIST_INDEXES: readonly AddedIndex[] = [
  ["nevertwice_records_claims", `${namespaceDigest("parts")}, claimed_at`],
  ["nevertwice_records_period_scopes", `${PERIOD}, ${scopeDigest("parts")}, claimed_at`],
  ["nevertwice_records_period_keys", `${PERIOD}, ${keyDigestOfParts}, claimed_at`],
];

/** Of earlier releases, whose expressions took more of a claim's time. `migrate()` drops them. */
export const REPLACED_INDEXES: readonly string[] = [
  "nevertwice_records_scopes",
  "nevertwice_records_keys",
  "nevertwice_records_scopes_by_period",
  "nevertwice_records_keys_by_period",
];

/** The server is not the primary, or no longer: it may lack the last claims. */
export const IS_NO_PRIMARY = "(pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on')::text";

const SHOWN_STEPS = `, CASE WHEN state <> 'completed' AND ${HAS_STEPS} THEN steps END`;

/** The record for `read` and `list`, with times in microseconds, its damaged column, and its steps. */
export const viewColumns = (
  isMigrated: boolean,
) => `${toHex("id")}, parts, fingerprint, ${STATE_SEEN}, token, fence::text, number::text, hold::text, claimed_at::text,
    CASE WHEN state = 'pending' AND NOT ${IS_LAPSED} THEN lease_ends_at - now ELSE 0 END::text,
    completed_at::text, kept_until::text, outcome, ${DAMAGE},
    CASE WHEN state = 'pending' AND ${IS_LAPSED} THEN least(lease_ends_at, now) END::text${isMigrated ? SHOWN_STEPS : ""}`;

/** A damaged record is shown whatever its deadline says; otherwise it would look like a free key. */
export const IS_SHOWN = `NOT (${IS_SOUND} AND ${IS_EXPIRED})`;

/** Each filter of a list that is given has its own condition, on its own parameter. */
export type ListShape = Readonly<Record<"scope" | "key" | "operation" | "state", boolean>>;

export function toShape({ scope, key, operation, state }: ListRequest): ListShape {
  return {
    scope: scope !== undefined,
    key: key !== undefined,
    operation: operation !== undefined,
    state: state !== undefined,
  };
}

/** The next rows of a list that a condition finds, as `listSql` is asked for them. */
const nextRows = (records: string, condition: string) => `SELECT * FROM ${records}
        WHERE ${condition} AND claimed_at <= $2::bigint AND (claimed_at, id) < ($2::bigint, ${fromHex("$3::text")})
        ORDER BY claimed_at DESC, id DESC LIMIT $4::bigint`;

/** All periods up to a time, latest first. Each is found by one look into the index, as far as the reader goes. */
function periods(records: string): string {
  const last = (condition: string) =>
    `(SELECT ${PERIOD} FROM ${records} WHERE ${PERIOD} ${condition} ORDER BY ${PERIOD} DESC LIMIT 1)`;
  return `periods (period) AS (
    SELECT ${last("<= ($2::bigint >> 32)")}
    UNION ALL
    SELECT ${last("< periods.period")} FROM periods WHERE period IS NOT NULL
  )`;
}

/** The rows of a scope or of a key: period after period, until there are enough. */
const rowsByPeriod = (records: string, condition: string) => `SELECT found.* FROM periods CROSS JOIN LATERAL (
        ${nextRows(records, `${PERIOD} = periods.period AND ${condition}`)}
      ) AS found LIMIT $4::bigint`;

function wantedRows(records: string, shape: ListShape): string {
  if (shape.key) return rowsByPeriod(records, `${keyDigestOfParts} = ${keyDigest("$6::text")}`);
  if (shape.scope) return rowsByPeriod(records, `${scopeDigest("parts")} = ${scopeDigest("$1::text")}`);
  return nextRows(records, `${namespaceDigest("parts")} = ${namespaceDigest("$1::text")}`);
}

/**
 * A page. Parameters: 1 the beginning of the parts, 2 and 3 the place after which to start, 4 how many rows to look at, 5 how
 * many records to return, 6 the end of the parts, 7 the operation as JSON, 8 the state; the last three are empty if they
 * are not asked for. Rows are (is no primary, how many rows were looked at, the place of the last of them, columns of a
 * record): at least one row, with nulls if there is no record.
 */
export function listSql(records: string, shape: ListShape, isMigrated: boolean): string {
  return `WITH RECURSIVE ${periods(records)}, scanned AS MATERIALIZED (
    SELECT id, claimed_at, (starts_with(parts, $1::text)
        AND ($6::text = '' OR right(parts, length($6::text)) = $6::text)
        AND ($7::text = '' OR CASE WHEN ${IS_SOUND} THEN (parts::json -> 2)::text = $7::text END IS NOT FALSE)
        AND ($8::text = '' OR ${STATE_SEEN} = $8::text OR NOT ${IS_SOUND})
        AND ${IS_SHOWN}) AS is_shown
    FROM (
      SELECT *, ${BEGUN} AS now FROM (
        ${wantedRows(records, shape)}
      ) AS next
    ) AS look
  ), page AS MATERIALIZED (
    SELECT id AS shown_id, claimed_at AS shown_at FROM scanned WHERE is_shown ORDER BY claimed_at DESC, id DESC LIMIT $5::bigint
  )
  SELECT ${IS_NO_PRIMARY}, (SELECT count(*) FROM scanned)::text, last.claimed_at::text, ${toHex("last.id")}, view.*
  FROM (SELECT 1) AS once
  LEFT JOIN (SELECT claimed_at, id FROM scanned ORDER BY claimed_at, id LIMIT 1) AS last ON true
  LEFT JOIN LATERAL (
    SELECT ${viewColumns(isMigrated)}
    FROM page CROSS JOIN LATERAL (
      SELECT *, ${BEGUN} AS now FROM ${records} WHERE id = shown_id LIMIT 1
    ) AS look ORDER BY shown_at DESC, shown_id DESC
  ) AS view ON true`;
}

/**
 * Parameters: the beginning of the parts, and how many held records to look at. Answers (is no primary, how many were looked
 * at, how many are undecided, when the oldest of them lapsed). Held records that were found to have lapsed have no `purge_at`
 * (held-sql.ts), so the index of purges finds them. Some of them are at work again, and earlier releases have all of them there.
 */
export function undecidedSql(records: string): string {
  return `WITH held AS MATERIALIZED (
    SELECT parts, state, hold, spent, lease_ends_at, ${BEGUN} AS now FROM ${records} WHERE purge_at IS NULL LIMIT $2::bigint
  )
  SELECT ${IS_NO_PRIMARY}, count(*)::text, (count(*) FILTER (WHERE is_undecided))::text,
    (min(least(lease_ends_at, now)) FILTER (WHERE is_undecided))::text
  FROM (SELECT *, starts_with(parts, $1::text) AND state = 'pending' AND hold AND ${IS_LAPSED} AS is_undecided FROM held) AS judged`;
}

/**
 * Parameter: how many records to look at. Answers (is no primary, how many were looked at, how many are overdue for a purge,
 * since when the oldest of them is). Damaged records are never purged, and do not count.
 */
export function overdueSql(records: string): string {
  return `WITH look AS MATERIALIZED (
    SELECT *, ${BEGUN} AS now FROM ${records} WHERE purge_at <= ${BEGUN} ORDER BY purge_at LIMIT $1::bigint
  )
  SELECT ${IS_NO_PRIMARY}, count(*)::text, (count(*) FILTER (WHERE is_overdue))::text,
    (min(purge_at) FILTER (WHERE is_overdue))::text
  FROM (SELECT purge_at, ${IS_SOUND} AND ${IS_EXPIRED} AS is_overdue FROM look) AS judged`;
}

/** Parameters: the last digest, and a limit. Rows are (is no primary, digest, beginning of the parts), in the order of digests. */
export function namespacesSql(records: string): string {
  const DIGEST = namespaceDigest("parts");
  const next = (after: string) =>
    `(SELECT ${DIGEST} FROM ${records} WHERE ${DIGEST} > ${after} ORDER BY ${DIGEST} LIMIT 1)`;
  return `WITH RECURSIVE found (digest) AS (
    SELECT ${next("$1::bigint")}
    UNION ALL
    SELECT ${next("found.digest")} FROM found WHERE digest IS NOT NULL
  )
  SELECT ${IS_NO_PRIMARY}, digest::text,
    (SELECT left(parts, strpos(parts, ${END_OF_PART})) FROM ${records} WHERE ${DIGEST} = found.digest LIMIT 1)
  FROM found WHERE digest IS NOT NULL LIMIT $2::bigint`;
}

/**
 * For the transaction of a list. The planner knows nothing of a new index on expressions and expects few rows from it: it would read and sort
 * all of them instead of the first ones in the order of the index, so it may not. That changes the costs by which Postgres
 * decides whether to compile a statement, which takes longer than a page.
 */
export const LIST_SETTINGS = `SELECT set_config('jit', 'off', true),
  set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true)`;
