/**
 * Tests `outbox.send` inside transactions of real drivers and query builders, and that a notification wakes a relay which
 * would not look again for minutes.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import postgres from "postgres";
import { describe, expect, onTestFinished, type TestContext, test } from "vitest";
import { createOutbox, type OutboxOptions } from "../../src/outbox/index.ts";
import { openOutbox } from "../../src/outbox/open.ts";
import { gate } from "../deferred.ts";
import { sharedUrl } from "../services/services.ts";
import { poolOn } from "./mysql/pools.ts";
import { startRelay } from "./outbox/scene.ts";
import { createDatabase, poolOf } from "./postgres/database.ts";
import { DRIVERS, pgTransactions } from "./transaction/drivers.ts";

/** What a driver could take for a placeholder, an escape, or the end of a text. */
const HOSTILE = "? ?? $1 :name @p1 %s \\ \\' '' \" ` ; -- /* */ \u0000 é 😀\n";
const MINUTES = 600_000;

async function outboxOn(options: OutboxOptions) {
  const outbox = createOutbox({ namespace: randomUUID(), ...options });
  onTestFinished(() => outbox.close());
  await outbox.migrate();
  return outbox;
}

function pooled(url: string): pg.Pool {
  const pool = poolOf(url);
  onTestFinished(() => pool.end());
  return pool;
}

describe("messages are written in the transaction of", () => {
  for (const [name, { database, on, connect }] of Object.entries(DRIVERS))
    test(name, async (context) => {
      const { url } = await on(context);
      const inTransaction = connect(context, url);
      const isPostgres = database === "postgres";
      const outbox = await outboxOn({
        client: isPostgres ? pooled(url) : poolOn(context, url),
        notify: isPostgres,
      });
      const message = { topic: HOSTILE.replace("\0", ""), key: "order ?1", body: { text: HOSTILE } };
      const rolledBack = inTransaction(async (tx) => {
        await outbox.send(tx, message);
        throw new Error("rolled back");
      });
      await expect(rolledBack).rejects.toThrow("rolled back");
      expect((await outbox.list()).messages).toEqual([]);
      const ids = await inTransaction(async (tx, execute) => {
        const first = await outbox.send(tx, message);
        await execute(`INSERT INTO ledger VALUES ('${first}')`);
        return [first, ...(await outbox.sendAll(tx, [message, { ...message, body: 2 }]))];
      });
      const { delivered } = startRelay(outbox);
      await expect.poll(() => delivered.length).toBe(3);
      expect(delivered.map(({ id }) => id)).toEqual(ids);
      expect(delivered[0]).toMatchObject(message);
      expect(delivered[2]).toMatchObject({ ...message, body: 2 });
    });
});

describe("a notification wakes a relay that polls only after minutes", () => {
  const SUBSCRIBERS: Readonly<Record<string, (url: string) => OutboxOptions["subscriber"]>> = {
    "on a pg Pool": pooled,
    "on postgres.js": (url) => {
      const sql = postgres(url, { max: 1 });
      onTestFinished(() => sql.end({ timeout: 1 }));
      return sql;
    },
    "on a client of its own": (url) => async () => {
      const client = new pg.Client(url);
      await client.connect();
      return client;
    },
  };

  const sleepingRelay = async (
    context: TestContext,
    subscriber: (url: string) => OutboxOptions["subscriber"],
  ) => {
    const url = await createDatabase(sharedUrl(context, "postgres"));
    const client = pooled(url);
    const outbox = await outboxOn({ client, subscriber: subscriber(url), notify: true });
    const relay = startRelay(outbox, undefined, { pollMs: MINUTES });
    const send = () => pgTransactions(url)((tx) => outbox.send(tx, { topic: "paid", body: 1 }));
    return { client, send, ...relay };
  };

  for (const [name, subscriber] of Object.entries(SUBSCRIBERS))
    test(name, async (context) => {
      const { send, delivered } = await sleepingRelay(context, subscriber);
      // The first may be found by the relay's first look; the others only by a notification.
      for (const count of [1, 2, 3]) {
        await send();
        await expect.poll(() => delivered.length).toBe(count);
      }
    });

  test("also after the listening connection was lost", async (context) => {
    const { client, send, delivered } = await sleepingRelay(context, pooled);
    await send();
    await expect.poll(() => delivered.length).toBe(1);
    const listening = "FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'listen %'";
    const killed = await client.query(`SELECT pg_terminate_backend(pid) ${listening}`);
    expect(killed.rowCount).toBe(1);
    await send();
    await expect.poll(() => delivered.length).toBe(2);
  });

  test("and a relay finds what was committed before it listened", async (context) => {
    const listens = gate();
    const { send, delivered } = await sleepingRelay(context, (url) => async () => {
      await listens.opened;
      const client = new pg.Client(url);
      await client.connect();
      return client;
    });
    await send();
    await sleep(300);
    listens.open();
    await expect.poll(() => delivered.length).toBe(1);
  });

  test("when it was opened by its URL", async (context) => {
    const url = await createDatabase(sharedUrl(context, "postgres"));
    const outbox = await openOutbox(url, { notify: true });
    onTestFinished(() => outbox.close());
    const { delivered } = startRelay(outbox, undefined, { pollMs: MINUTES });
    for (const count of [1, 2]) {
      await pgTransactions(url)((tx) => outbox.send(tx, { topic: "paid", body: count }));
      await expect.poll(() => delivered.length).toBe(count);
    }
  });
});
