/**
 * The statements of reservations on SQLite, and the conditions of a page. No statement decides anything: decision.ts does,
 * between the reads and the writes of one transaction. Values are bound by plain question marks, because better-sqlite3
 * treats a numbered one as a name.
 */
import type { SqliteRow, SqlValue } from "../stores/sqlite/client.ts";
import { fromPosition, toColumn, toPosition } from "./sqlite/rows.ts";
import { COMMITMENTS, KEYS, type TableShape } from "./sqlite/schema.ts";

function select({ table, columns }: TableShape, ...conditions: readonly string[]): string {
  return `SELECT ${columns.join(", ")} FROM ${table} WHERE ${conditions.join(" AND ")}`;
}

/** Selects the row with this key. */
export function find(shape: TableShape): string {
  return select(shape, ...shape.key.map((column) => `${column} = ?`));
}

/** Selects a page of rows, sorted by key. Bound to the namespace, the values of the conditions, and the limit. */
export function page(shape: TableShape, ...conditions: readonly string[]): string {
  return `${select(shape, "namespace = ?", ...conditions)} ORDER BY ${shape.key.slice(1).join(", ")} LIMIT ?`;
}

/** Inserts a row, or updates the columns that may change. In an append-only table an existing row is an error. */
export function write({ table, columns, key, changing }: TableShape): string {
  const insert = `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`;
  if (changing.length === 0) return insert;
  const changes = changing.map((column) => `${column} = excluded.${column}`).join(", ");
  return `${insert} ON CONFLICT (${key.join(", ")}) DO UPDATE SET ${changes}`;
}

/** A literal, not a parameter: SQLite uses the partial indexes on holds only for this exact condition. */
export const IS_HELD = "state = 'held'";

/** Selects holds of a resource whose time is over, oldest first. Bound to namespace, resource, now and the limit. */
export const ELAPSED_OF_RESOURCE = `${select(COMMITMENTS, "namespace = ?", "resource = ?", IS_HELD, "expires_at <= ?")}
  ORDER BY expires_at LIMIT ?`;

const ELAPSED_ALL = `SELECT id FROM ${COMMITMENTS.table}
  WHERE namespace = ? AND ${IS_HELD} AND expires_at <= ? AND typeof(id) = 'text'`;

/** Selects ids of all holds whose time is over, oldest first. Bound to namespace, now and the limit. A damaged id that is not text is left out. */
export const ELAPSED = `${ELAPSED_ALL} ORDER BY expires_at, rowid LIMIT ?`;

/** The same after a given hold. Bound to namespace, now, the namespace and id of that hold, and the limit. */
export const ELAPSED_AFTER = `${ELAPSED_ALL} AND (expires_at, rowid) >
    (SELECT expires_at, rowid FROM ${COMMITMENTS.table} WHERE namespace = ? AND id = ?)
  ORDER BY expires_at, rowid LIMIT ?`;

/** Whether there are keys to purge, checked before the write lock is taken. Bound to now. */
export const HAS_PURGEABLE = `SELECT 1 FROM ${KEYS.table} WHERE kept_until <= ? LIMIT 1`;

/** Deletes keys past their time. Bound to now and the limit. */
export const PURGE = `DELETE FROM ${KEYS.table}
  WHERE rowid IN (SELECT rowid FROM ${KEYS.table} WHERE kept_until <= ? ORDER BY kept_until LIMIT ?)`;

/** A condition of a page with its bound values; undefined if the caller did not ask for it. */
export type PageCondition = readonly [sql: string, ...values: SqlValue[]] | undefined;

export function equals(column: string, value: string | undefined, encode = toColumn): PageCondition {
  return value === undefined ? undefined : [`${column} = ?`, encode(value)];
}

/** Rows after a position, which `toPosition` wrote. */
export function after(column: string, position: string | undefined): PageCondition {
  return position === undefined ? undefined : [`${column} > ?`, fromPosition(position)];
}

/** The position of a row in a page: its key within the namespace. */
export function namePosition({ columns, key }: TableShape): (row: SqliteRow) => string {
  const index = columns.indexOf(key[1] as string);
  return (row) => toPosition(row[index]);
}

/**
 * The position of an event: its number, then its subject, which may be any text. A damaged number is written in
 * hexadecimal, so that the next page can still start after it.
 */
export function eventPosition([, subject, number]: SqliteRow): string {
  return `${numberPosition(number)} ${toPosition(subject)}`;
}

function numberPosition(number: unknown): string {
  if (typeof number === "bigint" || Number.isInteger(number)) return String(number);
  if (number instanceof Uint8Array) return `bytes:${Buffer.from(number).toString("hex")}`;
  return `text:${Buffer.from(String(number)).toString("hex")}`;
}

/** Events after a position, of one subject or of all. */
export function afterEvent(subject: string | undefined, position: string | undefined): PageCondition {
  if (position === undefined) return undefined;
  const [numberText = ""] = position.split(" ", 1);
  const [bound, number] = fromNumberPosition(numberText);
  if (subject !== undefined) return [`number > ${bound}`, number];
  return [`(subject, number) > (?, ${bound})`, fromPosition(position.slice(numberText.length + 1)), number];
}

function fromNumberPosition(text: string): readonly [bound: string, value: SqlValue] {
  const [kind, hex] = text.split(":");
  if (hex === undefined) return ["CAST(? AS INTEGER)", text];
  const bytes = Buffer.from(hex, "hex");
  return ["?", kind === "bytes" ? bytes : bytes.toString()];
}
