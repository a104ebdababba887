/**
 * Pays one order in a transaction of Postgres, and is killed at a named point of it: the process kills itself right after the
 * statement whose text names the point was answered.
 */
import pg from "pg";
import { createGuard } from "../../../dist/index.js";
import { postgresStore } from "../../../dist/stores/postgres.js";

/**
 * @typedef {object} Options
 * @property {string} url
 * @property {string} key
 * @property {Point} [point] where the process is killed; without it, it ends by itself
 */
/** @typedef {"claim" | "lock" | "work" | "complete" | "commit"} Point */

/** @type {Options} */
const { url, key, point } = JSON.parse(process.argv[2] ?? "");

/** The text of the statement after which each point is reached. The claim was made on the store's own connection. */
const STATEMENTS = {
  claim: /^BEGIN$/,
  lock: /FOR UPDATE$/,
  work: /^INSERT/,
  complete: /^WITH done/,
  commit: /^COMMIT$/,
};

/** @param {pg.PoolClient} client */
function dyingAfter(client) {
  const query = client.query.bind(client);
  return Object.assign(client, {
    /** @param {string} text @param {unknown[]} [values] */
    async query(text, values) {
      const answer = await query(text, values);
      if (point !== undefined && STATEMENTS[point].test(text)) process.kill(process.pid, "SIGKILL");
      return answer;
    },
  });
}

const pool = new pg.Pool({ connectionString: url, max: 4 });
const limits = { transactionMs: 500, storeTimeoutMs: 400, waitMs: 20_000 };
const guard = createGuard({ store: postgresStore({ client: pool }), purgeEveryMs: 0, ...limits });
const database = { totalCount: 0, connect: async () => dyingAfter(await pool.connect()) };
const value = await guard.transaction({ operation: "pay", key }, database, async (tx, { number }) => {
  await tx.query("INSERT INTO ledger VALUES ($1, $2)", [key, number]);
  return number;
});
process.send?.({ kind: "paid", value });
await guard.close();
await pool.end();
process.disconnect?.();
