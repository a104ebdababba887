/** `once` in transactions that the process itself begins and commits. */
import { openMysql, openPg, openSqlite } from "./databases.js";

/** @typedef {import("../effects.js").OpenDoor} OpenDoor */

/** No claim of \`once\` is ever committed without its outcome. A shorter lease shows it sooner if one is. */
const LIMITS = { leaseMs: 1_000 };

/** @type {Readonly<Record<string, OpenDoor>>} */
export const DRIVERS = {
  async pg({ url, load, createGuard }) {
    const { pool, store, close } = await openPg(url, load);
    const { once } = await load("transaction/index.js");
    const guard = createGuard({ store, ...LIMITS });
    return {
      async run(key, { newValue }) {
        const client = await pool.connect();
        let result;
        try {
          await client.query("BEGIN");
          result = await once(client, { guard, operation: "pay", key }, async () => {
            const value = newValue();
            await client.query("INSERT INTO ledger VALUES ($1, $2)", [key, value]);
            return value;
          });
          await client.query(isDone(result) ? "COMMIT" : "ROLLBACK");
        } catch (error) {
          client.release(true);
          throw error;
        }
        client.release();
        return toValue(result);
      },
      close: () => guard.close().then(close),
    };
  },

  async mysql2({ url, load, createGuard }) {
    const { pool, store, close } = await openMysql(url, load);
    const { once } = await load("transaction/index.js");
    const guard = createGuard({ store, ...LIMITS });
    return {
      async run(key, { newValue }) {
        const connection = await pool.getConnection();
        let result;
        try {
          await connection.query("SET innodb_lock_wait_timeout = 1");
          await connection.query("START TRANSACTION");
          result = await once(connection, { guard, operation: "pay", key }, async () => {
            const value = newValue();
            await connection.query("INSERT INTO ledger VALUES (?, ?)", [key, value]);
            return value;
          });
          await connection.query(isDone(result) ? "COMMIT" : "ROLLBACK");
        } catch (error) {
          connection.destroy();
          // A duplicate waits for the other transaction, and then either has to be repeated.
          if ([1205, 1213].includes(/** @type {{ errno: number }} */ (error).errno)) throw refused("pending");
          throw error;
        }
        connection.release();
        return toValue(result);
      },
      close: () => guard.close().then(close),
    };
  },

  async sqlite({ url, load, createGuard }) {
    const { connection, store, close } = await openSqlite(url, load);
    const { once } = await load("transaction/index.js");
    const guard = createGuard({ store, ...LIMITS });
    const insert = connection.prepare("INSERT INTO ledger VALUES (?, ?)");
    return {
      async run(key, { newValue }) {
        connection.exec("BEGIN IMMEDIATE");
        try {
          const result = once(connection, { guard, operation: "pay", key }, () => {
            const value = newValue();
            insert.run(key, value);
            return value;
          });
          connection.exec(isDone(result) ? "COMMIT" : "ROLLBACK");
          return toValue(result);
        } catch (error) {
          if (connection.isTransaction) connection.exec("ROLLBACK");
          throw error;
        }
      },
      close: () => guard.close().then(close),
    };
  },
};

/** @param {{ status: string }} result */
const isDone = ({ status }) => status === "ran" || status === "replayed";

/** @param {{ status: string, value?: string }} result */
function toValue(result) {
  if (!isDone(result)) throw refused(result.status);
  return result.value;
}

/** @param {string} code */
const refused = (code) => Object.assign(new Error(code), { code });
