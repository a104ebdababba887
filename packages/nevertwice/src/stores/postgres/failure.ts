/** What a driver's error means to a caller. One that means nothing here passes as it is: the engine asks again. */
import { isNevertwiceError, NevertwiceError } from "../../core/errors.ts";

interface DriverError {
  readonly code?: unknown;
  readonly message?: unknown;
  readonly severity?: unknown;
}

/** By SQLSTATE: of several that begin a code the first counts. */
const BY_STATE: readonly (readonly [
  state: RegExp,
  code: "store-unsafe" | "store-full" | "unavailable",
  what: string,
])[] = [
  [/^(42P01|42703|3F000)$/, "store-unsafe", "its tables are missing or not as they should be; run migrate()"],
  [/^28/, "store-unsafe", "it refused the credentials; check user, password and pg_hba.conf"],
  [
    /^42501$/,
    "store-unsafe",
    "the role may not use the tables; grant it SELECT, INSERT, UPDATE and DELETE on them",
  ],
  [
    /^(26000|42P05)$/,
    "store-unsafe",
    "a prepared statement is not where it was prepared: a pooler like PgBouncer stands between; set prepare: false",
  ],
  [/^25006$/, "store-unsafe", "it is read-only, as a replica is; connect to the primary"],
  [/^3D000$/, "store-unsafe", "there is no such database"],
  [/^(53100|53200)$/, "store-full", "its disk or memory is full"],
  [/^53300$/, "unavailable", "it has no connection left"],
  [/^53/, "unavailable", "it is short of resources"],
  [/^57P0/, "unavailable", "it is shutting down or starting up"],
  [/^57014$/, "unavailable", "it cancelled the statement, by statement_timeout or by request"],
  [/^55P03$/, "unavailable", "the record is locked by somebody's open transaction"],
  [/^40/, "unavailable", "the statement met others on the same records, again and again"],
  [/^08/, "unavailable", "the connection failed"],
];

/** What the system, `pg`, `pg-pool` and postgres.js call a connection that could not be had or was lost. */
const CONNECTION_CODES =
  /^(E(CONN\w+|PIPE|TIMEDOUT|HOSTUNREACH|HOSTDOWN|NETUNREACH|NETDOWN|AI_AGAIN|NOTFOUND)|CONNECTION_\w+|CONNECT_TIMEOUT)$/;
const CONNECTION_MESSAGES =
  /connection terminated|connection timeout|timeout exceeded when trying to connect|timeout expired|read timeout|not queryable|after calling end|server closed the connection|query_wait_timeout/i;

export function toFailure(error: unknown): unknown {
  if (isNevertwiceError(error)) return error;
  const state = sqlState(error);
  const known = state === undefined ? undefined : BY_STATE.find(([states]) => states.test(state));
  if (known !== undefined) return failure(known[1], known[2], error);
  return isConnectionLost(error) ? failure("unavailable", "it cannot be reached", error) : error;
}

function failure(
  code: "store-unsafe" | "store-full" | "unavailable",
  what: string,
  cause: unknown,
): NevertwiceError {
  const said = (cause as DriverError).message;
  return new NevertwiceError(code, `Postgres: ${what}${said ? ` (${said})` : ""}.`, { cause });
}

/** Five characters, as the server says them; a driver's own codes are longer. */
function sqlState(error: unknown): string | undefined {
  const code = (error as DriverError | null)?.code;
  return typeof code === "string" && /^[0-9A-Z]{5}$/.test(code) && code !== "EPIPE" ? code : undefined;
}

/** No statement will be answered on the connection that this came from. */
export function isConnectionOver(error: unknown): boolean {
  const { severity } = (error ?? {}) as DriverError;
  return severity === "FATAL" || severity === "PANIC" || isConnectionLost(error);
}

function isConnectionLost(error: unknown): boolean {
  const { code, message } = (error ?? {}) as DriverError;
  if (typeof code === "string" && CONNECTION_CODES.test(code)) return true;
  if (error instanceof AggregateError) return error.errors.some(isConnectionLost);
  return typeof message === "string" && CONNECTION_MESSAGES.test(message);
}

/** A deadlock, a serialization failure, or a lock that was waited for long enough: the same call may well succeed. */
export function isCollision(failed: unknown): boolean {
  return (
    isNevertwiceError(failed, "unavailable") && /^(40001|40P01|55P03)$/.test(sqlState(failed.cause) ?? "")
  );
}
