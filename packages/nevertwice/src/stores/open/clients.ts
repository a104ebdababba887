/** Clients of a store's own, made from its URL and ended with it. */
import type { MysqlClient } from "../mysql/client.ts";
import type { PgPool } from "../postgres/client.ts";
import { type Address, serverUrl } from "./address.ts";
import { importDriver } from "./driver.ts";

export interface Emitter {
  on(event: "error", listener: () => void): unknown;
}

interface PgModule {
  readonly default: {
    readonly Pool: new (config: object) => OwnPool;
    readonly Client: new (config: object) => PgClient;
  };
}
type OwnPool = PgPool & Emitter & { end(): Promise<void> };
type PgClient = Emitter & { connect(): Promise<unknown>; end(): Promise<void> };

/** A pool, and how to connect one more client beside it. */
export async function postgresClients(
  address: Address,
): Promise<{ readonly pool: OwnPool; connect(): Promise<PgClient> }> {
  const { default: pg } = await importDriver<PgModule>("pg", "pg", address.shown);
  const connectionString = serverUrl(address);
  return {
    pool: tolerant(new pg.Pool({ connectionString })),
    async connect() {
      const connection = tolerant(new pg.Client({ connectionString }));
      await connection.connect();
      return connection;
    },
  };
}

interface Mysql2Module {
  createPool(config: object): MysqlPool;
}
type MysqlPool = MysqlClient & { end(): Promise<void> };

export async function mysqlPool(address: Address): Promise<MysqlPool> {
  const mysql = await importDriver<Mysql2Module>("mysql2/promise", "mysql2", address.shown);
  return mysql.createPool({ uri: serverUrl(address) });
}

/** The store with its own client: ready to use, and closed with it. */
export async function opened<T extends { close(): Promise<void> }>(
  store: T,
  end: () => unknown,
  migrate: (() => Promise<void>) | false = false,
): Promise<T> {
  const close = async () => {
    await store.close();
    await end();
  };
  try {
    if (migrate) await migrate();
  } catch (error) {
    await close().catch(() => {});
    throw error;
  }
  // With its getters as they are: what a store can say of itself may change.
  return Object.defineProperties({} as T, {
    ...Object.getOwnPropertyDescriptors(store),
    close: { value: close, enumerable: true },
  });
}

/** A connection that breaks is told to the call that needs it; as an event that nobody hears it would end the process. */
export function tolerant<T extends Emitter>(client: T): T {
  client.on("error", () => {});
  return client;
}
