/** Tests which settings of Redis are safe, which are refused, and what each survives. */
import { expect, test } from "vitest";
import { diagnose } from "../../../src/core/doctor.ts";
import type { RedisNode } from "../../../src/stores/redis/client.ts";
import { judgeDurability, readReplicas, type ServerFacts } from "../../../src/stores/redis/durability.ts";
import { redisStore } from "../../../src/stores/redis.ts";
import { startRedis } from "../../services/redis.ts";
import type { Server, Settings } from "../../services/server.ts";
import { sharedUrl, startFor } from "../../services/services.ts";
import { ioredis, ioredisCluster, nodeRedis, nodeRedisCluster } from "./clients.ts";
import { claimOf } from "./scene.ts";

const EVICTING: Settings = { maxmemory: "100mb", "maxmemory-policy": "allkeys-lru" };

/** The doctor's findings about a Redis with these settings. */
async function diagnosed({ url }: Server) {
  const { title, rung, survives, refused, notes } = await diagnose(redisStore({ client: ioredis(url) }));
  const answers = Object.fromEntries(
    Object.entries(survives).map(([fault, { survives: is }]) => [fault, is]),
  );
  return { title, rung, survives, answers, refused, notes };
}

test("without an append-only file, claims survive only a crash of our process", async (context) => {
  const found = await diagnosed(await startFor(context, () => startRedis()));
  expect(found.rung).toBe("our-crash");
  expect(found.title).toMatch(/^Redis \d+\.\d+\.\d+, no AOF$/);
  expect(found.survives["store-crash"]).toEqual({
    survives: "no",
    because: "appendonly no: nothing is written to disk",
    raise: "CONFIG SET appendonly yes",
  });
});

test("with snapshots only, the doctor reports that writes after the last one are lost", async (context) => {
  const found = await diagnosed(await startFor(context, () => startRedis({ settings: { save: "3600 1" } })));
  expect(found.rung).toBe("our-crash");
  expect(found.survives["store-crash"].because).toContain("after the last snapshot");
});

test("an append-only file that is flushed every second may lose writes during a flush", async (context) => {
  const found = await diagnosed(
    await startFor(context, () => startRedis({ settings: { appendonly: "yes" } })),
  );
  expect(found.rung).toBe("our-crash");
  expect(found.title).toContain("AOF everysec");
  expect(found.survives["store-crash"]).toEqual({
    survives: "no",
    because: "appendfsync everysec: during a flush, Redis answers before it writes",
    raise: "CONFIG SET appendfsync always",
  });
  expect(found.survives["power-loss"]).toEqual({
    survives: "no",
    because: "appendfsync everysec: up to a second of claims is lost",
    raise: "CONFIG SET appendfsync always",
  });
});

test("an append-only file that is flushed before each answer survives power loss, but a failover is never promised", async (context) => {
  const settings = { appendonly: "yes", appendfsync: "always" };
  const server = await startFor(context, () => startRedis({ settings }));
  const found = await diagnosed(server);
  expect(found.rung).toBe("power-loss");
  expect(found.answers.failover).toBe("no");
  const replicated = await diagnose(redisStore({ client: ioredis(server.url), replicas: 1 }));
  expect(replicated.survives.failover).toMatchObject({
    survives: "no",
    because: expect.stringContaining("usually"),
  });
  await ioredis(server.url).config("SET", "no-appendfsync-on-rewrite", "yes");
  expect(await diagnosed(server)).toMatchObject({ rung: "store-crash" });
  await ioredis(server.url).config("SET", "appendfsync", "no");
  const unflushed = await diagnosed(server);
  expect(unflushed.rung).toBe("store-crash");
  expect(unflushed.survives["power-loss"].because).toContain("appendfsync no");
});

test("every claim is refused while Redis evicts keys", async (context) => {
  const { url } = await startFor(context, () => startRedis({ settings: EVICTING }));
  for (const client of [ioredis(url), await nodeRedis(url)]) {
    const store = redisStore({ client });
    const refused = { code: "store-unsafe", message: expect.stringContaining("maxmemory-policy noeviction") };
    await expect(store.claim(claimOf("t1"))).rejects.toMatchObject(refused);
    await expect(store.claim(claimOf("t2"))).rejects.toMatchObject(refused);
    expect((await diagnose(store)).refused).toContain("evicts claims");
    expect((await diagnose(store)).rung).toBeUndefined();
    await ioredis(url).config("SET", "maxmemory-policy", "noeviction");
    expect(await store.claim(claimOf("t3"))).toMatchObject({ status: "new" });
    await ioredis(url).config("SET", "maxmemory-policy", "volatile-lru");
  }
});

test("an evicting policy without maxmemory is allowed, with a note", async (context) => {
  const settings = { "maxmemory-policy": "allkeys-lru" };
  const server = await startFor(context, () => startRedis({ settings }));
  expect(await redisStore({ client: ioredis(server.url) }).claim(claimOf("t1"))).toMatchObject({
    status: "new",
  });
  const found = await diagnosed(server);
  expect(found.refused).toBeUndefined();
  expect(found.notes).toEqual([
    expect.stringContaining("restored backup"),
    expect.stringContaining("maxmemory-policy is allkeys-lru"),
  ]);
});

test("a Redis that hides its settings is used, and its durability is unknown", async (context) => {
  const { url } = await startFor(context, () => startRedis({ settings: { appendonly: "yes" } }));
  const admin = ioredis(url);
  await admin.call("ACL", "SETUSER", "some", "on", ">p", "~*", "&*", "+@all", "-config", "-info");
  await admin.call("ACL", "SETUSER", "more", "on", ">p", "~*", "&*", "+@all", "-config");
  // A client that sends INFO itself prints a warning.
  const unasking = (address: string) => ioredis(address, { enableReadyCheck: false });
  for (const connect of [unasking, nodeRedis]) {
    const store = redisStore({ client: await connect(url.replace("//", "//some:p@")) });
    expect(await store.claim(claimOf("t1"))).toMatchObject({ status: "new" });
    const hidden = await diagnose(store);
    expect(hidden.survives["store-crash"].survives).toBe("unknown");
    expect(hidden.notes).toEqual([
      expect.stringContaining("restored backup"),
      expect.stringContaining("maxmemory-policy is not readable"),
    ]);

    const partly = await diagnose(redisStore({ client: await connect(url.replace("//", "//more:p@")) }));
    expect(partly.survives["store-crash"].survives).toBe("unknown");
    expect(partly.survives["power-loss"].survives).toBe("unknown");
  }
});

test("every server of a cluster is checked", async (context) => {
  const url = sharedUrl(context, "redisCluster");
  for (const client of [ioredisCluster(url), await nodeRedisCluster(url)]) {
    const found = await diagnose(redisStore({ client }));
    expect(found.title).toMatch(/cluster of 3 masters, no AOF$/);
    expect(found.rung).toBe("our-crash");
  }
});

test("a replica that does not answer is named, and delays nobody for long", async () => {
  const forever = new Promise<unknown>(() => {});
  const replica = (name: string, send: () => Promise<unknown>): RedisNode => ({
    name,
    isReplica: true,
    send,
  });
  const replicas = [
    replica("10.0.0.1:6379", () => forever),
    replica("10.0.0.2:6379", () => Promise.reject(new Error("Connection is closed."))),
    replica("10.0.0.3:6379", async () => "maxmemory_policy:allkeys-lru\r\nmaxmemory:100\r\n"),
  ];
  const { answered, silent } = await readReplicas({ replicas: () => replicas });
  expect(silent).toEqual(["10.0.0.1:6379", "10.0.0.2:6379"]);
  expect(judgeDurability(answered, 0).refused).toContain("(10.0.0.3:6379)");
});

test("the doctor's advice for a cluster can be followed there", () => {
  const server: ServerFacts = {
    ...{ name: "10.0.0.1:6379", version: "7.0.15", role: "master", maxMemory: 0, policy: "noeviction" },
    ...{ hasAof: false, fsync: "everysec", pausesFsync: false, hasSnapshots: false },
  };
  const { survives, title } = judgeDurability([server, { ...server, role: "slave", isReplica: true }], 0);
  expect(title).toBe("Redis 7.0.15 cluster of 1 masters, no AOF");
  expect(survives["power-loss"].raise).toMatch(
    /^on every server of the cluster, replicas included: CONFIG SET/,
  );
  expect(survives.failover.raise).toBe(
    "replicas: 1 makes it rare, not impossible; only another store does, such as etcd or Postgres with a synchronous standby",
  );
  const replicated = judgeDurability([server], 1).survives.failover;
  expect(replicated.because).toBe(
    "WAIT 1: usually survives, but Redis may promote a replica that lacks the last writes",
  );
  expect(replicated.raise).toBeUndefined();
});

test("a cluster survives what its weakest server survives, and a server that evicts is named", () => {
  const strong: ServerFacts = {
    name: "10.0.0.1:6379",
    version: "7.0.15",
    role: "master",
    maxMemory: 1_000,
    policy: "noeviction",
    hasAof: true,
    fsync: "always",
    pausesFsync: false,
    hasSnapshots: true,
  };
  const weak = { ...strong, name: "10.0.0.2:6379", fsync: "everysec" };
  const hidden = { ...strong, name: "10.0.0.3:6379", hasAof: undefined };
  const powerLoss = (...servers: ServerFacts[]) =>
    judgeDurability(servers, 0).survives["power-loss"].survives;
  expect(powerLoss(strong)).toBe("yes");
  expect(powerLoss(strong, weak, strong)).toBe("no");
  expect(powerLoss(weak, strong)).toBe("no");
  expect(powerLoss(strong, hidden)).toBe("unknown");
  expect(powerLoss(hidden, weak)).toBe("no");
  const evicting = { ...weak, policy: "allkeys-lru" };
  expect(judgeDurability([strong, evicting], 0).refused).toContain("(10.0.0.2:6379)");
});

test("a failover is never promised, and the doctor says what makes a loss rarer", () => {
  const facts: ServerFacts = {
    ...{ name: "", version: "7.0.15", role: "master", maxMemory: 0, policy: "noeviction" },
    ...{ hasAof: true, fsync: "always", pausesFsync: false, hasSnapshots: false },
  };
  const failover = (more: Partial<ServerFacts>, replicas: number) =>
    judgeDurability([{ ...facts, ...more }], replicas).survives.failover;
  expect(failover({ minReplicas: 1, followers: 2 }, 0)).toMatchObject({
    survives: "no",
    because: expect.stringContaining("min-replicas-to-write 1 only limits how many"),
  });
  expect(failover({ followers: 2 }, 1)).toMatchObject({
    survives: "no",
    because: expect.stringContaining("2 replicas follow now"),
    raise: expect.stringContaining("replicas: 2"),
  });
  expect(failover({ followers: 2 }, 2)).toEqual({
    survives: "no",
    because: "WAIT 2: usually survives, but Redis may promote a replica that lacks the last writes",
  });
});
