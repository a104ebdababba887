/** `attempt.step` with a database: the row of the ledger and the step commit together, and the record is completed later. */
import { LIMITS, openMysql, openPg, openSqlite } from "./databases.js";

/** @typedef {import("../effects.js").OpenDoor} OpenDoor */

const LEASE = { leaseMs: 3_000 };

/** @type {Readonly<Record<string, OpenDoor>>} */
export const DRIVERS = {
  async pg({ url, load, createGuard }) {
    const { pool, store, close } = await openPg(url, load);
    return door(createGuard({ store, ...LIMITS, ...LEASE }), close, pool, (tx, key, value) =>
      tx.query("INSERT INTO ledger VALUES ($1, $2)", [key, value]),
    );
  },

  async mysql2({ url, load, createGuard }) {
    const { pool, store, close } = await openMysql(url, load);
    return door(createGuard({ store, ...LIMITS, ...LEASE }), close, pool, (tx, key, value) =>
      tx.query("INSERT INTO ledger VALUES (?, ?)", [key, value]),
    );
  },

  async sqlite({ url, load, createGuard }) {
    const { connection, store, close } = await openSqlite(url, load);
    const insert = connection.prepare("INSERT INTO ledger VALUES (?, ?)");
    return door(createGuard({ store, ...LIMITS, ...LEASE }), close, connection, (_tx, key, value) =>
      insert.run(key, value),
    );
  },
};

/**
 * @param {any} guard
 * @param {() => unknown} close
 * @param {unknown} database
 * @param {(tx: any, key: string, value: string) => unknown} write returns a promise, but not on SQLite
 * @returns {import("../effects.js").Opened}
 */
function door(guard, close, database, write) {
  return {
    run: (key, { newValue }) =>
      guard.run({ operation: "pay", key }, (/** @type {any} */ attempt) =>
        attempt.step("write", database, (/** @type {unknown} */ tx) => {
          const value = newValue();
          const written = write(tx, key, value);
          return written instanceof Promise ? written.then(() => value) : value;
        }),
      ),
    close: () => guard.close().then(close),
  };
}
