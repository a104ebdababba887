/** What a failure of SQLite means to the caller: full, unsafe, unavailable, or none of these, and then it stays as it is. */
import { type ErrorCode, NevertwiceError } from "../../core/errors.ts";

const ERROR = 1;
const BUSY = 5;
const FULL = 13;
const TOO_BIG = 18;
const CONSTRAINT = 19;
const MISMATCH = 20;
const RANGE = 25;

/** SQLite's primary result codes, by the names that better-sqlite3 gives instead of numbers. */
const NUMBERS: Readonly<Record<string, number>> = {
  ERROR,
  PERM: 3,
  BUSY,
  LOCKED: 6,
  READONLY: 8,
  IOERR: 10,
  CORRUPT: 11,
  FULL,
  CANTOPEN: 14,
  PROTOCOL: 15,
  TOOBIG: TOO_BIG,
  CONSTRAINT,
  MISMATCH,
  AUTH: 23,
  RANGE,
  NOTADB: 26,
};

const MEANINGS: Readonly<Record<number, readonly [code: ErrorCode, message: string]>> = {
  3: ["store-unsafe", "SQLite may not use the file; give this process the right to read and write it."],
  [BUSY]: [
    "unavailable",
    "another connection kept the SQLite file locked for too long; look for long transactions in it.",
  ],
  6: ["unavailable", "another statement of this connection keeps the table locked."],
  8: [
    "store-unsafe",
    "the SQLite file is read-only; give this process the right to write it and its folder, or give another file.",
  ],
  11: ["store-unsafe", "the SQLite file is damaged; restore it from a backup."],
  [FULL]: ["store-full", "the disk of the SQLite file, or the file's own limit, is full."],
  14: [
    "store-unsafe",
    "the SQLite file cannot be opened; its folder must exist, and this process must have the right to use both.",
  ],
  15: ["unavailable", "SQLite could not agree with other processes on who may use the file."],
  23: ["store-unsafe", "SQLite may not do what was asked; the connection's authorizer forbids it."],
  26: ["store-unsafe", "the file is no SQLite database, or an encrypted one; give another file."],
};

/** What a statement fails with while its transaction goes on. */
const OF_ONE_CALL: ReadonlySet<number> = new Set([TOO_BIG, CONSTRAINT, MISMATCH, RANGE]);

/** By message, where SQLite has one number for everything. */
const MESSAGES: readonly (readonly [pattern: RegExp, code: ErrorCode, message: string])[] = [
  [
    /within a transaction/,
    "store-unsafe",
    "the connection has an open transaction, and its ROLLBACK would undo what was answered; end it first, or give the store a connection of its own.",
  ],
  [
    /no such (table|column)/,
    "store-unsafe",
    "the store's tables were changed or removed while it was open; restore them, or open the store anew.",
  ],
  [/is not open|is closed|been finalized/, "unavailable", "the database that the store was given is closed."],
];

/** SQLite's primary result code, or undefined for an error that is not SQLite's. */
function resultCodeOf(error: unknown): number | undefined {
  const { errcode, code } = error as { errcode?: unknown; code?: unknown };
  if (typeof errcode === "number") return errcode & 0xff;
  const name = typeof code === "string" ? /^SQLITE_([A-Z]+)/.exec(code)?.[1] : undefined;
  return name === undefined ? undefined : NUMBERS[name];
}

export function isBusy(error: unknown): boolean {
  return resultCodeOf(error) === BUSY;
}

/** A COMMIT that failed like this has written nothing. Of any other, such as a flush that failed, nobody knows. */
export function isUndone(error: unknown): boolean {
  const result = resultCodeOf(error);
  return result === BUSY || result === FULL;
}

/** An error of this one call: its statement changed nothing, and the transaction around it goes on. */
export function isOfOneCall(error: unknown): boolean {
  const result = resultCodeOf(error);
  if (result === undefined) return !MESSAGES.some(([pattern]) => pattern.test(String(error)));
  return OF_ONE_CALL.has(result);
}

/** The error in our words, with the driver's as its cause; one that says nothing we know is handed on untouched. */
export function toStoreError(error: unknown): unknown {
  if (error instanceof NevertwiceError) return error;
  const result = resultCodeOf(error);
  const byMessage = MESSAGES.find(([pattern]) => pattern.test(String(error)));
  if (byMessage !== undefined && (result === undefined || result === ERROR))
    return new NevertwiceError(byMessage[1], byMessage[2], { cause: error });
  const meaning = result === undefined ? undefined : MEANINGS[result];
  return meaning === undefined ? error : new NevertwiceError(...meaning, { cause: error });
}
