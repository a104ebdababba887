/**
 * Values on their way into a statement and out of a row. Statements contain values only as digits or hexadecimal bytes, so
 * neither the character set of a connection nor its SQL mode nor a setting of the driver can change them.
 */

import { checkedRecord, flagFrom, LAST_MICROSECOND } from "../../core/checked-record.ts";
import { damagedRecord } from "../../core/damaged-record.ts";
import { NevertwiceError } from "../../core/errors.ts";
import type { Kept } from "../../core/record.ts";
import type { RecordSnapshot } from "../compare-and-set.ts";
import type { MysqlRow } from "./client.ts";

/** The server's clock when the statement began. It is constant within a statement, so an index can be used with it. */
export const STATEMENT_US = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))";
/**
 * The server's clock when the expression is evaluated: in a SET, after the row was locked. SYSDATE() alone is local time,
 * in which an hour repeats when summer time ends. Its distance from NOW() has no time zone and is never negative.
 */
export const NOW_US = `(${STATEMENT_US} + GREATEST(0, TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6))))`;

/**
 * Whether others see a commit before it is on disk. They do not with a binary log that is flushed at every commit. With
 * `innodb_flush_log_at_trx_commit = 0` no commit waits for the disk, so a reader cannot wait for it either.
 */
export const IS_SHOWN_EARLY =
  "((@@global.log_bin = 0 OR @@session.sql_log_bin = 0 OR @@global.sync_binlog <> 1) " +
  "AND @@global.innodb_flush_log_at_trx_commit <> 0)";

/** The limit for ids, tokens, fingerprints and marks. A server without strict mode would silently cut a longer one. */
export const MAX_SHORT_BYTES = 255;

export const TABLE_OPTIONS = "ENGINE = InnoDB ROW_FORMAT = DYNAMIC";

/** A string as a literal of its UTF-8 bytes. */
export function bytes(text: string | undefined): string {
  return text === undefined ? "NULL" : `X'${Buffer.from(text, "utf8").toString("hex")}'`;
}

/** Like `bytes`; throws `options-invalid` for more than 255 bytes. */
export function short(text: string | undefined): string {
  const literal = bytes(text);
  if (literal.length - "X''".length <= MAX_SHORT_BYTES * 2) return literal;
  throw new NevertwiceError(
    "options-invalid",
    `${text?.slice(0, 20)}… is longer than ${MAX_SHORT_BYTES} bytes, the limit of the MySQL store.`,
  );
}

/** A whole number as a literal. Throws `options-invalid` for any other number. */
export function whole(value: number): string {
  if (Number.isSafeInteger(value)) return String(value);
  throw new NevertwiceError("options-invalid", `${value} is not a whole number.`);
}

/** The row of `readSql`: the record, if there is one, and the time by which it is judged. */
export function toSnapshot(row: MysqlRow): RecordSnapshot {
  const now = readMillis(row, "now_us");
  if (isNull(row, "id")) return { record: undefined, mark: "", now };
  return { record: toRecord(row), mark: readText(row, "mark"), now };
}

/** Throws `store-unsafe` for a row that the store did not write. */
export function toRecord(row: MysqlRow): Kept {
  return checkedRecord({
    id: readText(row, "id"),
    parts: readParts(row),
    fingerprint: isNull(row, "fingerprint") ? undefined : readText(row, "fingerprint"),
    state: readText(row, "state"),
    token: readText(row, "token"),
    spent: flagFrom(readNumber(row, "spent")),
    fence: readNumber(row, "fence"),
    number: readNumber(row, "number"),
    hold: flagFrom(readNumber(row, "hold")),
    tookOver: flagFrom(readNumber(row, "took_over")),
    claimedAt: readTime(row, "claimed_at"),
    leaseMs: readNumber(row, "lease_ms"),
    leaseEndsAt: readTime(row, "lease_ends_at"),
    retentionMs: readNumber(row, "retention_ms"),
    keptUntil: readTime(row, "kept_until"),
    completedAt: isNull(row, "completed_at") ? undefined : readTime(row, "completed_at"),
    outcome: isNull(row, "outcome") ? undefined : readText(row, "outcome"),
    steps: isNull(row, "steps") ? undefined : readText(row, "steps"),
    history: isNull(row, "history") ? undefined : readText(row, "history"),
  });
}

const PARTS = ["namespace", "scope", "operation", "key"] as const;

/** All four parts, or undefined if all are NULL because they were forgotten. */
function readParts(row: MysqlRow): Kept["parts"] {
  const missing = PARTS.filter((name) => isNull(row, name));
  if (missing.length === PARTS.length) return undefined;
  if (missing[0] !== undefined) throw damagedRecord(readText(row, "id"), missing[0]);
  return {
    namespace: readText(row, "namespace"),
    scope: readText(row, "scope"),
    operation: readText(row, "operation"),
    key: readText(row, "key"),
  };
}

function isNull(row: MysqlRow, column: string): boolean {
  return row[column] === null || row[column] === undefined;
}

export function readText(row: MysqlRow, column: string): string {
  return row[column]?.toString("utf8") ?? "";
}

export function readNumber(row: MysqlRow, column: string): number {
  return Number(readText(row, column));
}

/** A time in milliseconds, or NaN if the column contains a number that cannot be a time. */
function readTime(row: MysqlRow, column: string): number {
  const micros = readNumber(row, column);
  return Math.abs(micros) <= LAST_MICROSECOND ? micros / 1_000 : Number.NaN;
}

export function readMillis(row: MysqlRow, column: string): number {
  return readNumber(row, column) / 1_000;
}
