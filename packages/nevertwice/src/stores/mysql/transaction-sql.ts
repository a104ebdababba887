/**
 * The statements that the MySQL store runs on a connection of the application, in its transaction. Each returns at most one
 * row, whose first column is text.
 */
import { stepLine } from "../../core/kept-steps.ts";
import { bytes, NOW_US, STATEMENT_US, short, whole } from "./values.ts";

/** Gone if the work has ended the transaction, by COMMIT or by a statement that commits implicitly, such as DDL. */
export const SAVEPOINT = "SAVEPOINT nevertwice_transaction";
export const RELEASE = "RELEASE SAVEPOINT nevertwice_transaction";

interface RecordOwner {
  readonly id: string;
  readonly token: string;
}

const isOwner = ({ id, token }: RecordOwner) => `id = ${short(id)} AND token = ${short(token)}`;

/**
 * Lets the server end a transaction whose client stays idle for longer than this. MariaDB only; the setting belongs to the
 * session, so `RESTORE_LIMIT` puts the old one back.
 */
export function limitSql(transactionMs: number): string {
  const seconds = whole(Math.max(1, Math.ceil(transactionMs / 1_000)));
  return `SET @nevertwice_idle = @@SESSION.idle_transaction_timeout, SESSION idle_transaction_timeout = ${seconds}`;
}

export const RESTORE_LIMIT = "SET SESSION idle_transaction_timeout = @nevertwice_idle";

/** Locks the record that the token owns. No row if it does not own a pending one. */
export function lockSql(owner: RecordOwner): string {
  return (
    "SELECT 'locked' AS answer FROM nevertwice_records " +
    `WHERE ${isOwner(owner)} AND state = 'pending' AND spent = 0 FOR UPDATE`
  );
}

/** Completes the record if the token owns it. */
export function completeSql(
  owner: RecordOwner,
  given: { readonly outcome: string; readonly retentionMs: number; readonly mark: string },
  isMigrated: boolean,
): string {
  const keptUntil = `${NOW_US} + ${whole(Math.round(given.retentionMs * 1_000))}`;
  return (
    `UPDATE nevertwice_records SET mark = ${short(given.mark)}, state = 'completed', completed_at = ${NOW_US}, ` +
    `outcome = ${bytes(given.outcome)}, retention_ms = ${whole(given.retentionMs)}, kept_until = ${keptUntil}${isMigrated ? ", steps = NULL" : ""} ` +
    `WHERE ${isOwner(owner)} AND state = 'pending'`
  );
}

/** Keeps a step if the token owns the pending record, and the record has no step of this name. */
export function keepStepSql(
  owner: RecordOwner,
  given: { readonly name: string; readonly outcome: string; readonly mark: string },
): string {
  const { start, end } = stepLine(given);
  const hasSteps = "(steps IS NOT NULL AND LEFT(steps, LENGTH(token) + 1) = CONCAT(token, X'0a'))";
  const line = `${bytes(start)}, CONCAT(FLOOR(${NOW_US} / 1000)), ${bytes(end)}`;
  return (
    `UPDATE nevertwice_records SET mark = ${short(given.mark)}, ` +
    `steps = CONCAT(IF(${hasSteps}, steps, CONCAT(token, X'0a')), ${line}) ` +
    `WHERE ${isOwner(owner)} AND state = 'pending' AND spent = 0 ` +
    `AND NOT (${hasSteps} AND LOCATE(${bytes(`\n${start}`)}, steps) > 0)`
  );
}

/** Returns a row if the record has this mark. */
export function isMarkedSql(id: string, mark: string): string {
  return `SELECT 'yes' AS answer FROM nevertwice_records WHERE id = ${short(id)} AND mark = ${short(mark)}`;
}

/** Writes to the pending record without a change of meaning: the end of its lease moves by a microsecond. */
export function touchPendingSql(owner: RecordOwner): string {
  return (
    "UPDATE nevertwice_records SET lease_ends_at = lease_ends_at + 1 " +
    `WHERE ${isOwner(owner)} AND state = 'pending'`
  );
}

/** Fails immediately if another transaction has locked the record. */
export function isFreeSql(id: string): string {
  return `SELECT id FROM nevertwice_records WHERE id = ${short(id)} FOR UPDATE NOWAIT`;
}

/** Ends the connection on which it runs, and so rolls its transaction back. */
export const END_CONNECTION = "KILL CONNECTION_ID()";

const COLUMNS = [
  "id",
  "mark",
  "namespace",
  "scope",
  "operation",
  "`key`",
  "fingerprint",
  "state",
  "token",
  "spent",
  "fence",
  "number",
  "hold",
  "took_over",
  "claimed_at",
  "lease_ms",
  "lease_ends_at",
  "retention_ms",
  "kept_until",
  "completed_at",
  "outcome",
  "steps",
  "history",
] as const;

const ADDED_COLUMNS: readonly string[] = ["steps", "history"];

/** The record and the server's clock as one text, since query builders convert columns in their own ways. */
export function readInsideSql(
  id: string,
  { isLocking, isMigrated }: { readonly isLocking: boolean; readonly isMigrated: boolean },
): string {
  const columns = COLUMNS.map((name) => (ADDED_COLUMNS.includes(name) && !isMigrated ? "NULL" : name));
  return (
    `SELECT ${packed([STATEMENT_US, ...columns])} AS answer ` +
    `FROM nevertwice_records WHERE id = ${short(id)}${isLocking ? " FOR UPDATE" : ""}`
  );
}

export const CLOCK_SQL = `SELECT ${packed([STATEMENT_US])} AS answer`;

/** The row of `readInsideSql` or `CLOCK_SQL`, with its columns as bytes. */
export function toRow(text: string): Record<string, Buffer | null> {
  return unpacked(["now_us", ...COLUMNS], text);
}

/** Values of a row as one text. */
export function packed(values: readonly string[]): string {
  return `CONCAT_WS(',', ${values.map((value) => `IFNULL(HEX(CONCAT(${value})), '-')`).join(", ")})`;
}

/** The row that was packed, with the values as bytes; columns that were not packed are missing. */
export function unpacked(columns: readonly string[], text: string): Record<string, Buffer | null> {
  const names = columns.map((name) => name.replaceAll("`", ""));
  return Object.fromEntries(
    text.split(",").map((hex, index) => [names[index], hex === "-" ? null : Buffer.from(hex, "hex")]),
  );
}
