/**
 * The checks of core/sound-record.ts as SQL conditions that every database understands. They are for decisions that the
 * database makes without reading the record into JavaScript: every purge, and every step of Postgres.
 */

export const IS_STATE = "state IN ('pending', 'completed', 'released')";

export const IS_TOKEN = "token <> ''";

/** Larger numbers lose precision when JavaScript reads them. */
export const isCount = (column: string) => `${column} BETWEEN 1 AND ${Number.MAX_SAFE_INTEGER}`;

export const isTime = (column: string, last: number) => `${column} BETWEEN 0 AND ${last}`;

export const isFlag = (column: string) => `${column} IN (0, 1)`;

/** A completion always writes this column. If only one of the two is there, the row was changed by hand. */
export const isOfCompletion = (column: string) => `(${column} IS NOT NULL) = (state = 'completed')`;

export const isCompletionTime = (column: string, last: number) =>
  `${isOfCompletion(column)} AND (${column} IS NULL OR ${isTime(column, last)})`;

/** retention-ends: a deadline before the start of the retention would let the work run again immediately. */
export const IS_KEPT_LONG_ENOUGH =
  "(state = 'released' OR kept_until >= COALESCE(completed_at, lease_ends_at))";

/** As `partsText` writes them, or NULL once forgotten. JSON escapes quotes, so `","` occurs only between two parts. */
export const ARE_PARTS = `(parts IS NULL OR parts LIKE '["%","%","%","%"]')`;
