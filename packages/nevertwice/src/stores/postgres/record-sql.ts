/** What the statements of the Postgres store have in common: the conditions on a record, the clocks, and the calls as rows. */
import { LAST_MICROSECOND } from "../../core/checked-record.ts";
import { MAX_ENTRIES } from "../../core/kept-history.ts";
import { CLOCK_BACK_MARGIN_MS } from "../../core/record.ts";
import * as sound from "../sound-sql.ts";
import { fromHex } from "./ids.ts";

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
export const DAMAGE = `CASE
      ${SOUND.map(([column, condition]) => `WHEN (${condition}) IS NOT TRUE THEN '${column}'`).join("\n      ")}
    END`;

/**
 * Whether no column is damaged. Written so that the planner expects it to be true for nearly every row: for a condition that
 * it considers rare, it would scan the table.
 */
export const IS_SOUND = `((CASE WHEN ${SOUND.map(([, condition]) => condition).join(" AND ")} THEN true END) IS NOT NULL)`;

/** Microseconds since the epoch, at the time of evaluation. */
export const CLOCK = "(date_part('epoch', clock_timestamp()) * 1000000)::bigint";
/** Microseconds since the epoch when the statement arrived. For a statement that writes, this is before its snapshot. */
export const STARTED = "(date_part('epoch', statement_timestamp()) * 1000000)::bigint";
/**
 * The same for a statement that only reads. Its snapshot is taken when its parameters arrive, but `statement_timestamp` is
 * when it begins to run, which may be much later: a record that was renewed in between would look lapsed.
 */
export const BEGUN = "(date_part('epoch', transaction_timestamp()) * 1000000)::bigint";
/** In microseconds. */
export const CLOCK_BACK_MARGIN = CLOCK_BACK_MARGIN_MS * 1_000;
/** How long a statement waits for a lock: another open transaction must not use up the store's connections. */
export const LOCK_TIMEOUT_MS = 1_000;

export const LOCK_LIMIT = `set_config('lock_timeout', '${LOCK_TIMEOUT_MS}', true)`;

/** The answer does not wait until the commit is on disk. A later commit that does wait is flushed together with it. */
export const UNFLUSHED = "set_config('synchronous_commit', 'off', true)";

/**
 * The advisory lock of a record, by its id in hex. Every claim that begins an attempt takes it until its transaction ends, and
 * never waits for it: a claim that finds it taken answers `pending`. So no claim waits for a transaction of the application
 * that has claimed the same id and not committed yet, and neither do the other claims of its batch.
 */
export const claimLock = (hexId: string) => `hashtextextended(${hexId}, 0)`;

/** The columns that every decision needs. */
export const RECORD = `state, token, spent, fence, number, hold, took_over, claimed_at, lease, lease_ends_at, retention,
      kept_until, purge_at, fingerprint, parts`;

export const IS_EXPIRED = "((state <> 'pending' OR NOT hold) AND now >= kept_until)";
export const IS_LAPSED = "(spent OR now >= lease_ends_at)";
export const IS_OWNED = `(token IS NOT NULL AND token = asked_token AND NOT ${IS_EXPIRED})`;
export const STATE_SEEN = `CASE WHEN state = 'pending' AND ${IS_LAPSED} THEN 'lapsed' ELSE state END`;

/** The verdict about a record that may be damaged. A damaged one is never evaluated. */
export const judge = (verdict: string) =>
  `CASE WHEN damage IS NOT NULL THEN 'damaged' ELSE ${verdict} END AS verdict`;

/**
 * Whether the record has finished steps (core/kept-steps.ts). The column `steps` is added without a new version of the tables,
 * so that a release that does not know it can use them at the same time. Each statement that names it has a second form for
 * tables that were not migrated yet: the one of that release.
 */
export const HAS_STEPS = "(steps IS NOT NULL AND starts_with(steps, token || E'\\n'))";

/** Whether the record has a step whose line begins with `start`. */
export const hasStep = (start: string) => `(${HAS_STEPS} AND strpos(steps, E'\\n' || ${start}) > 0)`;

/** The steps of the record with one more line, which has the time in microseconds `now` between its two parts. */
export const addedStep = (start: string, now: string, end: string) =>
  `CASE WHEN ${HAS_STEPS} THEN steps ELSE token || E'\\n' END || ${start} || (${now} / 1000)::text || ${end}`;

/**
 * The history of the record (core/kept-history.ts), whose column was added as that of the steps was. `NOTE` is the note of
 * the present attempt, and `ENTRIES` are the earlier ones, each after a semicolon.
 */
const HISTORY_LINE =
  "CASE WHEN starts_with(history, token || E'\\n') THEN substr(history, length(token) + 2) ELSE '' END";
const NOTE = `split_part(${HISTORY_LINE}, ';', 1)`;
const ENTRIES = `substring(${HISTORY_LINE} FROM ';.*')`;
const toMillis = (micros: string) => `(${micros} / 1000)::text`;

const historyText = (token: string, note: string, entries: string) =>
  `${token} || E'\\n' || ${note} || coalesce(${entries}, '')`;

/** The history after a renewal. */
export const renewedHistory = (now: string) =>
  historyText(
    "token",
    `' ' || (coalesce(substring(${HISTORY_LINE} FROM '^ (\\d{1,16}) '), '0')::bigint + 1)::text || ' ' || ${toMillis(now)}`,
    ENTRIES,
  );

/** The history after the present attempt has ended. One that was given up and completed after that has an end already. */
export const endedHistory = (at: string, how: string) =>
  historyText(
    "token",
    `coalesce(substring(${NOTE} FROM '^ [0-9.]+ [0-9.]+'), ' 0 0') || ' ' || ${toMillis(at)} || ' ' || ${how}`,
    ENTRIES,
  );

const END = `CASE WHEN state = 'released' THEN 'r' WHEN spent THEN 'u' ELSE ${toMillis("lease_ends_at")} END`;
const KEPT_ENTRIES = `array_to_string((string_to_array(${ENTRIES}, ';'))[1:${MAX_ENTRIES}], ';')`;

/** The history for the claim of another token, which turns the present attempt into an entry. */
export const nextHistory = (token: string) =>
  historyText(
    token,
    `';' || number::text || ' ' || fence::text || ' ' || ${toMillis("claimed_at")} || ' ' || ${END} || ${NOTE}`,
    KEPT_ENTRIES,
  );

/**
 * When purge looks at a record: some time after it expires, so that a renewal or a completion can leave the index entry
 * unchanged (a heap-only update). Never for a held record that was found to wait for a decision (held-sql.ts).
 */
export function purgeAt(given: {
  waits: string;
  keptUntil: string;
  retention: string;
  lease: string;
}): string {
  const { waits, keptUntil, retention, lease } = given;
  return `CASE
      WHEN ${waits} THEN NULL
      WHEN purge_at BETWEEN ${keptUntil} AND ${keptUntil} + ${retention} / 16 + ${lease} THEN purge_at
      ELSE ${keptUntil} + ${retention} / 16
    END`;
}

/** The parameters of a call: their names with their types, in order. */
export type CallColumns = Readonly<Record<string, string>>;

/**
 * The calls, one row each. The subquery hides the length of the arrays from the planner: for a short array it would make a
 * new plan each time, and planning takes longer than the step.
 */
export function input(columns: CallColumns, limits: readonly string[] = [LOCK_LIMIT]): string {
  const names = Object.keys(columns);
  const arrays = Object.entries(columns).map(
    ([name, type], index) => `($${index + 1}::text)::${type}[] AS all_${name}`,
  );
  // Rows are locked in the order of their ids.
  return `input AS MATERIALIZED (
    SELECT ${names.map((name) => (name === "id" ? `${fromHex("calls.id")} AS id` : name)).join(", ")}, position, started
    FROM (
      SELECT ${arrays.join(", ")}, ${[`${STARTED} AS started`, ...limits].join(", ")} OFFSET 0
    ) AS given, unnest(${names.map((name) => `all_${name}`).join(", ")})
      WITH ORDINALITY AS calls (${names.join(", ")}, position)
  )`;
}
