/** Tests that a Redis is looked at again and again: its settings, and who answers at its address, change while processes run. */
import { describe, expect, test, vi } from "vitest";
import { diagnose } from "../../src/core/doctor.ts";
import type { Store } from "../../src/core/store.ts";
import { type RedisClient, redisStore } from "../../src/stores/redis.ts";
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

const CLUSTERS: readonly [string, (url: string) => Promise<RedisClient> | RedisClient][] = [
  ["ioredis", ioredisCluster],
  ["node-redis", (url) => nodeRedisCluster(url, { useReplicas: true })],
];

/** Enough claims for every master of a cluster. */
function claimMany(store: Store): Promise<unknown> {
  return Promise.all(Array.from({ length: 30 }, (_, index) => store.claim(claimOf(`t${index}`))));
}

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
  const replica = { code: "unavailable", message: expect.stringContaining("read-only replica") };
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

  test.for(CLUSTERS)(
    "a replica that would evict as the next master is refused (%s)",
    { timeout: 120_000 },
    async ([, connect], context) => {
      const { url, nodes } = await startFor(context, () => startRedisCluster());
      // A master tells clients of its replica once something was written.
      await claimMany(redisStore({ client: ioredisCluster(url) }));
      const replica = nodes[3];
      if (replica === undefined) throw new Error("the cluster has no replicas");
      await setEvicting(replica.url, "allkeys-lru");
      // A client that has just connected may not know every replica yet.
      await vi.waitFor(async () => {
        const store = redisStore({ client: await connect(url) });
        await expect(store.claim(claimOf("t1"))).rejects.toMatchObject(EVICTS);
        const found = await diagnose(store);
        expect(found.refused).toContain(`:${replica.port}`);
        expect(found.survives["store-crash"].raise).toBe(
          "on every server of the cluster, replicas included: CONFIG SET appendonly yes",
        );
        expect(found.survives.failover.raise).toContain("replicas: 1");
      }, 20_000);
      await setEvicting(replica.url, "noeviction");
      const again = async () => redisStore({ client: await connect(url) }).claim(claimOf("t1"));
      expect(await vi.waitFor(again, 20_000)).toMatchObject({ status: "new" });
    },
  );

  test.for(CLUSTERS)(
    "a change of masters causes a check before the next one is due (%s)",
    { timeout: 150_000 },
    async ([, connect], context) => {
      const { url, nodes } = await startFor(context, () => startRedisCluster());
      let now = 0;
      vi.spyOn(performance, "now").mockImplementation(() => now);
      const store = redisStore({ client: await connect(url) });
      await claimMany(store);
      const [first, , , replica] = nodes;
      await setEvicting(first?.url ?? "", "allkeys-lru");
      const admin = ioredis(replica?.url ?? "");
      // Asking again begins the failover again, so it gets time to end.
      const asked = { timeout: 60_000, interval: 3_000 };
      await vi.waitFor(async () => {
        if ((await admin.info("replication")).includes("role:master")) return;
        await admin.cluster("FAILOVER");
        throw new Error("the replica has not taken over yet");
      }, asked);
      const refused = () => {
        // A check that met the failover itself is repeated, long before the next one is due. Slowly, since a busy machine needs
        // seconds until every server knows the new master.
        now = Math.min(now + 10, EVERY_MS / 4);
        return expect(claimMany(store)).rejects.toMatchObject(EVICTS);
      };
      await vi.waitFor(refused, 60_000);
    },
  );
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
