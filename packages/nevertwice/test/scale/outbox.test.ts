/**
 * Tests the outbox with producers and relays that are killed at random moments: what was committed is delivered, nothing
 * else is, the order of each key is kept, and a repeated delivery has the same id.
 */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { DatabaseSync } from "@photostructure/sqlite";
import { createPool } from "mysql2/promise";
import { expect, onTestFinished, type TestContext, test } from "vitest";
import { createOutbox, type Outbox } from "../../src/outbox/index.ts";
import { openOutbox } from "../../src/outbox/open.ts";
import { mysqlStore } from "../../src/stores/mysql.ts";
import { migrationSql } from "../../src/stores/postgres.ts";
import { sqliteStore } from "../../src/stores/sqlite.ts";
import { sharedUrl } from "../services/services.ts";
import { newDatabase } from "../stores/mysql/pools.ts";
import { createDatabase, query } from "../stores/postgres/database.ts";
import { notesIn } from "./ledger.ts";
import { type DeliveredOrder, messageProblems, ORDERS_TABLE, type Order } from "./messages-referee.ts";
import { startProcess } from "./processes.ts";

const PRODUCERS = 2;
const ORDERS = 40;

interface Place {
  readonly url: string;
  readonly outbox: Outbox;
  run(text: string): Promise<readonly Order[]>;
}

const PLACES: Readonly<Record<string, (context: TestContext) => Promise<Place>>> = {
  async postgres(context) {
    const url = await createDatabase(sharedUrl(context, "postgres"));
    await query(url, migrationSql());
    return { url, outbox: await openOutbox(url), run: (text) => query<Order>(url, text) };
  },
  async mysql(context) {
    const url = await newDatabase(context);
    const pool = createPool(url);
    onTestFinished(() => pool.end());
    await mysqlStore({ client: pool }).migrate();
    return {
      url,
      outbox: await openOutbox(url),
      run: async (text) => (await pool.query(text))[0] as Order[],
    };
  },
  async sqlite() {
    const file = join(tmpdir(), `messages-${randomUUID()}.db`);
    const database = new DatabaseSync(file);
    database.exec("PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL");
    onTestFinished(() => database.close());
    await sqliteStore({ database }).read("none");
    return {
      url: `sqlite:${file}`,
      outbox: createOutbox({ database }),
      run: async (text) => database.prepare(text).all() as unknown as Order[],
    };
  },
};

test.each(Object.keys(PLACES))(
  "delivers what was committed through kills of producers and relays, on %s",
  async (name) => {
    const context = { onTestFinished } as unknown as TestContext;
    const { url, outbox, run } = await (PLACES[name] as (typeof PLACES)[string])(context);
    await run(ORDERS_TABLE);
    onTestFinished(() => outbox.close());
    // Creates the table on SQLite too, before the processes race for it.
    await outbox.figures();
    const ledger = join(tmpdir(), `ledger-${randomUUID()}`);
    let isOver = false;

    async function keepRelaying(): Promise<void> {
      while (!isOver) {
        const relay = startProcess(context, "messenger.js", { role: "relay", url, ledger });
        await relay.next("ready");
        await sleep(100 + Math.random() * 400);
        relay.signal("SIGKILL");
        await relay.ended;
      }
    }

    async function produce(producer: number): Promise<void> {
      for (let kills = 0; ; kills++) {
        const process = startProcess(context, "messenger.js", {
          role: "producer",
          url,
          producer,
          orders: ORDERS,
        });
        const done = process.next("done").then(
          () => true,
          () => false,
        );
        const isKilled = kills < 2;
        if (isKilled) await Promise.race([sleep(300 + Math.random() * 300), done]);
        if (isKilled) process.signal("SIGKILL");
        if (await done) return;
        await process.ended;
      }
    }

    const relaying = [keepRelaying(), keepRelaying()];
    await Promise.all(Array.from({ length: PRODUCERS }, (_, producer) => produce(producer)));
    isOver = true;
    await Promise.all(relaying);
    const last = startProcess(context, "messenger.js", { role: "relay", url, ledger });
    await expect.poll(async () => (await outbox.figures()).undelivered).toBe(0);
    last.tell("stop");
    await last.ended;
    const delivered = await notesIn<DeliveredOrder>(ledger);
    const committed = await run("SELECT producer, number, lane FROM orders");
    expect(committed.length).toBe(PRODUCERS * ORDERS);
    expect(messageProblems(committed, delivered)).toEqual([]);
    expect(readFileSync(ledger, "utf8").endsWith("\n")).toBe(true);
  },
);

test("the referee notices each broken promise", () => {
  const order = (number: number, id = `id-${number}`) => ({ producer: 0, number, lane: 0, id });
  const committed = [order(1), order(2)];
  expect(messageProblems(committed, [order(1), order(2), order(1)])).toEqual([]);
  expect(messageProblems(committed, [order(1)])).toEqual(["0-2 was committed and never delivered"]);
  expect(messageProblems(committed, [order(2), order(1)])).toEqual(["0-1 was delivered after 2 of its key"]);
  expect(messageProblems(committed, [order(1), order(2), order(2, "x")])).toEqual([
    "0-2 was delivered with 2 ids",
  ]);
  expect(messageProblems(committed, [order(1), order(2), order(3)])).toEqual([
    "0-3 was delivered and never committed",
  ]);
  expect(messageProblems([...committed, order(2)], [order(1), order(2)])).toEqual([
    "an order was committed twice",
  ]);
});
