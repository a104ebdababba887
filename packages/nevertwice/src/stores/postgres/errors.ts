/**
 * What the errors of `pg`, postgres.js and the server mean to the caller. An error that is neither the server's nor the
 * connection's is returned unchanged.
 */
import { isNevertwiceError, NevertwiceError } from "../../core/errors.ts";
import {
  type DriverErrorMeaning,
  type DriverErrorTable,
  isRepeatable,
  translateDriverError,
} from "../driver-errors.ts";

interface PostgresError {
  readonly code?: unknown;
  readonly message?: unknown;
  readonly severity?: unknown;
}

/** The codes and messages that the operating system, `pg`, `pg-pool` and postgres.js use for a missing or lost connection. */
const CONNECTION_CODES =
  /^(E(CONN\w+|PIPE|TIMEDOUT|HOSTUNREACH|HOSTDOWN|NETUNREACH|NETDOWN|AI_AGAIN|NOTFOUND)|CONNECTION_\w+|CONNECT_TIMEOUT)$/;
const CONNECTION_MESSAGES =
  /connection terminated|connection timeout|timeout exceeded when trying to connect|timeout expired|read timeout|not queryable|after calling end|server closed the connection|query_wait_timeout/i;

const LOCK_TIMEOUT = "55P03";
const READ_ONLY = "25006";
const UNREACHABLE: DriverErrorMeaning = { code: "unavailable", says: "it cannot be reached" };
const ENDED: DriverErrorMeaning = { code: "unavailable", says: "it ended the connection" };
const REFUSED: DriverErrorMeaning = {
  code: "store-unsafe",
  says: "it refused a statement of the store; its tables may have been changed by hand",
};
const CONFLICT: DriverErrorMeaning = {
  code: "unavailable",
  says: "the statement conflicted with other statements on the same records, repeatedly",
};

/** By SQLSTATE. */
const TABLE: DriverErrorTable = {
  rules: [
    {
      codes: ["42P01", "42703", "3F000"],
      code: "store-unsafe",
      says: "its tables are missing or lack a column; run migrate()",
    },
    {
      codes: /^28/,
      code: "store-unsafe",
      says: "it refused the credentials; check user, password and pg_hba.conf",
    },
    {
      codes: ["42501"],
      code: "store-unsafe",
      says: "the role may not use the tables; grant it SELECT, INSERT, UPDATE and DELETE on them",
    },
    {
      codes: ["26000", "42P05"],
      code: "store-unsafe",
      says: "this connection does not have a statement that was prepared: a pooler such as PgBouncer shares the server's connections; set prepare: false",
    },
    // The server answered, so the store had checked it: it was the primary until now.
    {
      codes: [READ_ONLY],
      code: "unavailable",
      says: "it is read-only, as a replica or a demoted primary is",
    },
    { codes: ["3D000"], code: "store-unsafe", says: "there is no such database" },
    { codes: ["53100", "53200"], code: "store-full", says: "its disk or memory is full" },
    { codes: ["53300"], code: "unavailable", says: "it has no connection left" },
    { codes: /^53/, code: "unavailable", says: "it is short of resources" },
    { codes: /^57P0/, code: "unavailable", says: "it is shutting down or starting up" },
    {
      codes: ["57014"],
      code: "unavailable",
      says: "the statement was cancelled, by statement_timeout or by a cancel request",
    },
    { codes: ["55000"], code: "store-unsafe", says: "its tables are in an unexpected state" },
    {
      codes: [LOCK_TIMEOUT],
      code: "unavailable",
      says: "another open transaction holds a lock on the record",
      repeat: true,
    },
    { codes: ["40001", "40P01"], ...CONFLICT, repeat: true },
    { codes: /^40/, ...CONFLICT },
    { codes: /^08/, code: "unavailable", says: "the connection failed" },
  ],
  codesOf: (error) => [sqlState(error)],
  otherwise: (error) => (isConnectionLost(error) ? UNREACHABLE : undefined),
  messageOf(says, error) {
    const { message } = error as PostgresError;
    return `Postgres: ${says}${message ? ` (${message})` : ""}.`;
  },
};

const STEP_TABLE: DriverErrorTable = {
  ...TABLE,
  otherwise(error) {
    if (isConnectionLost(error)) return UNREACHABLE;
    if (sqlState(error) === undefined) return undefined;
    return isConnectionOver(error) ? ENDED : REFUSED;
  },
};

export function toStoreError(error: unknown): unknown {
  return translateDriverError(error, TABLE);
}

/**
 * The same for a step of the store. A server that answers with an unknown error has refused the statement, which is
 * `store-unsafe`: only for `unavailable` may a guard be configured to work without the store.
 */
export function toStepError(error: unknown): unknown {
  return translateDriverError(error, STEP_TABLE);
}

/** A deadlock, a serialization failure or a lock timeout: the same call may succeed when it is repeated. */
export function isCollision(error: unknown): boolean {
  return isRepeatable(error, TABLE);
}

/** The server is not the primary, or no longer: another connection may lead to the primary. Takes any of our errors too. */
export function isNotPrimary(error: unknown): boolean {
  return errorState(error) === READ_ONLY;
}

/** The next connection may lead to another server, or the server may have been set right by then. */
export function isReasonToRecheck(error: unknown): boolean {
  return isNevertwiceError(error, "store-unsafe") || isNotPrimary(error);
}

/** `unavailable` if the server was the primary before: then a failover is going on, and the calls may be repeated. */
export function notPrimaryError(says: string, code: "unavailable" | "store-unsafe"): NevertwiceError {
  return new NevertwiceError(code, `Postgres: ${says}.`, { cause: { code: READ_ONLY } });
}

/** The statement waited for a lock for longer than its limit, and changed nothing. */
export function isLockTimeout(error: unknown): boolean {
  const { cause } = (error ?? {}) as { readonly cause?: unknown };
  return sqlState(error) === LOCK_TIMEOUT || (cause !== undefined && isLockTimeout(cause));
}

/** The server's code for an error, always five characters. Codes of the drivers are longer, except `EPIPE`. */
function sqlState(error: unknown): string | undefined {
  const code = (error as PostgresError | null)?.code;
  return typeof code === "string" && /^[0-9A-Z]{5}$/.test(code) && code !== "EPIPE" ? code : undefined;
}

/** Prisma's own codes have the form of a server's code, but say nothing about how a COMMIT ended; except this one. */
const PRISMA_CODE = /^P[1-9]/;
const PRISMA_CONFLICT = "P2034";

/** The server's code for an error, or for the error that caused it: query builders wrap the errors of their drivers. */
export function errorState(error: unknown): string | undefined {
  for (let cause: unknown = error, depth = 0; cause !== undefined && depth < 5; depth++) {
    const state = sqlState(cause);
    if (state === PRISMA_CONFLICT) return "40001";
    if (state !== undefined && !PRISMA_CODE.test(state)) return state;
    cause = (cause as { readonly cause?: unknown } | null)?.cause;
  }
  return undefined;
}

/** After this error, the connection that reported it answers no further statement. */
export function isConnectionOver(error: unknown): boolean {
  const { severity } = (error ?? {}) as PostgresError;
  return severity === "FATAL" || severity === "PANIC" || isConnectionLost(error);
}

function isConnectionLost(error: unknown): boolean {
  const { code, message } = (error ?? {}) as PostgresError;
  if (typeof code === "string" && CONNECTION_CODES.test(code)) return true;
  if (error instanceof AggregateError) return error.errors.some(isConnectionLost);
  return typeof message === "string" && CONNECTION_MESSAGES.test(message);
}
