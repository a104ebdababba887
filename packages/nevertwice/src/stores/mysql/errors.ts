/**
 * What the errors of mysql2 and of the server mean to the caller. Only a server that cannot be reached, or is too busy, is
 * `unavailable`. Every other error that the server itself reported means that it refused a statement: `store-unsafe`.
 */
import { NevertwiceError } from "../../core/errors.ts";
import {
  CONNECTION_CODES,
  type DriverErrorRule,
  type DriverErrorTable,
  isRepeatable,
  translateDriverError,
} from "../driver-errors.ts";

const CREDENTIALS =
  "The server refused the pool's user: check its name, password and grants on this database.";
const READ_ONLY = "The server is read-only, as a replica is: hand in a pool of the primary.";
const TABLES =
  "The tables do not exist. Run migrate() once, or the output of migrationSql(), in the database that the pool uses.";
const COLUMNS =
  "A table of the store lacks a column: it was changed by hand, or created by something else. Undo that, or drop the table and run migrate() to start with an empty one.";
const ROW_LOGGING =
  "The server's binary log has binlog_format = STATEMENT, which allows no transaction at READ COMMITTED: set it to ROW or MIXED.";
const FULL = "The server has no room left, on disk or in memory.";
const UNREACHABLE = "The server cannot be reached, or is too busy.";
const LOCKED =
  "Another transaction kept the record locked, or the server ended the statement to resolve a deadlock.";
const REFUSED = "The server refused a statement of the store: its tables may have been changed by hand.";

const READ_ONLY_NUMBERS = [1290, 1792, 1836];
const DEADLOCK = 1213;
const DUPLICATE = 1062;
const LOCK_TAKEN = [1205, 3572];

/** By errno of the server, and by code or message of mysql2. */
const RULES: readonly DriverErrorRule[] = [
  // A duplicate key, a row changed by another statement: nothing was written.
  { codes: [1020, 1062], code: "store-unsafe", says: REFUSED, repeat: true },
  // A lock that was waited for too long, a deadlock: nothing was written.
  { codes: [1205, DEADLOCK], code: "unavailable", says: LOCKED, repeat: true },
  {
    codes: [1044, 1045, 1130, 1142, 1143, 1227, 1251, 1698, "AUTH_SWITCH_PLUGIN_ERROR"],
    code: "store-unsafe",
    says: CREDENTIALS,
  },
  { codes: [1046], code: "store-unsafe", says: "The pool names no database: set one." },
  { codes: [1049], code: "store-unsafe", says: "The pool's database does not exist." },
  { codes: [1054], code: "store-unsafe", says: COLUMNS },
  { codes: [1146], code: "store-unsafe", says: TABLES },
  { codes: [1665], code: "store-unsafe", says: ROW_LOGGING },
  { codes: READ_ONLY_NUMBERS, code: "store-unsafe", says: READ_ONLY },
  { codes: [1021, 1037, 1038, 1041, 1114], code: "store-full", says: FULL },
  // Shutting down, too many connections, killed, timed out, or a node of a cluster that is not ready.
  {
    codes: [1040, 1047, 1053, 1129, 1180, 1203, 1226, 1317, 1927, 1969, 3024, 4031],
    code: "unavailable",
    says: UNREACHABLE,
  },
  { codes: CONNECTION_CODES, code: "unavailable", says: UNREACHABLE },
  { codes: /^(PROTOCOL_|POOL_CLOSED|HANDSHAKE_)/, code: "unavailable", says: UNREACHABLE },
  {
    text: /^(Pool is closed|No connections available|Queue limit reached)|connection is in closed state/,
    code: "unavailable",
    says: UNREACHABLE,
  },
];

interface MysqlError {
  readonly errno?: unknown;
  readonly code?: unknown;
  readonly cause?: unknown;
  /** Present on errors that the server itself reported. */
  readonly sqlState?: unknown;
}

const TABLE: DriverErrorTable = {
  rules: RULES,
  codesOf(error) {
    const { errno, code } = (error ?? {}) as MysqlError;
    return [Number(errno), code];
  },
  otherwise: (error) =>
    (error as MysqlError | null)?.sqlState === undefined
      ? undefined
      : { code: "store-unsafe", says: REFUSED },
};

/** Translates an error of the driver; returns one that neither the server nor the connection caused unchanged. */
export function toStoreError(error: unknown): unknown {
  return translateDriverError(error, TABLE);
}

/** Another call was faster: nothing was written, and the step has to be decided again. */
export function isOvertaken(error: unknown): boolean {
  return isRepeatable(error, TABLE);
}

/** The server does not accept writes: it is a replica, or a primary that was demoted. */
export function isReadOnly(error: unknown): boolean {
  const { errno, cause } = (error ?? {}) as MysqlError;
  return READ_ONLY_NUMBERS.includes(Number(errno)) || (cause !== undefined && isReadOnly(cause));
}

/** The server rolled back the whole transaction so that another one could continue: retry it immediately. */
export function isDeadlock(error: unknown): boolean {
  const { errno, cause } = (error ?? {}) as MysqlError;
  return errno === DEADLOCK || (cause !== undefined && isDeadlock(cause));
}

/** A lock that was not free, or not in time: MariaDB, and MySQL with NOWAIT. The statement changed nothing. */
export function isLockTaken(error: unknown): boolean {
  const { errno, cause } = (error ?? {}) as MysqlError;
  return LOCK_TAKEN.includes(Number(errno)) || (cause !== undefined && isLockTaken(cause));
}

/** The row exists already. */
export function isDuplicateRow(error: unknown): boolean {
  const { errno, cause } = (error ?? {}) as MysqlError;
  return errno === DUPLICATE || (cause !== undefined && isDuplicateRow(cause));
}

/**
 * The column or index exists already: an earlier migration crashed after creating it, or runs on another node of a Galera
 * cluster, where GET_LOCK is local to a node.
 */
export function isDuplicateChange(error: unknown): boolean {
  return [1060, 1061].includes(Number((error as MysqlError | null)?.errno));
}

export function readOnlyError(): NevertwiceError {
  return new NevertwiceError("store-unsafe", READ_ONLY);
}

export function missingTablesError(cause?: unknown): NevertwiceError {
  return new NevertwiceError("store-unsafe", TABLES, { cause });
}
