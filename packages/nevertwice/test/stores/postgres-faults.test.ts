/** Tests lost requests, replies and connections, a killed server, and a clock that jumps: no key has two owners. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import postgres from "postgres";
import { describe, expect, onTestFinished, type TestContext, test } from "vitest";
import type { ClaimRequest } from "../../src/core/store.ts";
import { createGuard } from "../../src/index.ts";
import { migrationSql, type PostgresStore, postgresStore } from "../../src/stores/postgres.ts";
import { startPostgres } from "../services/postgres.ts";
import { startProxy } from "../services/proxy.ts";
import { sharedUrl, startFor } from "../services/services.ts";
import {
  claimOf,
  completionOf,
  createDatabase,
  poolOf,
  query,
  until,
  withUser,
} from "./postgres/database.ts";

async function migrated(context: TestContext): Promise<string> {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  await query(url, migrationSql());
  return url;
}

function pooled(url: string): pg.Pool {
  const pool = poolOf(url);
  onTestFinished(() => pool.end());
  return pool;
}

function postgresJs(url: string): postgres.Sql {
  const sql = postgres(url, { max: 4, onnotice: () => {} });
  onTestFinished(() => sql.end({ timeout: 1 }));
  return sql;
}

const CLIENTS = { pg: pooled, "postgres.js": postgresJs };

type Step = (store: PostgresStore, claim: ClaimRequest) => Promise<unknown>;

/** Each step, its answer without a fault, and how it is repeated. */
const STEPS: Readonly<Record<string, { readonly step: Step; readonly answer: unknown }>> = {
  claim: {
    step: (store, claim) => store.claim(claim),
    answer: { status: "new", number: 1, tookOver: false },
  },
  complete: { step: (store, claim) => store.complete(completionOf(claim)), answer: true },
  abandon: { step: (store, { id, token }) => store.abandon({ id, token, as: "released" }), answer: true },
  renew: { step: (store, { id, token }) => store.renew({ id, token, leaseMs: 60_000 }), answer: true },
  read: { step: (store, { id }) => store.read(id), answer: { state: "pending" } },
};

for (const [name, clientOf] of Object.entries(CLIENTS)) {
  describe(`a connection of ${name} that is cut`, () => {
    for (const [method, { step, answer }] of Object.entries(STEPS)) {
      for (const side of ["cutRequest", "cutReply"] as const) {
        test(`${method} after ${side}: the call fails, and its repeat gets the right answer`, async (context) => {
          const proxy = await startProxy(await migrated(context));
          onTestFinished(() => proxy.stop());
          const store = postgresStore({ client: clientOf(proxy.url) });
          const claim = claimOf();
          // Sets up the record and prepares the statement, so that the cut hits the execution only.
          const rehearsal = claimOf();
          await store.claim(rehearsal);
          if (method !== "claim") await step(store, rehearsal);
          if (method !== "claim") await store.claim(claim);
          proxy[side](1, (chunk) => chunk.includes(claim.id));
          await expect(step(store, claim)).rejects.toMatchObject({ code: "unavailable" });
          const again = await step(store, claim);
          if (typeof answer === "object") expect(again).toMatchObject(answer as object);
          else expect(again).toBe(answer);
        });
      }
    }
  });
}

test("a claim whose reply was lost belongs to its token, and is pending for every other", async (context) => {
  const url = await migrated(context);
  const proxy = await startProxy(url);
  onTestFinished(() => proxy.stop());
  const store = postgresStore({ client: pooled(proxy.url) });
  const claim = claimOf();
  await store.claim(claimOf());
  proxy.cutReply(1, (chunk) => chunk.includes(claim.id));
  await expect(store.claim(claim)).rejects.toMatchObject({ code: "unavailable" });
  const other = postgresStore({ client: pooled(url) });
  expect(await other.claim(claimOf(claim.parts.key))).toMatchObject({ status: "pending" });
  expect(await store.claim(claim)).toMatchObject({ status: "new", number: 1 });
});

test("a server that was killed and restarted has every claim that it acknowledged", async (context) => {
  const server = await startFor(context, () => startPostgres());
  await query(server.url, migrationSql());
  const store = postgresStore({ client: pooled(server.url) });
  const owned: ClaimRequest[] = [];
  let isKilled = false;
  const claiming = Array.from({ length: 20 }, async () => {
    while (!isKilled) {
      const claim = claimOf();
      const answer = await store.claim(claim).catch(() => undefined);
      if (answer?.status === "new") owned.push(claim);
    }
  });
  await until(() => owned.length > 300);
  isKilled = true;
  await server.kill();
  await Promise.all(claiming);
  await expect(store.claim(claimOf())).rejects.toMatchObject({ code: "unavailable" });
  await server.restart();
  const records = await Promise.all(owned.map(({ id }) => store.read(id)));
  expect(records.filter((record) => record?.state === "pending")).toHaveLength(owned.length);
});

describe("the subscriber", () => {
  const SUBSCRIBERS = {
    "a pg Pool": (url: string) => pooled(url),
    "a function that makes a pg Client": (url: string) => async () => {
      const client = new pg.Client(url);
      client.on("error", () => {});
      await client.connect();
      return client;
    },
    "the sql of postgres.js": (url: string) => postgresJs(url),
  };

  const listeners =
    "SELECT pid FROM pg_stat_activity WHERE query ILIKE 'listen%' AND datname = current_database()";

  for (const [name, subscriberOf] of Object.entries(SUBSCRIBERS)) {
    test(`${name} that lost its connection wakes the watchers when it is back, and works afterwards`, async (context) => {
      const url = await migrated(context);
      const store = postgresStore({ client: pooled(url), subscriber: subscriberOf(url) });
      onTestFinished(() => store.close());
      const claim = claimOf();
      await store.claim(claim);
      let woken = 0;
      await store.watch?.({ id: claim.id, wake: () => woken++ });
      expect(await query(url, listeners)).toHaveLength(1);
      const [listener] = await query<{ pid: number }>(url, listeners);
      await query(url, `SELECT pg_terminate_backend(${listener?.pid})`);
      // Notifications were missed while disconnected, so the watcher is woken once without a reason.
      await until(() => woken === 1);
      await until(async () => (await query(url, listeners)).length === 1);
      await store.complete(completionOf(claim));
      await until(() => woken === 2);
    });
  }

  test("listens again after the server was unreachable for a while", async (context) => {
    const server = await startFor(context, () => startPostgres({ settings: { fsync: "off" } }));
    await query(server.url, migrationSql());
    const client = pooled(server.url);
    const store = postgresStore({ client, subscriber: client });
    onTestFinished(() => store.close());
    const claim = claimOf();
    await store.claim(claim);
    let woken = 0;
    await store.watch?.({ id: claim.id, wake: () => woken++ });
    await server.kill();
    await new Promise((resolve) => setTimeout(resolve, 500));
    await server.restart();
    await until(() => woken === 1, 30_000);
    // The crash may have lost the mark. A caller that was woken claims, and then watches again.
    await store.watch?.({ id: claim.id, wake: () => woken++ });
    await store.complete(completionOf(claim));
    await until(() => woken >= 2);
  });

  test("fails a watch when it cannot connect, and tries again with the next one", async (context) => {
    const url = await migrated(context);
    const proxy = await startProxy(url);
    onTestFinished(() => proxy.stop());
    const store = postgresStore({ client: pooled(url), subscriber: pooled(proxy.url) });
    onTestFinished(() => store.close());
    proxy.refuse();
    const { id } = claimOf();
    await expect(store.watch?.({ id, wake: () => {} })).rejects.toThrow();
    proxy.heal();
    expect(await store.watch?.({ id, wake: () => {} })).toBeTypeOf("function");
  });

  test("wakes all watchers of thousands of keys that are settled at once", async (context) => {
    const client = pooled(await migrated(context));
    const store = postgresStore({ client, subscriber: client });
    onTestFinished(() => store.close());
    const claims = Array.from({ length: 2_000 }, () => claimOf());
    await Promise.all(claims.map((claim) => store.claim(claim)));
    const woken = new Set<string>();
    await Promise.all(claims.map(({ id }) => store.watch?.({ id, wake: () => woken.add(id) })));
    await Promise.all(claims.map((claim) => store.complete(completionOf(claim))));
    await until(() => woken.size === 2_000);
  });

  test("ignores what other applications send on the channel", async (context) => {
    const url = await migrated(context);
    const client = pooled(url);
    const store = postgresStore({ client, subscriber: client });
    onTestFinished(() => store.close());
    const claim = claimOf();
    await store.claim(claim);
    let woken = 0;
    await store.watch?.({ id: claim.id, wake: () => woken++ });
    const [listening] = await query<{ query: string }>(
      url,
      "SELECT query FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()",
    );
    const channel = listening?.query.match(/"(.*)"/)?.[1];
    for (const payload of ["", "nonsense", "5", "[null, 7, {}]"])
      await query(url, `SELECT pg_notify('${channel}', '${payload}')`);
    await store.complete(completionOf(claim));
    await until(() => woken === 1);
  });
});

describe("a server's clock that jumps by a minute", () => {
  for (const step of [60_000, -60_000]) {
    test(`${step} ms: no owner that renews is taken over, and a stale one is fenced`, async (context) => {
      const server = await startFor(context, () =>
        startPostgres({ clock: true, settings: { fsync: "off" } }),
      );
      await query(server.url, migrationSql());
      const store = postgresStore({ client: pooled(server.url) });
      const key = randomUUID();
      const [owner, rival] = [claimOf(key, { leaseMs: 30_000 }), claimOf(key, { leaseMs: 30_000 })];
      const first = await store.claim(owner);
      server.stepClock(step);
      const { id, token } = owner;
      if (step > 0) {
        // The lease lapsed by the store's clock; an owner that renews before another claim gets it back.
        expect(await store.renew({ id, token, leaseMs: 30_000 })).toBe(true);
        expect(await store.claim(rival)).toMatchObject({ status: "pending" });
        server.stepClock(step);
        const taken = await store.claim(rival);
        expect(taken).toMatchObject({ status: "new", number: 2, tookOver: true });
        if (taken.status === "new" && first.status === "new")
          expect(taken.fence).toBeGreaterThan(first.fence);
        expect(await store.renew({ id, token, leaseMs: 30_000 })).toBe(false);
        expect(await store.complete(completionOf(owner))).toBe(false);
      } else {
        // The deadline is 90 s away: the store shortens it to one lease, and grants the key to no other caller.
        expect(await store.claim(rival)).toEqual({ status: "pending", leaseLeftMs: 30_000, elapsedMs: 0 });
        expect(await store.renew({ id, token, leaseMs: 30_000 })).toBe(true);
        expect(await store.complete(completionOf(owner))).toBe(true);
      }
    });
  }
});

/** What was done to the table, and the server's answer to a claim of a completed key. */
const REFUSALS: Readonly<Record<string, string>> = {
  "a column of another type": "ALTER TABLE nevertwice_records ALTER COLUMN fence TYPE text USING fence::text",
  "a policy that fails":
    "ALTER TABLE nevertwice_records ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; " +
    "CREATE POLICY failing ON nevertwice_records USING (1 / (length(id) - length(id)) = 1)",
};

for (const [what, change] of Object.entries(REFUSALS)) {
  test(`a guard with onUnavailable proceed runs nothing when the server refuses: ${what}`, async (context) => {
    const url = await migrated(context);
    const name = `refused_${randomUUID().slice(0, 8)}`;
    await query(url, `CREATE ROLE ${name} LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO ${name}`);
    for (const clientOf of Object.values(CLIENTS)) {
      const store = postgresStore({ client: clientOf(withUser(url, name)) });
      const guard = createGuard({ store, namespace: "n", purgeEveryMs: 0, onUnavailable: "proceed" });
      let runs = 0;
      const run = () => guard.tryRun({ operation: "o", key: "a" }, () => ++runs);
      if (clientOf === pooled) {
        await run();
        await query(url, change);
        runs = 0;
      }
      expect(await run()).toMatchObject({ error: { code: "store-unsafe" } });
      expect(runs).toBe(0);
    }
    await query(url, `DROP OWNED BY ${name}; DROP ROLE ${name}`);
  });
}
