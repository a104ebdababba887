/**
 * How the MySQL store calls its client, a pool of mysql2/promise. No setting of the pool can change the result of a
 * statement, and a caller can stop waiting for one.
 */
import { NevertwiceError } from "../../core/errors.ts";
import { toStoreError } from "./errors.ts";

interface Queryable {
  query(options: QueryOptions): Promise<readonly unknown[]>;
}

interface QueryOptions {
  readonly sql: string;
  readonly rowsAsArray: false;
  readonly nestTables: false;
  readonly typeCast: (field: { buffer(): Buffer | null }) => Buffer | null;
}

/** The part of a pool of `mysql2/promise` (`createPool`) that is used here. */
export interface MysqlClient extends Queryable {
  getConnection(): Promise<MysqlConnection>;
  /** Calls the listener with each new connection of the pool. */
  on?(event: "connection", listener: (connection: object) => void): unknown;
}

export interface MysqlConnection extends Queryable {
  /** The pool's own connection object. It stays the same, while the pool returns a new wrapper each time. */
  readonly connection?: object;
  /** The server's id for this connection. */
  readonly threadId?: number | null;
  release(): void;
  /** Closes the connection; the pool does not use it again. */
  destroy(): void;
}

/** Columns by name, as the bytes that the server sent. */
export type MysqlRow = Readonly<Record<string, Buffer | null>>;

/** What a statement changed. */
export interface Changed {
  readonly insertId: number;
  readonly affectedRows: number;
}

/** Every column as bytes. Otherwise a pool's own `typeCast` could convert a value into anything. */
const asBytes: QueryOptions["typeCast"] = (field) => field.buffer();

async function query(client: Queryable, sql: string): Promise<unknown> {
  const [result] = await client.query({ sql, rowsAsArray: false, nestTables: false, typeCast: asBytes });
  return result;
}

/** Runs a statement and returns its rows. Throws one of our errors. */
export async function queryRows(client: Queryable, sql: string): Promise<readonly MysqlRow[]> {
  try {
    return (await query(client, sql)) as readonly MysqlRow[];
  } catch (error) {
    throw toStoreError(error);
  }
}

/** Runs a statement that writes. Throws the driver's own error, for the caller to check for a lost race first. */
export async function change(client: Queryable, sql: string): Promise<Changed> {
  const { insertId, affectedRows } = (await query(client, sql)) as Record<keyof Changed, unknown>;
  return { insertId: Number(insertId), affectedRows: Number(affectedRows) };
}

export function isClient(name: string, value: unknown): void {
  const { query: run, getConnection, beginTransaction, promise } = (value ?? {}) as Record<string, unknown>;
  if (typeof beginTransaction === "function" && typeof getConnection !== "function") {
    throw new NevertwiceError(
      "store-unsafe",
      `${name} is a single connection: an open transaction on it would swallow the store's commits. Hand in a pool (createPool).`,
    );
  }
  if (typeof run !== "function" || typeof getConnection !== "function") {
    throw new NevertwiceError("options-invalid", `${name} must be a pool of mysql2/promise.`);
  }
  if (typeof promise === "function") {
    throw new NevertwiceError(
      "options-invalid",
      `${name} is a pool with callbacks: hand in ${name}.promise(), or create it with mysql2/promise.`,
    );
  }
}

/**
 * Settles like `answer`, or rejects with `unavailable` as soon as the signal fires. `onLate` then receives the answer if it
 * still arrives. Without a signal there is no limit.
 */
export function untilAborted<T>(
  answer: Promise<T>,
  signal: AbortSignal | undefined,
  onLate?: (late: T) => void,
): Promise<T> {
  if (signal === undefined) return answer;
  return new Promise((resolve, reject) => {
    const giveUp = () => reject(notAnsweredInTime());
    if (signal.aborted) giveUp();
    else signal.addEventListener("abort", giveUp, { once: true });
    answer.then(
      (value) => {
        signal.removeEventListener("abort", giveUp);
        if (signal.aborted) onLate?.(value);
        else resolve(value);
      },
      (error: unknown) => {
        signal.removeEventListener("abort", giveUp);
        reject(error);
      },
    );
  });
}

function notAnsweredInTime(): NevertwiceError {
  return new NevertwiceError("unavailable", "the store did not answer before its caller cancelled the call.");
}

/** Calls with a signal that fires after `ms`, or when the call fires it. */
export async function withTimeout<T>(
  ms: number,
  call: (signal: AbortSignal, fire: () => void) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const fire = () => controller.abort();
  const timer = setTimeout(fire, ms);
  try {
    return await call(controller.signal, fire);
  } finally {
    clearTimeout(timer);
  }
}
