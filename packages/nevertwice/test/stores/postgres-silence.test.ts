/** Tests connections that a firewall dropped silently: nothing passes, and neither side gets an error. */
import pg from "pg";
import { describe, expect, onTestFinished, type TestContext, test } from "vitest";
import { createGuard } from "../../src/functions/guard.ts";
import { migrationSql, postgresStore } from "../../src/stores/postgres.ts";
import { type FaultProxy, startProxy } from "../services/proxy.ts";
import { sharedUrl } from "../services/services.ts";
import { claimOf, completionOf, createDatabase, poolOf, query, until } from "./postgres/database.ts";

const STORE_TIMEOUT_MS = 8_000;

async function proxied(context: TestContext): Promise<{ readonly url: string; readonly proxy: FaultProxy }> {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  await query(url, migrationSql());
  const proxy = await startProxy(url);
  onTestFinished(() => proxy.stop());
  return { url, proxy };
}

test("a pool whose connections all went silent works again within two store timeouts, even for a single caller", async (context) => {
  const { proxy } = await proxied(context);
  const client = poolOf(proxy.url, { max: 4, idleTimeoutMillis: 0 });
  onTestFinished(() => client.end());
  const store = postgresStore({ client });
  const guard = createGuard({
    store,
    storeTimeoutMs: STORE_TIMEOUT_MS,
    purgeEveryMs: 0,
    drainMs: 1,
  });
  onTestFinished(() => guard.close().then(() => {}));
  const run = (key: string) => guard.run({ operation: "order", key }, async () => "done");
  // Opens every connection of the pool and uses it through the store.
  await Promise.all(Array.from({ length: 8 }, () => store.settings?.()));
  expect(client.totalCount).toBe(4);
  proxy.silence();
  const startedAt = performance.now();
  expect(await run("after")).toBe("done");
  expect(performance.now() - startedAt).toBeLessThan(2 * STORE_TIMEOUT_MS);
  // The silent connections are closed and never used again.
  expect(await Promise.all(["a", "b", "c", "d"].map(run))).toEqual(["done", "done", "done", "done"]);
  expect(performance.now() - startedAt).toBeLessThan(3 * STORE_TIMEOUT_MS);
});

test("a caller that cancels and tries again at once does not get another silent connection", async (context) => {
  const { proxy } = await proxied(context);
  const client = poolOf(proxy.url, { max: 4, idleTimeoutMillis: 0 });
  onTestFinished(() => client.end());
  const store = postgresStore({ client });
  onTestFinished(() => store.close());
  await Promise.all(Array.from({ length: 8 }, () => store.settings?.()));
  expect(client.totalCount).toBe(4);
  proxy.silence();
  const claim = claimOf();
  const caller = new AbortController();
  const before = proxy.requests;
  const cancelled = expect(store.claim({ ...claim, signal: caller.signal })).rejects.toThrow("cancelled");
  await until(() => proxy.requests > before);
  caller.abort();
  // On a silent connection this call would never be answered, since it has no signal.
  expect(await store.claim(claim)).toMatchObject({ status: "new" });
  await cancelled;
});

describe("a subscriber that went silent", () => {
  const SUBSCRIBERS = {
    "a pg Pool": (url: string) => {
      const pool = poolOf(url);
      onTestFinished(() => pool.end());
      return pool;
    },
    "a function that makes a pg Client": (url: string) => async () => {
      const client = new pg.Client(url);
      await client.connect();
      return client;
    },
  };

  for (const [name, subscriberOf] of Object.entries(SUBSCRIBERS)) {
    test(`${name} is detected while a caller watches, and listens again`, async (context) => {
      const { url, proxy } = await proxied(context);
      const client = poolOf(url);
      onTestFinished(() => client.end());
      const store = postgresStore({ client, subscriber: subscriberOf(proxy.url) });
      onTestFinished(() => store.close());
      const claim = claimOf();
      await store.claim(claim);
      let woken = 0;
      await store.watch?.({ id: claim.id, wake: () => woken++ });
      proxy.silence();
      // Notifications were missed while silent, so the watcher is woken once without a reason.
      await until(() => woken === 1, 15_000);
      await store.complete(completionOf(claim));
      await until(() => woken === 2);
    });
  }
});
