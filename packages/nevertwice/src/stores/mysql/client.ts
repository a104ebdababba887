/** What the MySQL store needs of its client: a pool of mysql2/promise, asked so that no setting of it matters. */
import { NevertwiceError } from "../../core/errors.ts";
import { failure } from "./failures.ts";

interface Queryable {
  query(options: QueryOptions): Promise<readonly unknown[]>;
}

interface QueryOptions {
  readonly sql: string;
  readonly rowsAsArray: false;
  readonly nestTables: false;
  readonly typeCast: (field: { buffer(): Buffer | null }) => Buffer | null;
}

/** A pool as `createPool` of `mysql2/promise` makes it. */
export interface MysqlClient extends Queryable {
  getConnection(): Promise<MysqlConnection>;
}

export interface MysqlConnection extends Queryable {
  release(): void;
  /** It is closed and not used again. */
  destroy(): void;
}

/** Columns by name, as the bytes that the server sent. */
export type Row = Readonly<Record<string, Buffer | null>>;

/** What a statement changed. */
export interface Changed {
  readonly insertId: number;
  readonly affectedRows: number;
}

/** A pool may be set up to make numbers into strings, or anything into anything. */
const asBytes: QueryOptions["typeCast"] = (field) => field.buffer();

async function ask(client: Queryable, sql: string): Promise<unknown> {
  const [result] = await client.query({ sql, rowsAsArray: false, nestTables: false, typeCast: asBytes });
  return result;
}

export async function rowsOf(client: Queryable, sql: string): Promise<readonly Row[]> {
  try {
    return (await ask(client, sql)) as readonly Row[];
  } catch (error) {
    throw failure(error);
  }
}

/** The error, if there is one, is the driver's own. */
export async function change(client: Queryable, sql: string): Promise<Changed> {
  const { insertId, affectedRows } = (await ask(client, sql)) as Record<keyof Changed, unknown>;
  return { insertId: Number(insertId), affectedRows: Number(affectedRows) };
}

export function isClient(name: string, value: unknown): void {
  const { query, getConnection, beginTransaction, promise } = (value ?? {}) as Record<string, unknown>;
  if (typeof beginTransaction === "function" && typeof getConnection !== "function") {
    throw new NevertwiceError(
      "store-unsafe",
      `${name} is a single connection: a transaction on it would swallow our commits. Hand in a pool (createPool).`,
    );
  }
  if (typeof query !== "function" || typeof getConnection !== "function") {
    throw new NevertwiceError("options-invalid", `${name} must be a pool of mysql2/promise.`);
  }
  if (typeof promise === "function") {
    throw new NevertwiceError(
      "options-invalid",
      `${name} is a pool with callbacks: hand in ${name}.promise(), or make it with mysql2/promise.`,
    );
  }
}
