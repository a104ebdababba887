/** Tests the kinds of stores: a store of your own, memory, Redis, Postgres, DynamoDB and etcd each claim atomically. */
import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import pg from "pg";
import { describe, expect, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { dynamodbStore } from "../../src/stores/dynamodb.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { newParts, tally, workOn } from "../../src/testing/cases/work.ts";
import { GUARANTEES, storeCases } from "../../src/testing/store-cases.ts";
import { startRedis } from "../services/redis.ts";
import { sharedUrl, startFor } from "../services/services.ts";
import { clientOf, newTable } from "./dynamodb/tables.ts";
import { etcdPair } from "./etcd/stores.ts";
import { postgresPair, sqlitePair } from "./shared/scene.ts";

describe("kinds of stores", () => {
  test("idempo: pluggable store port", async (context) => {
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

  test("idempo: in-memory", async () => {
    const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
    let runs = 0;
    const run = () => guard.run({ operation: "pay", key: "k" }, () => ++runs);
    expect([await run(), await run(), runs]).toEqual([1, 1, 1]);
  });

  test("idempo: Redis, atomic script", async (context) => {
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

  test("idempo: background sweep: Redis expires a record itself", async (context) => {
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

  test("idempo: SQL, insert-on-conflict", async (context) => {
    const [one, other] = await postgresPair(context);
    const parts = newParts();
    const [here, there] = [workOn(one, parts), workOn(other, parts)];
    const claims = Array.from({ length: 200 }, (_, index) => (index % 2 ? here : there).attempt().claim());
    expect(tally(await Promise.all(claims))).toEqual({ new: 1, pending: 199 });
  });

  test("DynamoDB: of twenty claims over two stores one is new", async (context) => {
    const url = sharedUrl(context, "dynamodb");
    const client = clientOf(url);
    context.onTestFinished(() => client.destroy());
    const table = await newTable(client);
    const parts = newParts();
    const [here, there] = [1, 2].map(() => workOn(dynamodbStore({ client, table }), parts));
    const claims = Array.from({ length: 20 }, (_, index) => (index % 2 ? here : there)?.attempt().claim());
    const answers = (await Promise.all(claims)).flatMap((answer) => answer ?? []);
    expect(tally(answers)).toEqual({ new: 1, pending: 19 });
  });

  test("etcd: of two hundred claims over two stores one is new", async (context) => {
    const parts = newParts();
    const [here, there] = etcdPair(context).map((store) => workOn(store, parts));
    const claims = Array.from({ length: 200 }, (_, index) => (index % 2 ? here : there)?.attempt().claim());
    const answers = (await Promise.all(claims)).flatMap((answer) => answer ?? []);
    expect(tally(answers)).toEqual({ new: 1, pending: 199 });
  });

  test("idempo: migration helper, expiry index", async (context) => {
    const pool = new pg.Pool({ connectionString: sharedUrl(context, "postgres") });
    context.onTestFinished(() => pool.end());
    const schema = `shared_${randomUUID().replaceAll("-", "")}`;
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

  test("the published cases find a store that lets a stale token complete", async (context) => {
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
