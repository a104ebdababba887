/**
 * One process of an outbox that may be killed at any moment. As `producer` it writes orders, each in one transaction with the
 * message about it. As `relay` it appends each delivery to a file. The judge is ../messages-referee.ts.
 */
import { openSync, writeSync } from "node:fs";
import { createGuard, isNevertwiceError } from "../../../dist/index.js";
import { createOutbox } from "../../../dist/outbox/index.js";
import { openOutbox } from "../../../dist/outbox/open.js";

/**
 * @typedef {object} Options
 * @property {"producer" | "relay"} role
 * @property {string} url `postgres://…`, `mysql://…` or `sqlite:file`
 * @property {string} [ledger] the file to which a relay appends
 * @property {number} [producer] the number of a producer, each of which has one process at a time
 * @property {number} [orders] how many orders a producer writes in all
 * @property {number} [lanes] over how many keys they are spread
 */

/** @type {Options} */
const { role, url, ledger = "", producer = 0, orders = 0, lanes = 3 } = JSON.parse(process.argv[2] ?? "");
await (role === "relay" ? relay() : produce());

async function relay() {
  const file = openSync(ledger, "a");
  const outbox = await openOutbox(url, { migrate: false });
  const running = outbox.relay({
    leaseMs: 1_000,
    pollMs: 20,
    batch: 20,
    concurrency: 4,
    // One write with O_APPEND: the line of a process that is killed is there, or it is not.
    deliver: ({ id, body }) =>
      void writeSync(file, `${JSON.stringify({ id, .../** @type {object} */ (body) })}\n`),
  });
  running.start();
  process.send?.({ kind: "ready" });
  process.on("message", async () => {
    await outbox.close();
    process.disconnect?.();
  });
}

async function produce() {
  const { handle, store, outbox, insert, next, close } = await open();
  const limits = { transactionMs: 500, storeTimeoutMs: 400, waitMs: 20_000 };
  const guard = createGuard({ store, outbox, purgeEveryMs: 0, ...limits });
  for (let number = await next(); number < orders; number++) {
    const lane = number % lanes;
    const order = { producer, number, lane };
    const write = () =>
      guard.transaction({ operation: "order", key: `${producer}-${number}` }, handle, (tx, attempt) => {
        const written = insert(tx, order);
        const sent = attempt.enqueue("order", order, { key: `${producer}-${lane}` });
        return written === undefined ? number : Promise.all([written, sent]).then(() => number);
      });
    await untilWritten(write);
  }
  process.send?.({ kind: "done" });
  await guard.close();
  await close();
  process.disconnect?.();
}

/**
 * A busy computer takes longer than the short limits of this trial. The same key is tried again, as a client does.
 *
 * @param {() => Promise<unknown>} write
 */
async function untilWritten(write) {
  for (;;) {
    try {
      return await write();
    } catch (error) {
      if (!isNevertwiceError(error) || !(error.retryable || error.code === "unknown")) throw error;
    }
  }
}

/** What differs between the databases. `next` is the number of the first order that is not committed. */
async function open() {
  const insertText = (/** @type {{ producer: number, number: number, lane: number }} */ order) =>
    `INSERT INTO orders VALUES (${order.producer}, ${order.number}, ${order.lane})`;
  const nextText = `SELECT coalesce(max(number) + 1, 0) AS next FROM orders WHERE producer = ${producer}`;
  if (url.startsWith("sqlite:")) {
    const { DatabaseSync } = await import("@photostructure/sqlite");
    const { sqliteStore } = await import("../../../dist/stores/sqlite.js");
    const database = new DatabaseSync(url.slice("sqlite:".length));
    database.exec("PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL");
    return {
      handle: /** @type {any} */ (database),
      store: sqliteStore({ database }),
      outbox: createOutbox({ database }),
      insert: (/** @type {any} */ tx, /** @type {any} */ order) => void tx.exec(insertText(order)),
      next: async () => Number(/** @type {any} */ (database.prepare(nextText).get()).next),
      close: async () => database.close(),
    };
  }
  if (url.startsWith("mysql:")) {
    const { createPool } = await import("mysql2/promise");
    const { mysqlStore } = await import("../../../dist/stores/mysql.js");
    const pool = createPool({ uri: url, connectionLimit: 4 });
    return {
      handle: /** @type {any} */ (pool),
      store: mysqlStore({ client: pool }),
      outbox: createOutbox({ client: pool }),
      insert: (/** @type {any} */ tx, /** @type {any} */ order) => tx.query(insertText(order)),
      next: async () => Number(/** @type {any} */ ((await pool.query(nextText))[0])[0].next),
      close: () => pool.end(),
    };
  }
  const { default: pg } = await import("pg");
  const { postgresStore } = await import("../../../dist/stores/postgres.js");
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  return {
    handle: /** @type {any} */ (pool),
    store: postgresStore({ client: pool }),
    outbox: createOutbox({ client: pool }),
    insert: (/** @type {any} */ tx, /** @type {any} */ order) => tx.query(insertText(order)),
    next: async () => Number((await pool.query(nextText)).rows[0].next),
    close: () => pool.end(),
  };
}
