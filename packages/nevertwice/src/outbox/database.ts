/** Recognises the database of an outbox by what the application hands in. */
import type { Clock } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";
import { isClient as isMysqlClient, type MysqlClient } from "../stores/mysql/client.ts";
import { checkClient, type PostgresClient } from "../stores/postgres/client.ts";
import type { PostgresSubscriber } from "../stores/postgres/watch.ts";
import type { SqliteDatabase } from "../stores/sqlite/client.ts";
import { mysqlOutbox } from "./mysql.ts";
import { postgresOutbox } from "./postgres.ts";
import { sqliteOutbox } from "./sqlite.ts";
import type { OutboxStore } from "./store.ts";

/** Where an outbox is. Give `client`, `database` or `file`, and one of them only. */
export interface OutboxDatabase {
  /** A `pg` Pool, the `sql` of postgres.js, or a pool of mysql2/promise. */
  readonly client?: PostgresClient | MysqlClient | undefined;
  /** An open SQLite connection: `DatabaseSync` of `node:sqlite` or `@photostructure/sqlite`, or better-sqlite3. */
  readonly database?: SqliteDatabase | undefined;
  /** The path of a SQLite file, which the outbox opens in a worker thread: for relays and operators, not for `send`. */
  readonly file?: string | undefined;
  /**
   * Postgres: a second connection, on which relays wait for notifications of outboxes with `notify: true`. A `pg` Pool, the
   * `sql` of postgres.js, or a function that connects a `pg` Client. Without it, relays poll.
   */
  readonly subscriber?: PostgresSubscriber | undefined;
  /** Postgres: the schema of the table; default: the search_path of the connection. */
  readonly schema?: string | undefined;
  /** SQLite with `database`: decides when leases end; default: the system clock. */
  readonly clock?: Clock | undefined;
}

/** Throws `options-invalid`, or `store-unsafe` for a single connection in place of a pool. */
export function toOutboxStore({
  client,
  database,
  file,
  subscriber,
  schema,
  clock,
}: OutboxDatabase): OutboxStore {
  const given = [client, database, file].filter((each) => each !== undefined);
  if (given.length !== 1)
    throw new NevertwiceError(
      "options-invalid",
      "give one database: createOutbox({ client }) for Postgres and MySQL, createOutbox({ database }) or createOutbox({ file }) for SQLite.",
    );
  if (file !== undefined) return sqliteOutbox({ file });
  if (database !== undefined) return sqliteOutbox({ database, ...(clock !== undefined && { clock }) });
  if (isMysql(client)) {
    isMysqlClient("client", client);
    return mysqlOutbox({ client });
  }
  checkClient("client", client);
  return postgresOutbox({ client: client as PostgresClient, subscriber, schema });
}

/** Connections of mysql2 and their pools have `execute`; those of Postgres have none. */
function isMysql(client: unknown): client is MysqlClient {
  return typeof (client as { readonly execute?: unknown } | null)?.execute === "function";
}
