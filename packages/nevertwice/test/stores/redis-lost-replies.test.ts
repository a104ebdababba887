/** Tests that a lost reply is normal: between any request and its reply the connection may go, and then the same is asked again. */
import { describe, expect, test, vi } from "vitest";
import { createGuard } from "../../src/index.ts";
import { redisStore } from "../../src/stores/redis.ts";
import type { FaultProxy } from "../services/proxy.ts";
import { sharedUrl } from "../services/services.ts";
import { ioredis, nodeRedis } from "./redis/clients.ts";
import { claimOf, fenceOf, proxied } from "./redis/scene.ts";

/** Clients that do not repeat commands themselves, so that each answer shows what happened. */
const CLIENTS = [
  ["ioredis", async (url: string) => ioredis(url, { maxRetriesPerRequest: 0 })],
  ["node-redis", (url: string) => nodeRedis(url)],
] as const;

const isScript = (chunk: Buffer): boolean => /evalsha/i.test(chunk.toString("latin1"));

/** Runs a step whose reply is lost, so it fails, and then repeats the same step. */
async function again<T>(proxy: FaultProxy, step: () => Promise<T>): Promise<T> {
  proxy.cutReply(1, isScript);
  await expect(step()).rejects.toMatchObject({ code: "unavailable" });
  return step();
}

describe.for(CLIENTS)("with %s", ([, connect]) => {
  test("a repeated claim, renewal, completion and erasure gets the answer of the lost one", async (context) => {
    const proxy = await proxied(context);
    const store = redisStore({ client: await connect(proxy.url) });
    const claim = claimOf("t1");
    await store.claim(claimOf("t0"));

    const granted = await again(proxy, () => store.claim(claim));
    expect(granted).toMatchObject({ status: "new", number: 1, tookOver: false });
    expect(await again(proxy, () => store.renew({ ...claim }))).toBe(true);
    expect(await again(proxy, () => store.complete({ ...claim, outcome: "done" }))).toBe(true);
    expect(await again(proxy, () => store.claim({ ...claim, token: "t2" }))).toEqual({
      status: "completed",
      outcome: "done",
    });
    expect(await again(proxy, () => store.read(claim.id))).toMatchObject({ outcome: "done" });
    const fence = fenceOf(granted);
    expect(await again(proxy, async () => store.forget?.({ id: claim.id, fence }))).toBe(true);
  });

  test.for(["released", "unknown", "unrun"] as const)(
    "a repeated abandon as %s is true",
    async (as, context) => {
      const proxy = await proxied(context);
      const store = redisStore({ client: await connect(proxy.url) });
      const claim = claimOf("t1");
      await store.claim(claim);
      expect(await again(proxy, () => store.abandon({ ...claim, as }))).toBe(true);
      expect(await store.claim(claim)).toEqual({ status: "pending", leaseLeftMs: 0 });
    },
  );

  test("a request that never arrived changes nothing", async (context) => {
    const proxy = await proxied(context);
    const store = redisStore({ client: await connect(proxy.url) });
    await store.claim(claimOf("t0"));
    const claim = claimOf("t1");
    proxy.cutRequest(1, isScript);
    await expect(store.claim(claim)).rejects.toMatchObject({ code: "unavailable" });
    expect(await store.read(claim.id)).toBeUndefined();
  });

  test("work runs once and returns its result although every reply is lost once", async (context) => {
    const proxy = await proxied(context);
    const store = redisStore({ client: await connect(proxy.url) });
    await store.claim(claimOf("t0"));
    const guard = createGuard({ store, namespace: "redis-tests" });
    const { key } = claimOf("t").parts;
    let runs = 0;
    proxy.cutReply(1, isScript);
    const work = async () => {
      runs++;
      proxy.cutReply(1, isScript);
      return "done";
    };
    expect(await guard.run({ operation: "o", key }, work)).toBe("done");
    expect(await guard.run({ operation: "o", key }, work)).toBe("done");
    expect(runs).toBe(1);
    await guard.close();
  });

  test.for(["hang", "refuse"] as const)(
    "a server that does %s is unavailable in time",
    async (fault, context) => {
      const proxy = await proxied(context);
      const store = redisStore({ client: await connect(proxy.url) });
      await store.claim(claimOf("t0"));
      const guard = createGuard({ store, namespace: "redis-tests", storeTimeoutMs: 200 });
      proxy[fault]();
      if (fault === "refuse") proxy.cutAll();
      const began = performance.now();
      const { key } = claimOf("t").parts;
      const answer = await guard.tryRun({ operation: "o", key }, async () => "done");
      expect(answer.status).toBe("unavailable");
      expect(performance.now() - began).toBeLessThan(4_900);
      proxy.heal();
      await guard.close();
    },
  );
});

test("a command that the client gave up is unavailable", async (context) => {
  const proxy = await proxied(context);
  const client = await nodeRedis(proxy.url, { commandOptions: { timeout: 50 } });
  const store = redisStore({ client });
  await store.claim(claimOf("t0"));
  proxy.refuse();
  proxy.cutAll();
  await vi.waitFor(() => expect(client.isReady).toBe(false));
  await expect(store.claim(claimOf("t1"))).rejects.toMatchObject({ code: "unavailable" });
});

test("a late command from the client's queue does no harm", async (context) => {
  const proxy = await proxied(context);
  const url = sharedUrl(context, "redis");
  const [late, direct] = [redisStore({ client: ioredis(proxy.url) }), redisStore({ client: ioredis(url) })];
  await late.claim(claimOf("t0"));
  const claim = claimOf("t1");
  proxy.refuse();
  proxy.cutAll();
  const queued = late.claim(claim);
  expect(await direct.claim({ ...claim, token: "t2" })).toMatchObject({ status: "new" });
  proxy.heal();
  expect(await queued).toMatchObject({ status: "pending" });
  expect(await direct.complete({ ...claim, token: "t2", outcome: "done" })).toBe(true);
});
