/**
 * Tests `consumer` with `transaction` on real databases: the work and the record of its message commit together, and each
 * verdict is right. The rows of the table `ledger` count what was committed, without asking the library.
 */
import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { DatabaseSync } from "@photostructure/sqlite";
import type { Pool as MysqlPool, PoolConnection } from "mysql2/promise";
import type pg from "pg";
import { describe, expect, expectTypeOf, onTestFinished, type TestContext, test } from "vitest";
import { cloudEvents } from "../../src/events/cloudevents.ts";
import { type ConsumerEvent, consumer } from "../../src/events/index.ts";
import { standardWebhooks } from "../../src/events/webhook/schemes.ts";
import { webhook } from "../../src/events/webhook.ts";
import { createGuard, type Guard, type GuardOptions } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { sqliteStore } from "../../src/stores/sqlite.ts";
import { poolOn } from "./mysql/pools.ts";
import { createDatabase, poolOf, query } from "./postgres/database.ts";
import { startProcess } from "./sqlite/child-process.ts";
import { onMysql, onPostgres } from "./transaction/scene.ts";

const CHILD = fileURLToPath(new URL("transaction/inbox-child.js", import.meta.url));

const named = { name: "payments", key: (id: string) => id };
const insert = (id: string) => `INSERT INTO ledger VALUES ('${id}')`;

interface PostgresScene {
  readonly url: string;
  readonly pool: pg.Pool;
  guard(options?: Partial<GuardOptions>): Guard;
  rows(): Promise<number>;
}

async function scene(context: TestContext, options: pg.PoolConfig = {}): Promise<PostgresScene> {
  const { url, rows } = await onPostgres(context);
  const [pool, own] = [poolOf(url, options), poolOf(url)];
  onTestFinished(async () => void (await Promise.all([pool.end(), own.end()])));
  return {
    url,
    pool,
    rows,
    guard(more = {}) {
      const guard = createGuard({ store: postgresStore({ client: own }), purgeEveryMs: 0, ...more });
      onTestFinished(async () => void (await guard.close()));
      return guard;
    },
  };
}

test("two deliveries at once commit the work once, and a third one is acknowledged as done before", async (context) => {
  const { pool, guard, rows } = await scene(context);
  const { handle } = consumer(guard(), {
    ...named,
    transaction: pool,
    async work(tx, message, attempt, tried) {
      expectTypeOf(tx).toEqualTypeOf<pg.PoolClient>();
      expectTypeOf(message).toEqualTypeOf<string>();
      await tx.query(insert(message));
      return { attempt: attempt.number, tried: tried.number };
    },
  });
  const id = randomUUID();
  const both = await Promise.all([handle(id), handle(id)]);
  expect(both.map(({ status }) => status).sort()).toEqual(["done", "pending"]);
  expect(both.find(({ status }) => status === "done")).toMatchObject({
    verdict: "acknowledge",
    value: { attempt: 1, tried: 1 },
    recorded: true,
    tries: 1,
  });
  expect(await handle(id)).toEqual({
    status: "done-before",
    verdict: "acknowledge",
    value: { attempt: 1, tried: 1 },
  });
  expect(await rows()).toBe(1);
});

test.for(["commit", "handling"])(
  "EV-18 a process killed after %s, before it acknowledges, leaves one row, and the redelivery is done before",
  async (when, context) => {
    const { url, rows } = await scene(context);
    const id = randomUUID();
    const first = startProcess([CHILD, url, id, when]);
    await first.ended;
    expect(await rows()).toBe(1);
    const second = startProcess([CHILD, url, id, "never"]);
    expect(await second.next()).toEqual({
      status: "done-before",
      verdict: "acknowledge",
      value: first.process.pid,
    });
    expect(await rows()).toBe(1);
  },
);

describe("retries", () => {
  const retry = { max: 2, baseMs: 1 };

  test("each try is its own transaction under the same claim, whose lease is set anew", async (context) => {
    const { pool, guard, rows } = await scene(context);
    const events: ConsumerEvent["kind"][] = [];
    const renewals: number[] = [];
    const limits = { transactionMs: 1_000, storeTimeoutMs: 500 };
    const observed = guard({
      ...limits,
      observer: (event) => event.kind === "renewed" && renewals.push(event.leaseMs),
    });
    const { handle } = consumer(observed, {
      ...named,
      transaction: pool,
      retry,
      onEvent: ({ kind }) => events.push(kind),
      async work(tx, id, attempt, tried) {
        expect(attempt.number).toBe(1);
        await tx.query(insert(id));
        if (tried.number < 3) throw new Error("not yet");
        return tried.number;
      },
    });
    expect(await handle(randomUUID())).toMatchObject({ status: "done", value: 3, tries: 3 });
    expect(events).toEqual(["retrying", "retrying", "done"]);
    expect(await rows()).toBe(1);
    expect(renewals.length).toBe(2);
  });

  test("a failed delivery comes again, its attempts are counted, and the last one is rejected", async (context) => {
    const { pool, guard, rows } = await scene(context);
    const { handle } = consumer(guard(), {
      ...named,
      transaction: pool,
      retry,
      maxAttempts: 2,
      async work(tx, id): Promise<void> {
        await tx.query(insert(id));
        throw new Error("card declined");
      },
    });
    const id = randomUUID();
    expect(await handle(id)).toMatchObject({ status: "failed", verdict: "later", tries: 3, attempts: 1 });
    expect(await handle(id)).toMatchObject({ status: "failed", verdict: "reject", tries: 3, attempts: 2 });
    expect(await rows()).toBe(0);
  });

  test("a permanent error ends the tries and rejects the message", async (context) => {
    const { pool, guard, rows } = await scene(context);
    const { handle } = consumer(guard(), {
      ...named,
      transaction: pool,
      retry,
      isPermanent: () => true,
      async work(tx, id): Promise<void> {
        await tx.query(insert(id));
        throw new Error("no such account");
      },
    });
    expect(await handle(randomUUID())).toMatchObject({ status: "failed", verdict: "reject", tries: 1 });
    expect(await rows()).toBe(0);
  });

  test("a claim that another process took over between two tries is lost: nothing is committed, and the message comes again", async (context) => {
    const { url, pool, guard, rows } = await scene(context);
    const { handle } = consumer(guard(), {
      ...named,
      transaction: pool,
      retry: { max: 2, baseMs: 200, jitter: 0 },
      async work(tx, id): Promise<void> {
        await tx.query(insert(id));
        setTimeout(() => void query(url, "UPDATE nevertwice_records SET token = 'another'"), 50);
        throw new Error("not yet");
      },
    });
    expect(await handle(randomUUID())).toMatchObject({ status: "lease-lost", verdict: "later" });
    expect(await rows()).toBe(0);
  });
});

describe("verdicts", () => {
  test("work that commits by itself is unknown, and comes again", async (context) => {
    const { pool, guard } = await scene(context);
    const { handle } = consumer(guard({ onLapsed: "hold" }), {
      ...named,
      transaction: pool,
      async work(tx, id) {
        await tx.query(insert(id));
        await tx.query("COMMIT");
      },
    });
    const id = randomUUID();
    expect(await handle(id)).toMatchObject({ status: "unknown", verdict: "later" });
    expect(await handle(id)).toMatchObject({ status: "unknown", verdict: "later" });
  });

  test("a database without a free connection is unavailable, and the message comes again", async (context) => {
    const { pool, guard, rows } = await scene(context, { max: 1 });
    const { handle } = consumer(guard({ storeTimeoutMs: 300 }), {
      ...named,
      transaction: pool,
      work: (tx, id) => tx.query(insert(id)).then(() => "paid"),
    });
    const [id, held] = [randomUUID(), await pool.connect()];
    expect(await handle(id)).toMatchObject({ status: "unavailable", verdict: "later" });
    held.release();
    expect(await handle(id)).toMatchObject({ status: "done", value: "paid" });
    expect(await rows()).toBe(1);
  });

  test("a process with little time left gives the transaction no more than that", async (context) => {
    const { pool, guard, rows } = await scene(context);
    const { handle } = consumer(guard(), {
      ...named,
      transaction: pool,
      async work(tx, id) {
        await tx.query(insert(id));
        await new Promise((resolve) => setTimeout(resolve, 5_000).unref());
      },
    });
    const delivery = handle(randomUUID(), { maxLeaseMs: 300 });
    expect(await delivery).toMatchObject({ status: "unavailable", verdict: "later" });
    expect(await rows()).toBe(0);
  });

  test("a failure that the policy remembers is rejected when it comes again", async (context) => {
    const { pool, guard } = await scene(context);
    const { handle } = consumer(guard({ onFailure: "remember" }), {
      ...named,
      transaction: pool,
      work: (): never => {
        throw new Error("card declined");
      },
    });
    const id = randomUUID();
    expect(await handle(id)).toMatchObject({ status: "failed", verdict: "later" });
    expect(await handle(id)).toMatchObject({ status: "failed-before", verdict: "reject" });
  });

  test("a database that does not have the record runs nothing, and no message is lost", async (context) => {
    const { url, guard } = await scene(context);
    const pool = poolOf(await createDatabase(url));
    onTestFinished(() => pool.end());
    let runs = 0;
    const { handle } = consumer(guard(), { ...named, transaction: pool, work: () => ++runs });
    expect(await handle(randomUUID())).toMatchObject({
      status: "failed",
      verdict: "later",
      error: { code: "options-invalid" },
    });
    expect(runs).toBe(0);
  });
});

test("a database that does not fit the store is refused at once", async (context) => {
  const { pool, guard } = await scene(context);
  const work = () => 1;
  const wrong = expect.objectContaining({ code: "options-invalid" });
  expect(() => consumer(guard(), { ...named, transaction: {} as never, work })).toThrow(wrong);
  const elsewhere = createGuard({ store: memoryStore() });
  expect(() => consumer(elsewhere, { ...named, transaction: pool, work })).toThrow(wrong);
});

test("a message is seen once on MariaDB", async (context) => {
  const { url, guard, rows } = await onMysql(context);
  const pool: MysqlPool = poolOn(context, url);
  const { handle } = consumer(guard, {
    ...named,
    transaction: pool,
    async work(tx, id) {
      expectTypeOf(tx).toEqualTypeOf<PoolConnection>();
      await tx.query(insert(id));
    },
  });
  const id = randomUUID();
  expect(await handle(id)).toMatchObject({ status: "done" });
  expect(await handle(id)).toMatchObject({ status: "done-before" });
  expect(await rows()).toBe(1);
});

test("a message is seen once on SQLite, where the work is synchronous", async () => {
  const database = new DatabaseSync(":memory:");
  database.exec("CREATE TABLE ledger (key TEXT)");
  const guard = createGuard({ store: sqliteStore({ database }), purgeEveryMs: 0 });
  onTestFinished(async () => {
    await guard.close();
    database.close();
  });
  const { handle } = consumer(guard, {
    ...named,
    transaction: database,
    retry: { max: 1, baseMs: 1 },
    work(tx, id, _, tried) {
      tx.exec(insert(id));
      if (tried.number === 1) throw new Error("not yet");
    },
  });
  const id = randomUUID();
  expect(await handle(id)).toMatchObject({ status: "done", tries: 2 });
  expect(await handle(id)).toMatchObject({ status: "done-before" });
  expect(database.prepare("SELECT count(*) AS count FROM ledger").get()).toEqual({ count: 1 });
});

test("webhooks and CloudEvents commit their work with the record too", async (context) => {
  const { pool, guard, rows } = await scene(context);
  const shop = guard();
  const hook = webhook(shop, {
    name: "webhooks",
    scheme: standardWebhooks,
    verify: () => true,
    transaction: pool,
    async work(tx, { id }) {
      expectTypeOf(tx).toEqualTypeOf<pg.PoolClient>();
      await tx.query(insert(String(id)));
    },
  });
  const headers = { "webhook-id": "msg_1", "webhook-timestamp": "1", "webhook-signature": "v1,x" };
  for (let times = 0; times < 2; times++)
    expect(await hook.handle({ headers, body: "{}" })).toMatchObject({ status: 204 });
  expect(await rows()).toBe(1);
  const { handleEvent } = cloudEvents(shop, {
    name: "events",
    transaction: pool,
    async work(tx, event) {
      expectTypeOf(tx).toEqualTypeOf<pg.PoolClient>();
      await tx.query(insert(event.id));
    },
  });
  const event = { specversion: "1.0", id: "e1", source: "/shop", type: "paid" };
  expect(await handleEvent(event)).toMatchObject({ status: "done" });
  expect(await handleEvent(event)).toMatchObject({ status: "done-before" });
  expect(await rows()).toBe(2);
});
