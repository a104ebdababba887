/**
 * Reads the rows of a SQL store and checks every cell. A database can be edited, restored badly or damaged, so no cell is
 * trusted to have its type. A row with a cell that no release writes is reported as unreadable; the other rows are read as
 * usual. Each cell is checked by itself here; consistent-rows.ts and the audit check whether cells agree with each other.
 */
import { NevertwiceError } from "../core/errors.ts";

/** A row that cannot be read, with the first wrong cell. */
export interface UnreadableRow {
  /** The table of the row. */
  readonly table: string;
  /** The row's key in its table. */
  readonly row: string;
  /** The column that cannot be read. */
  readonly column: string;
  /** Why it cannot be read, in words. */
  readonly reason: string;
}

/** A row, or why it cannot be read. */
export type Readable<Row> = { readonly row: Row } | { readonly unreadable: UnreadableRow };

/** Returns a decoded cell: a string, a number or null. Any other value is a wrong type. */
export type CellReader = (column: string) => unknown;

/** Reads the cells of one row. Each method throws a `WrongCell` if the cell is not valid. */
export interface Cells {
  text(column: string, maxBytes?: number): string;
  /** Undefined if the cell is null. */
  optionalText(column: string): string | undefined;
  /** A safe integer of at least `least`. */
  whole(column: string, least: number): number;
  optionalWhole(column: string, least: number): number | undefined;
  /** Milliseconds since 1970, up to the latest date of JavaScript. */
  time(column: string): number;
  optionalTime(column: string): number | undefined;
  flag(column: string): boolean;
  oneOf<Value extends string>(column: string, values: readonly Value[]): Value;
  /** Text that matches the pattern; `form` describes the pattern in the message. */
  matching(column: string, pattern: RegExp, form: string): string;
  json(column: string): unknown;
  /** Throws a `WrongCell`. */
  wrong(column: string, reason: string): never;
}

class WrongCell extends Error {
  readonly column: string;
  constructor(column: string, reason: string) {
    super(reason);
    this.name = "WrongCell";
    this.column = column;
  }
}

/** The latest date of JavaScript. Formatting a later one throws. */
const MAX_TIME_MS = 8_640_000_000_000_000;
const WHOLE = /^-?\d{1,16}$/;

function shorten(value: unknown): string {
  const text = typeof value === "string" ? JSON.stringify(value) : String(value);
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}

/** A class, because closures for each row cost more than reading it. */
class RowCells implements Cells {
  private readonly cell: CellReader;
  constructor(cell: CellReader) {
    this.cell = cell;
  }

  wrong(column: string, reason: string): never {
    throw new WrongCell(column, reason);
  }

  text(column: string, maxBytes = Number.POSITIVE_INFINITY): string {
    const value = this.cell(column);
    if (typeof value !== "string") return this.wrong(column, `it is ${shorten(value)}; it must be text`);
    if (!value.isWellFormed()) this.wrong(column, "it is text with a lone surrogate");
    // Count bytes only if there may be too many: a UTF-16 unit has at most three bytes.
    if (value.length * 3 > maxBytes && Buffer.byteLength(value) > maxBytes)
      this.wrong(column, `it has ${Buffer.byteLength(value)} bytes; the maximum is ${maxBytes}`);
    return value;
  }

  optionalText(column: string): string | undefined {
    return this.cell(column) === null ? undefined : this.text(column);
  }

  whole(column: string, least: number, most = Number.MAX_SAFE_INTEGER): number {
    const value = this.cell(column);
    const whole = typeof value === "string" && WHOLE.test(value) ? Number(value) : value;
    if (!Number.isSafeInteger(whole) || (whole as number) < least || (whole as number) > most)
      this.wrong(column, `it is ${shorten(value)}; it must be a whole number from ${least} to ${most}`);
    return whole as number;
  }

  optionalWhole(column: string, least: number): number | undefined {
    return this.cell(column) === null ? undefined : this.whole(column, least);
  }

  time(column: string): number {
    return this.whole(column, 0, MAX_TIME_MS);
  }

  optionalTime(column: string): number | undefined {
    return this.cell(column) === null ? undefined : this.time(column);
  }

  flag(column: string): boolean {
    const value = String(this.cell(column));
    if (value === "1" || value === "true") return true;
    if (value === "0" || value === "false") return false;
    return this.wrong(column, `it is ${shorten(this.cell(column))}; it must be true or false`);
  }

  oneOf<Value extends string>(column: string, values: readonly Value[]): Value {
    const value = this.text(column);
    if (!(values as readonly string[]).includes(value))
      this.wrong(column, `it is ${shorten(value)}; it must be one of ${values.join(", ")}`);
    return value as Value;
  }

  matching(column: string, pattern: RegExp, form: string): string {
    const value = this.text(column);
    if (!pattern.test(value)) this.wrong(column, `it is ${shorten(value)}; it must be ${form}`);
    return value;
  }

  json(column: string): unknown {
    const value = this.text(column);
    try {
      return JSON.parse(value);
    } catch {
      return this.wrong(column, `it is ${shorten(value)}, which is not JSON`);
    }
  }
}

export interface RowSource {
  readonly table: string;
  /** The key columns, for the report. Their cells may be damaged too. */
  readonly names: readonly string[];
  readonly cell: CellReader;
}

export function readRow<Row>({ table, names, cell }: RowSource, read: (cells: Cells) => Row): Readable<Row> {
  try {
    return { row: read(new RowCells(cell)) };
  } catch (error) {
    if (!(error instanceof WrongCell)) throw error;
    const { column, message: reason } = error;
    return {
      unreadable: { table, row: names.map((name) => readRowName(cell, name)).join(" "), column, reason },
    };
  }
}

function readRowName(cell: CellReader, column: string): string {
  try {
    return String(cell(column));
  } catch (error) {
    if (error instanceof WrongCell) return "?";
    throw error;
  }
}

/** For a cell reader that cannot decode a value. */
export function wrongCell(column: string, reason: string): Error {
  return new WrongCell(column, reason);
}

export function unreadableText({ table, row, column, reason }: UnreadableRow): string {
  return `${table}, row ${row}, column ${column}: ${reason}`;
}

/** The error for a caller that reads this row. */
export function unreadableError(unreadable: UnreadableRow): NevertwiceError {
  return new NevertwiceError(
    "store-unsafe",
    `a stored row cannot be read: ${unreadableText(unreadable)}. Restore the row from a backup; the audit lists all such rows.`,
  );
}

/** The row; throws `store-unsafe` if it cannot be read. */
export function requireReadable<Row>(read: Readable<Row>): Row {
  if ("unreadable" in read) throw unreadableError(read.unreadable);
  return read.row;
}

/** Separates the rows that can be read from those that cannot. */
export function separateUnreadable<Row>(all: readonly Readable<Row>[]): {
  readonly rows: readonly Row[];
  readonly unreadable?: readonly UnreadableRow[];
} {
  const rows: Row[] = [];
  const unreadable: UnreadableRow[] = [];
  for (const each of all)
    if ("unreadable" in each) unreadable.push(each.unreadable);
    else rows.push(each.row);
  return unreadable.length === 0 ? { rows } : { rows, unreadable };
}

/** A page of rows. `rows` has one row more than the limit if there is a next page; `toPosition` gives the value of `next`. */
export function toPage<DriverRow, Row>(
  rows: readonly DriverRow[],
  limit: number,
  read: (row: DriverRow) => Readable<Row>,
  toPosition: (last: DriverRow) => string,
) {
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const page = separateUnreadable(shown.map(read));
  return rows.length > limit && last !== undefined ? { ...page, next: toPosition(last) } : page;
}

/** The result of a store's `get`; `read` is undefined if there is no row. */
export function toFoundCommitment<Row>(read: Readable<Row> | undefined, now: number) {
  if (read === undefined) return { commitment: undefined, now };
  if ("unreadable" in read) return { commitment: undefined, unreadable: read.unreadable, now };
  return { commitment: read.row, now };
}
