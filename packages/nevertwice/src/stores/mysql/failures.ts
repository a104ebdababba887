/** What the driver's and the server's errors mean to a guard. Whatever is not here passes as it is. */
import { type ErrorCode, isNevertwiceError, NevertwiceError } from "../../core/errors.ts";

const MIGRATE = "Run migrate() once, or what migrationSql() prints, in the database that the pool uses.";
const CREDENTIALS =
  "The server refused the pool's user: check its name, password and grants on this database.";
const READ_ONLY = "The server is read-only, as a replica is: hand in a pool of the primary.";
const TABLES = `The tables are not there, or not as this version needs them. ${MIGRATE}`;
const ROW_LOGGING =
  "The server's binary log has binlog_format = STATEMENT, which takes no transaction at READ COMMITTED: set it to ROW or MIXED.";
const FULL = "The server has no room left, on disk or in memory.";
const UNREACHABLE = "The server cannot be reached.";

const UNSAFE: Readonly<Record<number, string>> = {
  1044: CREDENTIALS,
  1045: CREDENTIALS,
  1130: CREDENTIALS,
  1142: CREDENTIALS,
  1143: CREDENTIALS,
  1227: CREDENTIALS,
  1251: CREDENTIALS,
  1698: CREDENTIALS,
  1046: "The pool names no database: give it one.",
  1049: "The pool's database does not exist.",
  1054: TABLES,
  1146: TABLES,
  1290: READ_ONLY,
  1665: ROW_LOGGING,
  1792: READ_ONLY,
  1836: READ_ONLY,
};

const FULL_NUMBERS = [1021, 1037, 1038, 1041, 1114];

/** Shutting down, too many connections, killed, timed out, a cluster's node that is not ready, a deadlock. */
const UNAVAILABLE_NUMBERS = [1040, 1047, 1053, 1129, 1203, 1205, 1213, 1226, 1317, 1927, 1969, 3024, 4031];
const UNAVAILABLE_CODE =
  /^(E(CONN|PIPE|TIMEDOUT|NOTFOUND|AI_AGAIN|HOST|NET)|PROTOCOL_|POOL_CLOSED|HANDSHAKE_)/;
const UNAVAILABLE_MESSAGE =
  /^(Pool is closed|No connections available|Queue limit reached)|connection is in closed state/;

interface DriverError {
  readonly errno?: unknown;
  readonly code?: unknown;
  readonly message?: unknown;
}

export function failure(error: unknown): unknown {
  if (isNevertwiceError(error)) return error;
  const { errno, code, message } = (error ?? {}) as DriverError;
  const as = (ours: ErrorCode, text: string) =>
    new NevertwiceError(ours, `${text} (${String(message)})`, { cause: error });
  const unsafe = UNSAFE[Number(errno)];
  if (unsafe !== undefined) return as("store-unsafe", unsafe);
  if (code === "AUTH_SWITCH_PLUGIN_ERROR") return as("store-unsafe", CREDENTIALS);
  if (FULL_NUMBERS.includes(Number(errno))) return as("store-full", FULL);
  if (
    UNAVAILABLE_NUMBERS.includes(Number(errno)) ||
    UNAVAILABLE_CODE.test(String(code ?? "")) ||
    UNAVAILABLE_MESSAGE.test(String(message ?? ""))
  ) {
    return as("unavailable", UNREACHABLE);
  }
  return error;
}

/** A duplicate key, a deadlock, a lock that was waited for too long, a row changed under us: nothing was written. */
const OVERTAKEN_NUMBERS = [1020, 1062, 1205, 1213];

export function isOvertaken(error: unknown): boolean {
  return OVERTAKEN_NUMBERS.includes(Number((error as DriverError | null)?.errno));
}

/** The server rolled back all of the transaction, so that another one could go on: it may be tried again at once. */
export function isDeadlock(error: unknown): boolean {
  const { errno, cause } = (error ?? {}) as DriverError & { readonly cause?: unknown };
  return errno === 1213 || (cause !== undefined && isDeadlock(cause));
}

/** The index is there already: a migration crashed after it had made it. */
export function isThereAlready(error: unknown): boolean {
  return Number((error as DriverError | null)?.errno) === 1061;
}

export function missingTables(cause?: unknown): NevertwiceError {
  return new NevertwiceError("store-unsafe", TABLES, { cause });
}
