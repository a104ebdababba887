/** Lost requests, lost replies, lost connections, a killed server, a clock that jumps: nobody owns a key twice. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import postgres from "postgres";
import { describe, expect, onTestFinished, type TestContext, test } from "vitest";
import type { ClaimRequest } from "../../src/core/store.ts";
import { migrationSql, type PostgresStore, postgresStore } from "../../src/stores/postgres.ts";
import { startPostgres } from "../services/postgres.ts";
import { startProxy } from "../services/proxy.ts";
import { sharedUrl, startFor } from "../services/services.ts";
import { claimOf, completionOf, createDatabase, poolOf, query, until } from "./postgres/database.ts";

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

/** Each step, what it answers when all is well, and how it is repeated. */
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
  describe(`a connection that is cut under ${name}`, () => {
    for (const [method, { step, answer }] of Object.entries(STEPS)) {
      for (const side of ["cutRequest", "cutReply"] as const) {
        test(`${method} after ${side}: an honest failure, and the repeat is right`, async (context) => {
          const proxy = await startProxy(await migrated(context));
          onTestFinished(() => proxy.stop());
          const store = postgresStore({ client: clientOf(proxy.url) });
          const claim = claimOf();
          // What the step needs, and its statement prepared: the cut hits the execution and nothing before it.
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

test("a claim whose reply was lost is its own token's, and pending to every other", async (context) => {
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

test("a server that was killed and came back keeps every claim that it answered", async (context) => {
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
    test(`${name} that lost its connection wakes who watches, then and afterwards`, async (context) => {
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
      // What was told while nobody listened is lost, so it is woken for nothing once.
      await until(() => woken === 1);
      await until(async () => (await query(url, listeners)).length === 1);
      await store.complete(completionOf(claim));
      await until(() => woken === 2);
    });
  }

  test("a server that is away for a while is listened to again", async (context) => {
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
    await until(() => woken === 1);
    await store.complete(completionOf(claim));
    await until(() => woken === 2);
  });

  test("one that cannot be reached fails the watch, and the next watch tries again", async (context) => {
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

  test("thousands of keys that are settled at once wake all who watch them", async (context) => {
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

  test("what others send on the channel is ignored", async (context) => {
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
    test(`${step} ms: no healthy owner is taken over while it renews, and a stale one is fenced`, async (context) => {
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
        // It lapsed by the store's clock; the owner that renews before anybody asks has it back.
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
        // The deadline lies 90 s away: it is written down to one lease, and nobody is handed the key.
        expect(await store.claim(rival)).toEqual({ status: "pending", leaseLeftMs: 30_000 });
        expect(await store.renew({ id, token, leaseMs: 30_000 })).toBe(true);
        expect(await store.complete(completionOf(owner))).toBe(true);
      }
    });
  }
});
