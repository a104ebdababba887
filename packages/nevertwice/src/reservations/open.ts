/** Reservations by their store's URL, with a client of its own: for servers, scripts, and whoever configures by environment. */
import { checkOptions, isBoolean, isText } from "../core/policy.ts";
import { type Address, addressOf, byScheme, flag, oneOf, sqliteFile, wrong } from "../stores/open/address.ts";
import { mysqlPool, opened, postgresClients } from "../stores/open/clients.ts";
import type { ReservationStore } from "./ledger.ts";

export interface OpenReservationsOptions {
  /** Whether to create or upgrade the tables of Postgres and MySQL first; default true. */
  readonly migrate?: boolean | undefined;
}

type Open = (address: Address, isMigrated: boolean) => Promise<ReservationStore>;

const SCHEMES: Readonly<Record<string, Open>> = {
  memory: openMemory,
  sqlite: openSqlite,
  postgres: openPostgres,
  postgresql: openPostgres,
  mysql: openMysql,
};

/** They keep claims, and cannot keep reservations. */
const REFUSED = /^(rediss?(\+cluster)?|dynamodb):/;

/**
 * Opens `memory:`, `sqlite:./file.db`, `postgres://…` or `mysql://…`. The driver is loaded now; the server is first asked by
 * the first call, or here where tables are migrated. Closing the store closes its client too.
 */
export async function openReservations(
  url: string,
  options: OpenReservationsOptions = {},
): Promise<ReservationStore> {
  checkOptions(options, { migrate: isBoolean });
  isText("the reservations' URL", url);
  const address = addressOf(url);
  if (REFUSED.test(url))
    throw wrong(
      address,
      "cannot keep reservations, which need a transaction over rows that are locked as they are read: use sqlite:, postgres:// or mysql://",
    );
  return byScheme(SCHEMES, url, "reservations'")(address, options.migrate ?? true);
}

async function openMemory(): Promise<ReservationStore> {
  const { memoryReservations } = await import("./memory.ts");
  return memoryReservations();
}

async function openSqlite(address: Address): Promise<ReservationStore> {
  const { sqliteReservations } = await import("./sqlite.ts");
  const synchronous = oneOf(address, "synchronous", ["full", "normal"] as const);
  const exclusive = flag(address, "exclusive");
  return sqliteReservations({
    file: sqliteFile(address),
    ...(synchronous !== undefined && { synchronous }),
    ...(exclusive !== undefined && { exclusive }),
  });
}

async function openPostgres(address: Address, isMigrated: boolean): Promise<ReservationStore> {
  const { postgresReservations } = await import("./postgres.ts");
  const prepare = flag(address, "prepare");
  const { pool: client } = await postgresClients(address);
  const store = postgresReservations({ client, ...(prepare !== undefined && { prepare }) });
  return opened(store, () => client.end(), isMigrated && store.migrate);
}

async function openMysql(address: Address, isMigrated: boolean): Promise<ReservationStore> {
  const { mysqlReservations } = await import("./mysql.ts");
  const client = await mysqlPool(address);
  const store = mysqlReservations({ client });
  return opened(store, () => client.end(), isMigrated && store.migrate);
}
