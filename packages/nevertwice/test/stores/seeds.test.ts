/**
 * What idempo and the guide can do with a store, row by row of the list of capabilities, shown on real stores. The rows
 * that are about surfaces, keys and messages are tested with those.
 */
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { DatabaseSync } from "@photostructure/sqlite";
import { Redis } from "ioredis";
import pg from "pg";
import { describe, expect, type TestContext, test } from "vitest";
import { identityOf } from "../../src/core/identity.ts";
import type { GuardEvent } from "../../src/core/observer.ts";
import type { Store } from "../../src/core/store.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { dynamodbStore } from "../../src/stores/dynamodb.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { sqliteStore } from "../../src/stores/sqlite.ts";
import { partsOf, tally, workOn } from "../../src/testing/cases/work.ts";
import { GUARANTEES, storeCases } from "../../src/testing/store-cases.ts";
import { startRedis } from "../services/redis.ts";
import { sharedUrl, startFor } from "../services/services.ts";
import { clientOf, newTable } from "./dynamodb/tables.ts";
import { CLAIMS } from "./seeds/claims.ts";
import { FAILURES } from "./seeds/failures.ts";
import { OUTCOMES } from "./seeds/outcomes.ts";
import type { Rows, Scene } from "./seeds/scene.ts";
import { WINDOWS } from "./seeds/windows.ts";

/** Two stores on the same empty database, each over a connection of its own. */
type Pair = (context: TestContext) => Promise<readonly [Store, Store]>;

const sqlitePair: Pair = async ({ onTestFinished }) => {
  const folder = await mkdtemp(join(tmpdir(), "nevertwice-seeds-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const open = () => {
    const database = new DatabaseSync(join(folder, "records.db"), { timeout: 5_000 });
    onTestFinished(() => database.close());
    return sqliteStore({ database });
  };
  return [open(), open()];
};

const redisPair: Pair = async (context) => {
  const url = sharedUrl(context, "redis");
  const prefix = `seeds:${randomUUID()}:`;
  const connect = () => {
    const client = new Redis(url);
    context.onTestFinished(() => client.disconnect());
    return client;
  };
  const open = () => redisStore({ client: connect(), subscriber: connect(), prefix });
  return [open(), open()];
};

const postgresPair: Pair = async (context) => {
  const connectionString = sharedUrl(context, "postgres");
  const schema = `seeds_${randomUUID().replaceAll("-", "")}`;
  const connect = () => {
    const pool = new pg.Pool({ connectionString });
    context.onTestFinished(() => pool.end());
    return pool;
  };
  const [one, other] = [connect(), connect()];
  await one.query(`CREATE SCHEMA ${schema}`);
  context.onTestFinished(async () => void (await one.query(`DROP SCHEMA ${schema} CASCADE`)));
  const store = postgresStore({ client: one, schema });
  await store.migrate();
  return [store, postgresStore({ client: other, schema })];
};

const PAIRS: Readonly<Record<string, Pair>> = {
  SQLite: sqlitePair,
  Redis: redisPair,
  Postgres: postgresPair,
};

async function sceneOf(context: TestContext, pair: Pair): Promise<Scene> {
  const [store, elsewhere] = await pair(context);
  const namespace = randomUUID();
  return {
    store,
    elsewhere,
    work() {
      const parts = partsOf({ namespace });
      return { here: workOn(store, parts), there: workOn(elsewhere, parts) };
    },
    guard(options) {
      const events: GuardEvent[] = [];
      const observer = (event: GuardEvent) => void events.push(event);
      const guard = createGuard({ store, namespace, observer, purgeEveryMs: 0, ...options });
      context.onTestFinished(async () => void (await guard.close()));
      return { ...guard, events };
    },
    idOf: (operation, key) => identityOf({ namespace, scope: "", operation, key }).id,
    sleep: (ms) => sleep(ms),
  };
}

const EVERYWHERE: Rows = { ...CLAIMS, ...OUTCOMES, ...WINDOWS, ...FAILURES };

for (const [name, pair] of Object.entries(PAIRS))
  describe.concurrent(`on ${name}`, () => {
    for (const [row, { of, check, except = [] }] of Object.entries(EVERYWHERE))
      if (!except.includes(name))
        test(`${row} (${of.join(", ")})`, async (context) => check(await sceneOf(context, pair)));
  });

describe("kinds of stores", () => {
  test("pluggable store port (idempo, the guide)", async (context) => {
    const [real] = await sqlitePair(context);
    const { claim, complete, abandon, renew, read, purge, close } = real;
    const calls: string[] = [];
    const ported: Store = {
      claim: (request) => {
        calls.push("claim");
        return claim(request);
      },
      complete: (request) => {
        calls.push("complete");
        return complete(request);
      },
      ...{ abandon, renew, read, purge, close },
    };
    const guard = createGuard({ store: ported, purgeEveryMs: 0 });
    const run = () => guard.run({ operation: "pay", key: "k" }, () => "paid");
    expect([await run(), await run()]).toEqual(["paid", "paid"]);
    expect(calls).toEqual(["claim", "complete", "claim"]);
  });

  test("in-memory (idempo)", async () => {
    const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
    let runs = 0;
    const run = () => guard.run({ operation: "pay", key: "k" }, () => ++runs);
    expect([await run(), await run(), runs]).toEqual([1, 1, 1]);
  });

  test("Redis, atomic script (idempo)", async (context) => {
    const { url } = await startFor(context, () => startRedis());
    const client = new Redis(url);
    context.onTestFinished(() => client.disconnect());
    const work = workOn(redisStore({ client }));
    await (await work.begin()).complete();
    await client.config("RESETSTAT");
    const again = workOn(redisStore({ client }));
    await (await again.begin()).complete();
    const stats = await client.info("commandstats");
    const callsOf = (command: string) =>
      Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
    expect(callsOf("evalsha")).toBe(2);
    expect(["eval", "watch", "multi", "exec"].map(callsOf)).toEqual([0, 0, 0, 0]);
  });

  test("background sweep (idempo, the guide), which Redis does itself", async (context) => {
    const { url } = await startFor(context, () => startRedis());
    const client = new Redis(url);
    context.onTestFinished(() => client.disconnect());
    const work = workOn(redisStore({ client }));
    await (await work.begin()).complete("paid", 1_000);
    const [key = "", ...others] = await client.keys("*");
    expect(others).toEqual([]);
    const leftMs = await client.pttl(key);
    expect(leftMs).toBeGreaterThan(1_000);
    expect(leftMs).toBeLessThan(3_600_000);
  });

  test("SQL, insert-on-conflict (idempo)", async (context) => {
    const [one, other] = await postgresPair(context);
    const parts = partsOf();
    const [here, there] = [workOn(one, parts), workOn(other, parts)];
    const claims = Array.from({ length: 200 }, (_, index) => (index % 2 ? here : there).attempt().claim());
    expect(tally(await Promise.all(claims))).toEqual({ new: 1, pending: 199 });
  });

  test("conditional-put key-value (the guide)", async (context) => {
    const url = sharedUrl(context, "dynamodb");
    const client = clientOf(url);
    context.onTestFinished(() => client.destroy());
    const table = await newTable(client);
    const parts = partsOf();
    const [here, there] = [1, 2].map(() => workOn(dynamodbStore({ client, table }), parts));
    const claims = Array.from({ length: 20 }, (_, index) => (index % 2 ? here : there)?.attempt().claim());
    const answers = (await Promise.all(claims)).flatMap((answer) => answer ?? []);
    expect(tally(answers)).toEqual({ new: 1, pending: 19 });
  });

  test("migration helper, expiry index (idempo)", async (context) => {
    const pool = new pg.Pool({ connectionString: sharedUrl(context, "postgres") });
    context.onTestFinished(() => pool.end());
    const schema = `seeds_${randomUUID().replaceAll("-", "")}`;
    await pool.query(`CREATE SCHEMA ${schema}`);
    const store = postgresStore({ client: pool, schema });
    await expect(store.read("id")).rejects.toMatchObject({ code: "store-unsafe" });
    await Promise.all([store.migrate(), store.migrate()]);
    await store.migrate();
    expect(await store.read("id")).toBeUndefined();
    const indexes = await pool.query("SELECT indexdef FROM pg_indexes WHERE schemaname = $1", [schema]);
    expect(indexes.rows.some(({ indexdef }) => /\(purge_at\b/.test(indexdef))).toBe(true);
    await pool.query(`DROP SCHEMA ${schema} CASCADE`);
  });

  test("conformance kit for stores (idempo)", async (context) => {
    const [sound] = await sqlitePair(context);
    const kept = { ...sound, close: async () => {} };
    const broken = {
      ...kept,
      complete: async (request: Parameters<Store["complete"]>[0]) => (await sound.complete(request)) || true,
    };
    const stale = (store: Store) =>
      storeCases(() => store).filter(({ guarantee }) => guarantee === "stale-token-refused");
    expect(new Set(storeCases(() => kept).map(({ guarantee }) => guarantee))).toEqual(new Set(GUARANTEES));
    const outcomes = (cases: ReturnType<typeof stale>) => Promise.allSettled(cases.map((each) => each.run()));
    expect((await outcomes(stale(kept))).every(({ status }) => status === "fulfilled")).toBe(true);
    expect((await outcomes(stale(broken))).some(({ status }) => status === "rejected")).toBe(true);
  });
});
