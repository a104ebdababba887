/** Opens an outbox by its URL, with its own database client: for servers, relays and scripts. */
import { checkOptions, isBoolean, isText } from "../core/option-checks.ts";
import { mysqlPool, opened, postgresClients } from "../stores/open/clients.ts";
import { refuseUnknown, SQLITE } from "../stores/open/parameters.ts";
import { byScheme, parseStoreUrl, type StoreUrl, sqliteFile, urlError } from "../stores/open/store-url.ts";
import { createOutbox, type Outbox, type OutboxSettings } from "./outbox.ts";

/** Options of `openOutbox`. */
export interface OpenOutboxOptions extends OutboxSettings {
  /** Postgres: the schema of the table; default: the search_path of the connection. */
  readonly schema?: string | undefined;
  /** Whether to create or upgrade the table (Postgres and MySQL); default true. */
  readonly migrate?: boolean | undefined;
}

type Opener = (address: StoreUrl, options: OpenOutboxOptions) => Promise<Outbox>;

const SCHEMES: Readonly<Record<string, Opener>> = {
  sqlite: openSqlite,
  postgres: openPostgres,
  postgresql: openPostgres,
  mysql: openMysql,
};

/** These stores can hold claims, but no messages. */
const REFUSED = /^(memory|rediss?(\+cluster)?|dynamodb|etcds?):/;

/**
 * Opens the outbox in `sqlite:./file.db`, `postgres://…` or `mysql://…`. The driver is loaded at once; the server is
 * contacted by the first call, or here if the table is migrated. Closing the outbox also closes its client. On Postgres its
 * relays are woken by notifications; on SQLite it cannot `send`.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import { openOutbox } from "nevertwice/outbox/open";
 *
 * const outbox = await openOutbox(process.env.DATABASE_URL ?? "postgres://localhost/shop");
 * console.log((await outbox.figures()).due);
 * await outbox.close();
 * ```
 */
export async function openOutbox(url: string, options: OpenOutboxOptions = {}): Promise<Outbox> {
  const { migrate, ...rest } = options;
  checkOptions({ migrate }, { migrate: isBoolean });
  isText("the outbox's URL", url);
  const address = parseStoreUrl(url);
  if (REFUSED.test(url))
    throw urlError(
      address,
      "cannot hold an outbox, whose messages commit together with rows of the application: use sqlite:, postgres:// or mysql://",
    );
  return byScheme(SCHEMES, url, "outbox")(address, { migrate: migrate ?? true, ...rest });
}

async function openSqlite(address: StoreUrl, { migrate: _, ...options }: OpenOutboxOptions): Promise<Outbox> {
  // The parameters are those of the file's record store, which an outbox does not read.
  for (const name of SQLITE.ours) address.take(name);
  refuseUnknown(address, SQLITE);
  return createOutbox({ ...options, file: sqliteFile(address) });
}

async function openPostgres(address: StoreUrl, { migrate, ...options }: OpenOutboxOptions): Promise<Outbox> {
  const { pool: client, connect } = await postgresClients(address);
  const outbox = createOutbox({ ...options, client, subscriber: connect as never });
  return opened(outbox, () => client.end(), migrate === true && outbox.migrate);
}

async function openMysql(address: StoreUrl, { migrate, ...options }: OpenOutboxOptions): Promise<Outbox> {
  const client = await mysqlPool(address);
  const outbox = createOutbox({ ...options, client });
  return opened(outbox, () => client.end(), migrate === true && outbox.migrate);
}
