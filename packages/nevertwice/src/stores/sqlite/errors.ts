/**
 * What SQLite's errors mean to the caller, and how errors cross the thread boundary. Only a lock that another connection
 * holds, and a closed database, are `unavailable`. Every other error of SQLite that is not in the table is `store-unsafe`.
 * An error that did not come from SQLite is returned unchanged.
 */
import { type ErrorCode, isNevertwiceError, NevertwiceError } from "../../core/errors.ts";
import {
  type DriverErrorRule,
  type DriverErrorTable,
  driverMessage,
  isRepeatable,
  translateDriverError,
} from "../driver-errors.ts";

/** SQLite's primary result codes. better-sqlite3 reports their names, the other drivers their numbers. */
const RESULT = {
  ERROR: 1,
  PERM: 3,
  BUSY: 5,
  LOCKED: 6,
  NOMEM: 7,
  READONLY: 8,
  INTERRUPT: 9,
  IOERR: 10,
  CORRUPT: 11,
  FULL: 13,
  CANTOPEN: 14,
  PROTOCOL: 15,
  TOOBIG: 18,
  CONSTRAINT: 19,
  MISMATCH: 20,
  AUTH: 23,
  RANGE: 25,
  NOTADB: 26,
} as const;

/** Rules by message. SQLite reports all of these with the code ERROR, and some drivers with no code. */
const BY_MESSAGE: readonly (DriverErrorRule & { readonly text: RegExp })[] = [
  {
    text: /within a transaction/,
    code: "store-unsafe",
    says: "the connection has an open transaction, and its ROLLBACK would undo answered calls; end it first, or give the store a separate connection.",
  },
  {
    text: /no such table/,
    code: "store-unsafe",
    says: "a table of the store was dropped while the store was open; restore the file from a backup, or restart this process to start with empty tables: then completed work runs again.",
  },
  {
    text: /no such column|has no column named|no such index/,
    code: "store-unsafe",
    says: "a table of the store was changed by hand and lacks a column or an index; undo that change, restore the file from a backup, or use another file.",
  },
  {
    text: /is not open|is closed|been finalized/,
    code: "unavailable",
    says: "the database that the store was given is closed.",
  },
];

const BY_NUMBER: readonly DriverErrorRule[] = [
  {
    codes: [RESULT.PERM],
    code: "store-unsafe",
    says: "this process has no permission to use the SQLite file; allow it to read and write the file.",
  },
  {
    codes: [RESULT.BUSY],
    code: "unavailable",
    says: "another connection kept the SQLite file locked for too long; look for long transactions on it.",
    repeat: true,
  },
  {
    codes: [RESULT.LOCKED],
    code: "unavailable",
    says: "another statement of this connection keeps the table locked.",
  },
  { codes: [RESULT.NOMEM], code: "store-full", says: "SQLite has no memory left." },
  {
    codes: [RESULT.READONLY],
    code: "store-unsafe",
    says: "the SQLite file is read-only; allow this process to write the file and its folder, or use another file.",
  },
  {
    codes: [RESULT.INTERRUPT],
    code: "unavailable",
    says: "another part of the application interrupted the SQLite connection.",
  },
  {
    codes: [RESULT.IOERR],
    code: "store-unsafe",
    says: "reading or writing the SQLite file failed on disk; check the disk and its file system.",
  },
  {
    codes: [RESULT.CORRUPT],
    code: "store-unsafe",
    says: "the SQLite file is damaged; restore it from a backup.",
  },
  {
    codes: [RESULT.FULL],
    code: "store-full",
    says: "the disk is full, or the SQLite file has reached its size limit.",
  },
  {
    codes: [RESULT.CANTOPEN],
    code: "store-unsafe",
    says: "the SQLite file cannot be opened; its folder must exist, and this process must be allowed to use both.",
  },
  {
    codes: [RESULT.PROTOCOL],
    code: "unavailable",
    says: "SQLite could not agree with other processes on the locks of the file.",
  },
  { codes: [RESULT.TOOBIG], code: "options-invalid", says: "a string is longer than this SQLite can store." },
  {
    codes: [RESULT.AUTH],
    code: "store-unsafe",
    says: "the connection's authorizer forbids a statement of the store.",
  },
  {
    codes: [RESULT.NOTADB],
    code: "store-unsafe",
    says: "the file is not a SQLite database, or it is encrypted; use another file.",
  },
];

const TABLE: DriverErrorTable = {
  // An error without a code is matched as ERROR: its message is all there is.
  rules: [...BY_MESSAGE.map((rule) => ({ ...rule, codes: [RESULT.ERROR] })), ...BY_NUMBER],
  codesOf: (error) => [resultCode(error) ?? RESULT.ERROR],
  textOf: String,
  otherwise: (error) =>
    resultCode(error) === undefined
      ? undefined
      : {
          code: "store-unsafe",
          says: `SQLite refused a statement of the store; its tables may have been changed by hand (${driverMessage(error)}).`,
        },
  messageOf: (says) => says,
};

/** SQLite's primary result code, or undefined for an error that is not SQLite's. */
function resultCode(error: unknown): number | undefined {
  const { errcode, code } = error as { errcode?: unknown; code?: unknown };
  if (typeof errcode === "number") return errcode & 0xff;
  const name = typeof code === "string" ? /^SQLITE_([A-Z]+)/.exec(code)?.[1] : undefined;
  return name === undefined
    ? undefined
    : ((RESULT as Readonly<Record<string, number>>)[name] ?? RESULT.ERROR);
}

/** Translates an error of the driver; returns one that is not SQLite's unchanged. */
export function toStoreError(error: unknown): unknown {
  return translateDriverError(error, TABLE);
}

/** Another connection holds the lock. */
export function isBusy(error: unknown): boolean {
  return isRepeatable(error, TABLE);
}

/** A row contains an integer that the driver cannot return as a number. The store writes no such integer. */
export function isNumberTooLarge(error: unknown): boolean {
  return /too large to be represented/.test(String(error));
}

/** True for a COMMIT that certainly wrote nothing. After any other failure, such as a failed flush, it may have written. */
export function hasWrittenNothing(error: unknown): boolean {
  const result = resultCode(error);
  return result === RESULT.BUSY || result === RESULT.FULL;
}

/** Errors of a single statement that leave its transaction open. */
const OF_ONE_STATEMENT: ReadonlySet<number> = new Set([
  RESULT.TOOBIG,
  RESULT.CONSTRAINT,
  RESULT.MISMATCH,
  RESULT.RANGE,
]);

/** True if only this call failed: its statement changed nothing, and the transaction around it can continue. */
export function affectsOneCall(error: unknown): boolean {
  const result = resultCode(error);
  if (result === undefined) return !BY_MESSAGE.some(({ text }) => text.test(String(error)));
  return OF_ONE_STATEMENT.has(result);
}

/** An error in the form that is sent between threads. The structured clone of an Error would keep little more than its message. */
export interface CopiedError {
  readonly message: string;
  readonly code: string | undefined;
  readonly errcode: number | undefined;
  readonly isOurs: boolean;
  readonly cause: CopiedError | undefined;
}

export function copyError(error: unknown): CopiedError {
  const { message, code, errcode, cause } = error as Partial<Record<string, unknown>>;
  const isOurs = isNevertwiceError(error);
  return {
    // The constructor of our errors writes the code in front of the message again.
    message: isOurs ? error.message.slice(error.code.length + 2) : String(message ?? error),
    code: typeof code === "string" ? code : undefined,
    errcode: typeof errcode === "number" ? errcode : undefined,
    isOurs,
    cause: cause === undefined ? undefined : copyError(cause),
  };
}

export function restoreError({ message, code, errcode, isOurs, cause }: CopiedError): Error {
  const options = cause === undefined ? {} : { cause: restoreError(cause) };
  if (isOurs) return new NevertwiceError(code as ErrorCode, message, options);
  return Object.assign(new Error(message, options), code && { code }, errcode && { errcode });
}
