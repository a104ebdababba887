/** Tests that only the settlement of a record that a process waits for is notified, and that no waiter is forgotten. */
import pg from "pg";
import postgres from "postgres";
import { describe, expect, onTestFinished, type TestContext, test } from "vitest";
import type { ClaimRequest } from "../../src/core/store.ts";
import { createGuard } from "../../src/index.ts";
import { createSubscription } from "../../src/stores/postgres/watch.ts";
import { migrationSql, type PostgresStore, postgresStore } from "../../src/stores/postgres.ts";
import { sharedUrl } from "../services/services.ts";
import { claimOf, completionOf, createDatabase, poolOf, query, until } from "./postgres/database.ts";

/** The names of the statements that a pool has sent, without their hashes; and a hook that runs before each of them. */
interface Wire {
  readonly pool: pg.Pool;
  readonly sent: string[];
  before: (name: string) => Promise<unknown> | undefined;
}

function wireTo(url: string): Wire {
  const pool = poolOf(url);
  onTestFinished(() => pool.end());
  const wire: Wire = { pool, sent: [], before: () => undefined };
  pool.on("connect", (connection) => {
    const send = connection.query.bind(connection) as (
      statement: string | pg.QueryConfig,
    ) => Promise<unknown>;
    connection.query = (async (statement: string | pg.QueryConfig) => {
      const { name = "", text } = typeof statement === "string" ? { text: statement } : statement;
      const purpose = name.match(/^nevertwice_(.*)_[0-9a-f]{16}$/)?.[1] ?? text;
      wire.sent.push(purpose);
      await wire.before(purpose);
      return send(statement);
    }) as typeof connection.query;
  });
  return wire;
}

async function setUp(context: TestContext) {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  await query(url, migrationSql());
  const wire = wireTo(url);
  const store = postgresStore({ client: wire.pool, subscriber: poolOfTest(url) });
  onTestFinished(() => store.close());
  const notified = () => wire.sent.filter((name) => name === "notify").length;
  return { url, wire, store, notified };
}

function poolOfTest(url: string): pg.Pool {
  const pool = poolOf(url);
  onTestFinished(() => pool.end());
  return pool;
}

/** Claims, watches, and returns the claim with how often the watcher was woken. */
async function watched(store: PostgresStore, more: Partial<ClaimRequest> = {}) {
  const claim = claimOf(undefined, more);
  await store.claim(claim);
  const watch = { claim, woken: 0 };
  await store.watch?.({ id: claim.id, wake: () => watch.woken++ });
  return watch;
}

test("settlements that no process waits for are not notified", async (context) => {
  const { store, notified } = await setUp(context);
  const claims = Array.from({ length: 50 }, () => claimOf());
  await Promise.all(claims.map((claim) => store.claim(claim)));
  await Promise.all(claims.slice(25).map(({ id, token }) => store.abandon({ id, token, as: "released" })));
  await Promise.all(claims.slice(0, 25).map((claim) => store.complete(completionOf(claim))));
  const lone = claimOf();
  await store.claim(lone);
  await store.complete(completionOf(lone));
  await store.close();
  expect(notified()).toBe(0);
});

test("a duplicate that is rejected marks nothing", async (context) => {
  const { store, wire, notified } = await setUp(context);
  const guard = createGuard({ store, onPending: "reject", purgeEveryMs: 0 });
  const request = { operation: "charge", key: "order-1" };
  await guard.run(request, async () => {
    expect(await guard.tryRun(request, async () => 2)).toMatchObject({ status: "pending" });
  });
  await guard.close();
  expect(wire.sent).not.toContain("mark");
  expect(notified()).toBe(0);
});

const ENDS: Readonly<Record<string, (store: PostgresStore, claim: ClaimRequest) => Promise<unknown>>> = {
  completion: (store, claim) => store.complete(completionOf(claim)),
  release: (store, { id, token }) => store.abandon({ id, token, as: "released" }),
  "end with an unknown outcome": (store, { id, token }) => store.abandon({ id, token, as: "unknown" }),
};

describe("a process that waits is told of the next", () => {
  for (const [name, end] of Object.entries(ENDS))
    test(name, async (context) => {
      const { store, notified } = await setUp(context);
      const watch = await watched(store);
      expect(watch.woken).toBe(0);
      await end(store, watch.claim);
      await until(() => watch.woken === 1);
      expect(notified()).toBe(1);
    });

  test("completion by a store that has no subscriber", async (context) => {
    const { url, store } = await setUp(context);
    const other = postgresStore({ client: poolOfTest(url) });
    onTestFinished(() => other.close());
    const watch = await watched(store);
    await other.complete(completionOf(watch.claim));
    await until(() => watch.woken === 1);
  });

  test("completion whose answer was lost, once it is repeated", async (context) => {
    const { store, wire } = await setUp(context);
    const watch = await watched(store);
    let isCut = false;
    wire.before = (name) => {
      // The process that was to notify has died after its commit.
      if (name !== "notify" || isCut) return undefined;
      isCut = true;
      return Promise.reject(new Error("cut"));
    };
    await store.complete(completionOf(watch.claim));
    await until(() => isCut);
    expect(await store.complete(completionOf(watch.claim))).toBe(true);
    await until(() => watch.woken === 1);
  });
});

describe("the mark survives", () => {
  const CHANGES: Readonly<
    Record<string, (store: PostgresStore, claim: ClaimRequest) => Promise<ClaimRequest>>
  > = {
    async "a renewal"(store, claim) {
      expect(await store.renew({ id: claim.id, token: claim.token, leaseMs: 60_000 })).toBe(true);
      return claim;
    },
    async "a release and the next claim"(store, claim) {
      await store.abandon({ id: claim.id, token: claim.token, as: "released" });
      const next = { ...claim, token: "next" };
      expect(await store.claim(next)).toMatchObject({ status: "new", number: 2 });
      return next;
    },
    async "a takeover"(store, claim) {
      await store.abandon({ id: claim.id, token: claim.token, as: "unknown" });
      const next = { ...claim, token: "next" };
      expect(await store.claim(next)).toMatchObject({ status: "new", tookOver: true });
      return next;
    },
  };
  for (const [name, change] of Object.entries(CHANGES))
    test(name, async (context) => {
      const { store } = await setUp(context);
      const watch = await watched(store);
      const owner = await change(store, watch.claim);
      const before = watch.woken;
      await store.complete(completionOf(owner));
      await until(() => watch.woken > before);
    });
});

// The next attempt could begin before the process looks again, and its end would not be notified.
describe("a record that ends before it is marked wakes the process at once", () => {
  const { completion, release } = ENDS;
  for (const [name, end] of Object.entries({ completion, release }))
    test(`by its ${name}`, async (context) => {
      const { store, wire, notified } = await setUp(context);
      const claim = claimOf();
      await store.claim(claim);
      // The process already listens, and its mark is late.
      wire.before = (statement) => (statement === "mark" ? end?.(store, claim) : undefined);
      let woken = 0;
      await store.watch?.({ id: claim.id, wake: () => woken++ });
      expect(woken).toBe(1);
      expect(notified()).toBe(0);
    });
});

test("a mark waits for no lock, and a transaction that holds the record wakes the waiters", async (context) => {
  const { url, wire, store } = await setUp(context);
  const pool = poolOfTest(url);
  const transacting = createGuard({
    store: postgresStore({ client: pool, subscriber: pool }),
    purgeEveryMs: 0,
  });
  const waiting = createGuard({ store, purgeEveryMs: 0 });
  const request = { operation: "charge", key: "order-1" };
  const steps: string[] = [];
  const run = transacting.transaction(request, pool, async () => {
    const duplicate = waiting.run(request, async () => "again");
    await until(() => wire.sent.includes("mark"));
    steps.push("marked");
    void duplicate.then(() => steps.push("woken"));
    return "once";
  });
  expect(await run).toBe("once");
  await until(() => steps.length === 2);
  expect(steps).toEqual(["marked", "woken"]);
  await Promise.all([transacting.close(), waiting.close()]);
});

describe("a process listens only while it waits", () => {
  const LISTENING =
    "SELECT pid FROM pg_stat_activity WHERE query ILIKE 'listen%' AND datname = current_database()";
  const SUBSCRIBERS = {
    "a pg Pool": (url: string) => poolOfTest(url),
    "a function that makes a pg Client": (url: string) => async () => {
      const client = new pg.Client(url);
      client.on("error", () => {});
      await client.connect();
      return client;
    },
    "the sql of postgres.js": (url: string) => {
      const sql = postgres(url, { max: 2, onnotice: () => {} });
      onTestFinished(() => sql.end({ timeout: 1 }));
      return sql;
    },
  };
  for (const [name, subscriberOf] of Object.entries(SUBSCRIBERS))
    test(`with ${name}`, async (context) => {
      const url = await createDatabase(sharedUrl(context, "postgres"));
      const times = { pulseMs: 20, idleMs: 100 };
      const subscription = createSubscription(subscriberOf(url), async () => "settled", times);
      onTestFinished(() => subscription.close());
      for (let round = 1; round <= 2; round++) {
        let woken = 0;
        const unwatch = await subscription.watch({ id: "one", wake: () => woken++ });
        await new Promise((resolve) => setTimeout(resolve, 300));
        expect(await query(url, LISTENING)).toHaveLength(1);
        await query(url, `SELECT pg_notify('settled', '["one"]')`);
        await until(() => woken === 1);
        unwatch();
        await until(async () => (await query(url, LISTENING)).length === 0);
      }
    });
});
