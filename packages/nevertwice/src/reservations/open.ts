/** Opens a reservation store by its URL, with its own database client: for servers, scripts and configuration by environment. */
import { refusesLocalStores } from "../core/local-stores.ts";
import { checkOptions, isBoolean, isText } from "../core/option-checks.ts";
import { mysqlPool, opened, postgresClients } from "../stores/open/clients.ts";
import { refuseUnknown, SQLITE } from "../stores/open/parameters.ts";
import {
  byScheme,
  flag,
  oneOf,
  parseStoreUrl,
  type StoreUrl,
  sqliteFile,
  urlError,
} from "../stores/open/store-url.ts";
import type { ReservationStore } from "./store.ts";

/** Options of `openReservations`. */
export interface OpenReservationsOptions {
  /** Whether to create or upgrade the tables (Postgres and MySQL); default true. */
  readonly migrate?: boolean | undefined;
  /** Whether `memory:` may be opened although NODE_ENV is production; default: only if NEVERTWICE_ALLOW_LOCAL is true. */
  readonly allowMemory?: boolean | undefined;
}

type ReservationOpener = (address: StoreUrl, isMigrated: boolean) => Promise<ReservationStore>;

const SCHEMES: Readonly<Record<string, ReservationOpener>> = {
  memory: openMemory,
  sqlite: openSqlite,
  postgres: openPostgres,
  postgresql: openPostgres,
  mysql: openMysql,
};

/** These stores can hold claims, but not reservations. */
const REFUSED = /^(rediss?(\+cluster)?|dynamodb|etcds?):/;

/**
 * Opens `memory:`, `sqlite:./file.db`, `postgres://…` or `mysql://…`. The driver is loaded at once; the server is contacted
 * by the first call, or here if tables are migrated. Closing the store also closes its client.
 * @throws `options-invalid`
 * @example
 * ```ts
 * import { createReservations, WINDOWS } from "nevertwice/reservations";
 * import { openReservations } from "nevertwice/reservations/open";
 *
 * const store = await openReservations("memory:");
 * const reservations = createReservations({ store, windowMs: WINDOWS.clientReplay });
 * await reservations.close();
 * ```
 */
export async function openReservations(
  url: string,
  options: OpenReservationsOptions = {},
): Promise<ReservationStore> {
  checkOptions(options, { migrate: isBoolean, allowMemory: isBoolean });
  isText("the reservations' URL", url);
  const address = parseStoreUrl(url);
  if (REFUSED.test(url))
    throw urlError(
      address,
      "cannot store reservations, which need transactions that lock the rows they read: use sqlite:, postgres:// or mysql://",
    );
  if (url.startsWith("memory:") && !(options.allowMemory ?? !refusesLocalStores(process.env)))
    throw urlError(
      address,
      "is memory, and NODE_ENV is production: its holds are lost with this process, and no other sees them. Use postgres://, mysql:// or sqlite:, or set NEVERTWICE_ALLOW_LOCAL=true",
    );
  return byScheme(SCHEMES, url, "reservations")(address, options.migrate ?? true);
}

async function openMemory(address: StoreUrl): Promise<ReservationStore> {
  refuseUnknown(address, { ours: [] });
  const { memoryReservations } = await import("./memory.ts");
  return memoryReservations();
}

async function openSqlite(address: StoreUrl): Promise<ReservationStore> {
  const { sqliteReservations } = await import("./sqlite.ts");
  const synchronous = oneOf(address, "synchronous", ["full", "normal"] as const);
  const exclusive = flag(address, "exclusive");
  refuseUnknown(address, SQLITE);
  return sqliteReservations({
    file: sqliteFile(address),
    ...(synchronous !== undefined && { synchronous }),
    ...(exclusive !== undefined && { exclusive }),
  });
}

async function openPostgres(address: StoreUrl, isMigrated: boolean): Promise<ReservationStore> {
  const { postgresReservations } = await import("./postgres.ts");
  const { pool: client, prepare } = await postgresClients(address);
  const store = postgresReservations({ client, ...(prepare !== undefined && { prepare }) });
  return opened(store, () => client.end(), isMigrated && store.migrate);
}

async function openMysql(address: StoreUrl, isMigrated: boolean): Promise<ReservationStore> {
  const { mysqlReservations } = await import("./mysql.ts");
  const client = await mysqlPool(address);
  const store = mysqlReservations({ client });
  return opened(store, () => client.end(), isMigrated && store.migrate);
}
