/** Tests that a Redis is looked at again and again: its settings, and who answers at its address, change while processes run. */
import { describe, expect, test, vi } from "vitest";
import { redisStore } from "../../src/stores/redis.ts";
import { startProxy } from "../services/proxy.ts";
import { startRedis } from "../services/redis.ts";
import { startRedisCluster } from "../services/redis-cluster.ts";
import { startFor } from "../services/services.ts";
import { ioredis, ioredisCluster, nodeRedis, nodeRedisCluster } from "./redis/clients.ts";
import { claimOf } from "./redis/scene.ts";

const EVICTS = { code: "store-unsafe", message: expect.stringContaining("maxmemory-policy allkeys-lru") };
const EVERY_MS = 10_000;

const CLIENTS = [
  ["ioredis", async (url: string) => ioredis(url)],
  ["node-redis", (url: string) => nodeRedis(url)],
] as const;

/** The clock by which the store knows how old its last check is. */
function clockAhead(): { pass(ms: number): void } {
  let ahead = 0;
  const real = performance.now.bind(performance);
  vi.spyOn(performance, "now").mockImplementation(() => real() + ahead);
  return {
    pass(ms) {
      ahead += ms;
    },
  };
}

async function setEvicting(url: string, policy: string): Promise<void> {
  const admin = ioredis(url);
  await admin.config("SET", "maxmemory", "100mb");
  await admin.config("SET", "maxmemory-policy", policy);
}

describe.for(CLIENTS)("with %s", ([, connect]) => {
  test("a policy that is set or removed while the store is open is noticed at the next check", async (context) => {
    const { url } = await startFor(context, () => startRedis());
    const clock = clockAhead();
    const store = redisStore({ client: await connect(url) });
    await store.claim(claimOf("t1"));
    await setEvicting(url, "allkeys-lru");
    clock.pass(EVERY_MS);
    await expect(store.claim(claimOf("t2"))).rejects.toMatchObject(EVICTS);
    await expect(store.claim(claimOf("t3"))).rejects.toMatchObject(EVICTS);
    await setEvicting(url, "noeviction");
    expect(await store.claim(claimOf("t4"))).toMatchObject({ status: "new" });
  });

  test("the server that answers after a lost connection is checked before the next claim", async (context) => {
    const { url } = await startFor(context, () => startRedis());
    const proxy = await startFor(context, () => startProxy(url));
    const store = redisStore({ client: await connect(proxy.url) });
    await store.claim(claimOf("t1"));
    await setEvicting(url, "allkeys-lru");
    proxy.cutAll();
    // A call in flight may fail with the lost connection; the next one is refused.
    await vi.waitFor(() => expect(store.claim(claimOf("t2"))).rejects.toMatchObject(EVICTS), 10_000);
  });

  test("finished work is still completed on a Redis that the store refuses for claims", async (context) => {
    const { url } = await startFor(context, () => startRedis());
    const clock = clockAhead();
    const store = redisStore({ client: await connect(url) });
    const claim = claimOf("t1");
    await store.claim(claim);
    await setEvicting(url, "allkeys-lru");
    clock.pass(EVERY_MS);
    expect(await store.renew(claim)).toBe(true);
    expect(await store.complete({ ...claim, outcome: "done" })).toBe(true);
  });
});

test("a master that became a replica is refused, even by a step that writes nothing", async (context) => {
  const [server, other] = [
    await startFor(context, () => startRedis()),
    await startFor(context, () => startRedis({ settings: { "repl-diskless-sync-delay": 0 } })),
  ];
  const clock = clockAhead();
  const store = redisStore({ client: ioredis(server.url) });
  const claim = claimOf("t1");
  await store.claim(claim);
  await ioredis(server.url).replicaof("127.0.0.1", other.port);
  clock.pass(EVERY_MS);
  const replica = { code: "store-unsafe", message: expect.stringContaining("read-only replica") };
  await expect(store.claim({ ...claim, token: "t2" })).rejects.toMatchObject(replica);
});

test("between two checks a claim is one command", async (context) => {
  const { url } = await startFor(context, () => startRedis());
  const proxy = await startFor(context, () => startProxy(url));
  const clock = clockAhead();
  const store = redisStore({ client: ioredis(proxy.url) });
  await store.claim(claimOf("t1"));
  const sent = proxy.countRequests("redis");
  clock.pass(1_000);
  await Promise.all([store.claim(claimOf("t2")), store.claim(claimOf("t3"))]);
  expect(sent.count).toBe(1);
  clock.pass(EVERY_MS);
  await Promise.all([store.claim(claimOf("t4")), store.claim(claimOf("t5"))]);
  expect(sent.names.filter((name) => /info/i.test(name))).toHaveLength(1);
});

describe("on a cluster", () => {
  test("each master is checked again, and an unreachable one delays no claim on another", {
    timeout: 120_000,
  }, async (context) => {
    const { url, nodes } = await startFor(context, () => startRedisCluster());
    const clock = clockAhead();
    const stores = [
      redisStore({ client: ioredisCluster(url) }),
      redisStore({ client: await nodeRedisCluster(url) }),
    ];
    for (const store of stores) await store.claim(claimOf("t1"));
    const last = nodes[2];
    if (last === undefined) throw new Error("the cluster has no third master");
    await setEvicting(last.url, "allkeys-lru");
    for (const store of stores) {
      // Claims continue while the masters are checked; the result applies to a later claim.
      clock.pass(EVERY_MS);
      await vi.waitFor(() => expect(store.claim(claimOf("t2"))).rejects.toMatchObject(EVICTS), 10_000);
    }
    await setEvicting(last.url, "noeviction");
    for (const store of stores) await store.claim(claimOf("t3"));
    last.pause();
    clock.pass(EVERY_MS);
    for (const store of stores) {
      const claims = Array.from({ length: 30 }, (_, index) => store.claim(claimOf(`t${index}`)));
      expect(await Promise.any(claims)).toMatchObject({ status: "new" });
      for (const each of claims) each.catch(() => {});
    }
    last.resume();
  });
});

test("a closed store leaves no listener on its client, and stores on one client share their listeners", async (context) => {
  const { url } = await startFor(context, () => startRedis());
  const [client, subscriber] = [ioredis(url), ioredis(url)];
  const listeners = () => ["error", "close"].map((event) => client.listenerCount(event));
  const before = listeners();
  const stores = Array.from({ length: 20 }, () => redisStore({ client, subscriber }));
  expect(listeners()).toEqual(before.map((count) => count + 1));
  for (const store of stores) {
    await store.close();
    await store.close();
  }
  expect(listeners()).toEqual(before);
  expect(subscriber.listenerCount("error")).toBe(1);
});
