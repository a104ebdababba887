/**
 * Transactions that send two messages each, and a relay in every process that delivers what any process has sent. A delivery
 * is a note.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { LIMITS, openMysql, openPg, openSqlite } from "./databases.js";
import { reachDelivery } from "./points.js";

/** @typedef {import("../effects.js").OpenDoor} OpenDoor */

/** Keys of messages. Few, so that many messages of one key wait for one another. */
const ORDERS = 8;
/** An attempt that a kill has ended counts, and a message must not be parked for that. */
const RELAY = { leaseMs: 1_000, pollMs: 40, concurrency: 8, batch: 8, maxAttempts: 1_000_000 };
const RETRY = { baseMs: 50, capMs: 200 };
/** The first attempt at about one message in so many fails after it has arrived, so its key waits for the next one. */
const FAILING_ONE_IN = 4;
/** How long all messages may take to be delivered once no process is killed any more. */
const DELIVERED_WITHIN_MS = 60_000;
/** How long a process that has made all its requests goes on to deliver, before it may be killed at rest. */
const BEFORE_REST_MS = 500;

/** Creates the table. @param {string} url */
export async function prepareOutbox(url) {
  const { openOutbox } = await import("../../../../dist/outbox/open.js");
  const outbox = await openOutbox(url);
  await outbox.figures();
  await outbox.close();
}

/** @param {string} key */
const messageOrder = (key) => `order ${Number(key.split(" ")[1]) % ORDERS}`;

/** @type {Readonly<Record<string, OpenDoor>>} */
export const DRIVERS = {
  async pg(scene) {
    const opened = await openPg(scene.url, scene.load);
    return door(scene, opened, { client: opened.pool }, opened.pool, (tx, key, value) =>
      tx.query("INSERT INTO ledger VALUES ($1, $2)", [key, value]),
    );
  },

  async mysql2(scene) {
    const opened = await openMysql(scene.url, scene.load);
    return door(scene, opened, { client: opened.pool }, opened.pool, (tx, key, value) =>
      tx.query("INSERT INTO ledger VALUES (?, ?)", [key, value]),
    );
  },

  async sqlite(scene) {
    const opened = await openSqlite(scene.url, scene.load);
    const { connection } = opened;
    const insert = connection.prepare("INSERT INTO ledger VALUES (?, ?)");
    const { guard, rest, close } = await withRelay(scene, opened, { database: connection });
    return {
      run: (key, { newValue }) =>
        guard.transaction(
          { operation: "pay", key },
          connection,
          (/** @type {any} */ _tx, /** @type {any} */ attempt) => {
            const value = newValue();
            insert.run(key, value);
            for (const part of [0, 1]) attempt.enqueue("paid", { value, part }, { key: messageOrder(key) });
            return value;
          },
        ),
      rest,
      close,
    };
  },
};

/**
 * @param {import("../effects.js").Scene} scene
 * @param {{ store: unknown, close(): unknown }} opened
 * @param {object} place of the outbox
 * @param {unknown} database
 * @param {(tx: any, key: string, value: string) => Promise<unknown>} write
 * @returns {Promise<import("../effects.js").Opened>}
 */
async function door(scene, opened, place, database, write) {
  const { guard, rest, close } = await withRelay(scene, opened, place);
  return {
    run: (key, { newValue }) =>
      guard.transaction(
        { operation: "pay", key },
        database,
        async (/** @type {any} */ tx, /** @type {any} */ attempt) => {
          const value = newValue();
          await write(tx, key, value);
          for (const part of [0, 1])
            await attempt.enqueue("paid", { value, part }, { key: messageOrder(key) });
          return value;
        },
      ),
    rest,
    close,
  };
}

/**
 * @param {import("../effects.js").Scene} scene
 * @param {{ store: unknown, close(): unknown }} opened
 * @param {object} place
 */
async function withRelay({ load, createGuard, noteDelivery }, { store, close }, place) {
  const { createOutbox } = await load("outbox/index.js");
  const outbox = createOutbox(place);
  const guard = createGuard({ store, outbox, ...LIMITS });
  const relay = outbox.relay({
    ...RELAY,
    retry: RETRY,
    /**
     * @param {{ id: string, key: string, body: { value: string, part: number } }} message
     * @param {{ attempt: number }} context
     */
    async deliver({ id, key, body: { value, part } }, { attempt }) {
      reachDelivery("before");
      noteDelivery(id, key, value, part);
      reachDelivery("sent");
      await sleep(1);
      reachDelivery("answered");
      if (attempt === 1 && id.charCodeAt(0) % FAILING_ONE_IN === 0) throw new Error("the answer was lost");
    },
  });
  relay.start();
  /** @param {number} withinMs */
  async function deliverAll(withinMs) {
    const endsAt = performance.now() + withinMs;
    while ((await outbox.list({ limit: 1 })).messages.length > 0 && performance.now() < endsAt)
      await sleep(50);
  }
  return {
    guard,
    rest: () => deliverAll(BEFORE_REST_MS),
    /** The process that is not killed delivers everything before it ends. */
    async close() {
      await deliverAll(DELIVERED_WITHIN_MS);
      await guard.close();
      await outbox.close();
      await close();
    },
  };
}
