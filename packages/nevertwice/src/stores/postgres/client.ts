/** The user's own client, `pg` or postgres.js, typed by what is needed of it: one way to ask for both. */
import { NevertwiceError } from "../../core/errors.ts";
import type { Statement } from "../postgres-sql.ts";
import { isConnectionOver, toFailure } from "./failure.ts";

export type { Statement } from "../postgres-sql.ts";

/** What is asked of a `pg` Client, or of one that a Pool hands out. */
export interface PgClient {
  query(text: string): Promise<unknown>;
  query(config: PgQuery): Promise<{ readonly rows: unknown[] }>;
  on(event: "error" | "end", listener: (error?: Error) => void): unknown;
  on(
    event: "notification",
    listener: (message: { readonly channel: string; readonly payload?: string | undefined }) => void,
  ): unknown;
}

export interface PgPoolClient extends PgClient {
  off(event: "error", listener: () => void): unknown;
  /** With an error, the connection is closed and not used again. */
  release(error?: Error | boolean): void;
}

/** A `pg` Pool. */
export interface PgPool {
  query(config: PgQuery): Promise<{ readonly rows: unknown[] }>;
  connect(): Promise<PgPoolClient>;
  readonly totalCount: number;
}

interface PgQuery {
  name?: string;
  text: string;
  values: string[];
  rowMode: "array";
  types: { getTypeParser(): (value: string) => string };
}

/** The `sql` of postgres.js. */
export interface PostgresJs {
  unsafe(text: string, parameters?: string[], options?: { prepare?: boolean }): PostgresJsQuery;
  begin(options: string, work: (sql: PostgresJsTransaction) => Promise<unknown>): Promise<unknown>;
  listen(
    channel: string,
    onnotify: (payload: string) => void,
    onlisten?: () => void,
  ): Promise<{ unlisten(): Promise<unknown> }>;
}

type PostgresJsTransaction = Pick<PostgresJs, "unsafe">;

interface PostgresJsQuery {
  raw(): PromiseLike<Iterable<readonly ({ toString(): string } | null)[]>>;
}

export type PostgresClient = PgPool | PostgresJs;

/** A row of the answer: every column is text. */
export type Row = readonly (string | null)[];

export type Ask = (statement: Statement, parameters: readonly string[]) => Promise<readonly Row[]>;

export interface Asking {
  /** One statement in a transaction of its own, at the isolation that the server has for it. One round trip. */
  readonly ask: Ask;
  /** The same in an explicit READ COMMITTED transaction, whatever the server's default is. */
  readonly askReadCommitted: Ask;
  /**
   * Several statements in one READ COMMITTED transaction, which is committed when `work` resolves and rolled back when it
   * rejects. If this fails after `work` resolved, COMMIT failed, and may have come about or not.
   */
  transact<T>(work: (ask: Ask) => Promise<T>): Promise<T>;
}

/** Refuses what would put our commits into a transaction of the application's. */
export function checkClient(name: string, client: unknown): void {
  if (isPgPool(client) || isPostgresJs(client)) return;
  const { query, unsafe } = (client ?? {}) as Record<string, unknown>;
  if (typeof query === "function") {
    throw new NevertwiceError(
      "store-unsafe",
      `${name} is a single pg connection, on which a transaction of the application's would swallow the store's commits; hand in a pg Pool.`,
    );
  }
  if (typeof unsafe === "function") {
    throw new NevertwiceError(
      "store-unsafe",
      `${name} is a reserved connection or a transaction of postgres.js, which would swallow the store's commits; hand in the sql it was made from.`,
    );
  }
  throw new NevertwiceError("options-invalid", `${name} must be a pg Pool or the sql of postgres.js.`);
}

export function isPgPool(client: unknown): client is PgPool {
  const { query, connect, totalCount } = (client ?? {}) as Partial<PgPool>;
  return typeof query === "function" && typeof connect === "function" && typeof totalCount === "number";
}

/** Not a transaction's or a reserved connection's: those cannot begin another transaction. */
export function isPostgresJs(client: unknown): client is PostgresJs {
  const { unsafe, begin } = (client ?? {}) as Partial<PostgresJs>;
  return typeof client === "function" && typeof unsafe === "function" && typeof begin === "function";
}

/** `isPrepared`: name the statements, so that a connection plans each once. */
export function askingOf(client: PostgresClient, isPrepared: boolean): Asking {
  const { ask, transact } = isPgPool(client)
    ? askingPg(client, isPrepared)
    : askingPostgresJs(client, isPrepared);
  return {
    ask: (statement, parameters) => understood(ask(statement, parameters)),
    askReadCommitted: (statement, parameters) =>
      understood(transact((askThere) => askThere(statement, parameters))),
    transact: (work) => understood(transact(work)),
  };
}

async function understood<T>(asked: Promise<T>): Promise<T> {
  try {
    return await asked;
  } catch (error) {
    throw toFailure(error);
  }
}

/** Whatever parsers the application has set for its own queries. */
const AS_TEXT = { getTypeParser: () => (value: string) => value };

const BEGIN = "ISOLATION LEVEL READ COMMITTED";

type Driver = Pick<Asking, "ask" | "transact">;

function askingPg(pool: PgPool, isPrepared: boolean): Driver {
  const queryOf = ({ name, text }: Statement, values: readonly string[]): PgQuery => ({
    ...(isPrepared && { name }),
    text,
    values: values as string[],
    rowMode: "array",
    types: AS_TEXT,
  });
  return {
    async ask(statement, parameters) {
      return (await pool.query(queryOf(statement, parameters))).rows as Row[];
    },
    async transact(work) {
      const client = await pool.connect();
      // A pool does not listen to a connection that it has handed out; one that is lost between two statements would
      // end the process.
      client.on("error", ignore);
      try {
        await client.query(`BEGIN ${BEGIN}`);
        const done = await work(
          async (statement, parameters) => (await client.query(queryOf(statement, parameters))).rows as Row[],
        );
        await client.query("COMMIT");
        client.off("error", ignore);
        client.release();
        return done;
      } catch (error) {
        await rollBack(client);
        throw error;
      }
    },
  };
}

/** A connection that cannot even do that may still be in its transaction: nobody is handed it again. */
async function rollBack(client: PgPoolClient): Promise<void> {
  const isLost = await client.query("ROLLBACK").then(
    () => false,
    () => true,
  );
  if (!isLost) client.off("error", ignore);
  client.release(isLost);
}

function ignore(): void {}

function askingPostgresJs(sql: PostgresJs, isPrepared: boolean): Driver {
  const asked = async (
    { unsafe }: PostgresJsTransaction,
    { text }: Statement,
    parameters: readonly string[],
  ): Promise<readonly Row[]> => {
    // Raw, which is bytes, so that no transformation of the application's applies.
    const rows = await unsafe(text, parameters as string[], { prepare: isPrepared }).raw();
    return Array.from(rows, (row) => row.map((column) => column?.toString() ?? null));
  };
  return {
    ask: (statement, parameters) => asked(sql, statement, parameters),
    transact: async <T>(work: (ask: Ask) => Promise<T>) =>
      (await sql.begin(BEGIN, async (transaction) => {
        let isOver = false;
        try {
          return await work(async (statement, parameters) => {
            try {
              return await asked(transaction, statement, parameters);
            } catch (error) {
              isOver = isConnectionOver(error);
              throw error;
            }
          });
        } catch (error) {
          // The driver would send ROLLBACK down a connection that is gone, and throw where nobody can catch it. It
          // fails by itself when the connection closes.
          if (isOver) await new Promise<never>(() => {});
          throw error;
        }
      })) as T,
  };
}
