/** Tests cancelled calls: they keep no connection, leave no statement running, and none is granted unnoticed. */
import pg from "pg";
import postgres from "postgres";
import { describe, expect, onTestFinished, type TestContext, test } from "vitest";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { createPostgresJsDriver } from "../../src/stores/postgres/postgres-js-driver.ts";
import { migrationSql, type PostgresClient, postgresStore } from "../../src/stores/postgres.ts";
import { startProxy } from "../services/proxy.ts";
import { sharedUrl, startFor } from "../services/services.ts";
import { claimOf, createDatabase, poolOf, query, until } from "./postgres/database.ts";

const STORE_TIMEOUT_MS = 500;
const CONNECTIONS = 4;
/** Long enough for a busy machine; a statement that is never ended lasts longer. */
const BOUND_MS = 10_000;

/** Queried on a separate connection. Counts the store's statements, without this query. */
const ACTIVE =
  "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND datname = current_database() AND pid <> pg_backend_pid()";

const active = async (url: string) => (await query(url, ACTIVE)).length;

async function migrated(context: TestContext): Promise<string> {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  await query(url, migrationSql());
  return url;
}

/** Locks the store's table, like a careless ALTER TABLE, until the test unlocks it. */
async function lockTable(url: string): Promise<() => Promise<void>> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query("BEGIN; LOCK TABLE nevertwice_records IN ACCESS EXCLUSIVE MODE");
  return () => client.end();
}

interface Given {
  readonly client: PostgresClient;
  /** How many connections are in use. */
  busy(): number;
}

const CLIENTS: Readonly<Record<string, (url: string) => Given>> = {
  pg(url) {
    const client = poolOf(url, { max: CONNECTIONS });
    onTestFinished(() => client.end());
    return { client, busy: () => client.totalCount - client.idleCount };
  },
  "postgres.js"(url) {
    const client = postgres(url, { max: CONNECTIONS, onnotice: () => {} });
    onTestFinished(() => client.end({ timeout: 1 }));
    return { client, busy: () => 0 };
  },
};

function guarded(client: PostgresClient): Guard {
  const guard = createGuard({
    store: postgresStore({ client }),
    storeTimeoutMs: STORE_TIMEOUT_MS,
    purgeEveryMs: 0,
    leaseMs: 60_000,
    drainMs: 1,
  });
  onTestFinished(() => guard.close().then(() => {}));
  return guard;
}

const orders = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ operation: "order", key: `${index}` }));

for (const [name, given] of Object.entries(CLIENTS)) {
  describe(`a table that another session has locked, with ${name}`, () => {
    test("fails calls as unavailable, leaves no connection or statement in use, and works at once after the unlock", async (context) => {
      const url = await migrated(context);
      const { client, busy } = given(url);
      const guard = guarded(client);
      await guard.run({ operation: "order", key: "before" }, async () => "done");
      const unlock = await lockTable(url);
      const refused = await Promise.allSettled(
        orders(8).map((order) => guard.run(order, async () => "never")),
      );
      for (const each of refused)
        expect(each).toMatchObject({ status: "rejected", reason: { code: "unavailable" } });
      // Statements that are still in flight end one by one: no new one is sent.
      await guard.close();
      await until(async () => busy() === 0 && (await active(url)) === 0, BOUND_MS);
      await unlock();
      const next = guarded(client);
      expect(await next.run({ operation: "order", key: "after" }, async () => "done")).toBe("done");
    });

    test("leaves no key claimed by a cancelled call, whenever the lock is released", async (context) => {
      const url = await migrated(context);
      const guard = guarded(given(url).client);
      await guard.run({ operation: "order", key: "before" }, async () => "done");
      for (const [round, lockedMs] of [
        STORE_TIMEOUT_MS,
        2 * STORE_TIMEOUT_MS,
        2.5 * STORE_TIMEOUT_MS,
      ].entries()) {
        const unlock = await lockTable(url);
        const freed = new Promise((resolve) => setTimeout(resolve, lockedMs)).then(unlock);
        const requests = orders(6).map(({ key }) => ({ operation: "order", key: `${round}-${key}` }));
        const answers = await Promise.allSettled(
          requests.map((request) => guard.run(request, async () => "first")),
        );
        await freed;
        // Completed the first time, or given back: no record stays pending for its whole lease.
        for (const [index, request] of requests.entries()) {
          const isDone = answers[index]?.status === "fulfilled";
          await until(async () => {
            const again = await guard.tryRun(request, async () => "second");
            return again.status === (isDone ? "replayed" : "ran");
          }, BOUND_MS);
        }
      }
    });
  });
}

test("a call whose signal has already fired is never sent", async (context) => {
  const url = await migrated(context);
  const store = postgresStore({ client: poolOf(url, { max: 1 }) });
  const claim = claimOf();
  const gone = AbortSignal.abort();
  await expect(store.claim({ ...claim, signal: gone })).rejects.toMatchObject({ code: "unavailable" });
  await expect(store.read(claim.id, { signal: gone })).rejects.toMatchObject({ code: "unavailable" });
  await expect(store.purge(5, { signal: gone })).rejects.toMatchObject({ code: "unavailable" });
  expect(await store.read(claim.id)).toBe(undefined);
});

describe("on one connection of postgres.js", () => {
  const statement = (text: string) => ({ name: "", text });

  test("a cancelled statement that waits behind another one leaves its answer to no other statement", async (context) => {
    const sql = postgres(sharedUrl(context, "postgres"), { max: 1 });
    onTestFinished(() => sql.end({ timeout: 5 }));
    const { run } = createPostgresJsDriver(sql, true);
    await run(statement("SELECT 'connected'"), []);
    let isCancelled = false;
    const slow = run(statement("SELECT pg_sleep(1)::text"), []);
    const cancelled = run(statement("SELECT 'cancelled'"), [], () => isCancelled).catch(() => "cancelled");
    const others = ["one", "two", "three"].map((text) => run(statement(`SELECT '${text}'`), []));
    isCancelled = true;
    await slow;
    await cancelled;
    expect(await Promise.all(others)).toEqual([[["one"]], [["two"]], [["three"]]]);
  });

  test("a statement that is cancelled while it waits for its connection blocks no other statement", async (context) => {
    const url = sharedUrl(context, "postgres");
    const proxy = await startFor(context, () => startProxy(url));
    const sql = postgres(proxy.url, { max: 1 });
    onTestFinished(() => sql.end({ timeout: 5 }));
    const { run } = createPostgresJsDriver(sql, true);
    proxy.latency(200);
    let isCancelled = false;
    const first = run(statement("SELECT 'first'"), [], () => isCancelled).catch(() => "cancelled");
    isCancelled = true;
    await first;
    proxy.latency(0);
    expect(await run(statement("SELECT 'second'"), [])).toEqual([["second"]]);
  });
});
