/** `guard.transaction` with each driver. The work writes one row to the ledger, with a value that no other attempt has. */
import { LIMITS, openMysql, openPg, openPostgresJs, openSqlite } from "./databases.js";

/** @typedef {import("../effects.js").Opened} Opened */
/** @typedef {import("../effects.js").OpenDoor} OpenDoor */

/** @type {Readonly<Record<string, OpenDoor>>} */
export const DRIVERS = {
  async pg({ url, load, createGuard }) {
    const { pool, store, close } = await openPg(url, load);
    return door(createGuard({ store, ...LIMITS }), close, pool, (tx, key, value) =>
      tx.query("INSERT INTO ledger VALUES ($1, $2)", [key, value]),
    );
  },

  async "postgres.js"({ url, load, createGuard }) {
    const { sql, store, close } = await openPostgresJs(url, load);
    return door(
      createGuard({ store, ...LIMITS }),
      close,
      sql,
      async (tx, key, value) => tx`INSERT INTO ledger VALUES (${key}, ${value})`,
    );
  },

  async kysely({ url, load, createGuard }) {
    const { Kysely, PostgresDialect } = await import("kysely");
    const { kyselyDatabase } = await load("transaction/kysely.js");
    const { pool, store, close } = await openPg(url, load);
    const db = new Kysely({ dialect: new PostgresDialect({ pool: /** @type {never} */ (pool) }) });
    return door(createGuard({ store, ...LIMITS }), close, kyselyDatabase(db), (tx, key, value) =>
      tx.insertInto("ledger").values({ key, value }).execute(),
    );
  },

  async mysql2({ url, load, createGuard }) {
    const { pool, store, close } = await openMysql(url, load);
    return door(createGuard({ store, ...LIMITS }), close, pool, (tx, key, value) =>
      tx.query("INSERT INTO ledger VALUES (?, ?)", [key, value]),
    );
  },

  async sqlite({ url, load, createGuard }) {
    const { connection, store, close } = await openSqlite(url, load);
    const guard = createGuard({ store, ...LIMITS });
    const insert = connection.prepare("INSERT INTO ledger VALUES (?, ?)");
    return {
      run: (key, { newValue }) =>
        guard.transaction({ operation: "pay", key }, connection, () => {
          const value = newValue();
          insert.run(key, value);
          return value;
        }),
      close: () => guard.close().then(close),
    };
  },
};

/**
 * @param {any} guard
 * @param {() => unknown} close
 * @param {unknown} database
 * @param {(tx: any, key: string, value: string) => Promise<unknown>} write
 * @returns {Opened}
 */
function door(guard, close, database, write) {
  return {
    run: (key, { newValue }) =>
      guard.transaction({ operation: "pay", key }, database, async (/** @type {unknown} */ tx) => {
        const value = newValue();
        await write(tx, key, value);
        return value;
      }),
    close: () => guard.close().then(close),
  };
}
