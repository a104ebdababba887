/** Tests what a server can be: full, a replica, closed to us, behind its replicas, or on a clock that jumps. */
import { createSentinel } from "redis";
import { expect, test, vi } from "vitest";
import { redisStore } from "../../src/stores/redis.ts";
import { startProxy } from "../services/proxy.ts";
import { startRedis } from "../services/redis.ts";
import { sharedUrl, startFor } from "../services/services.ts";
import { ioredis, nodeRedis } from "./redis/clients.ts";
import { claimOf, fenceOf, keyOf, LEASE_MS } from "./redis/scene.ts";

test("a Redis without free memory refuses claims with store-full, and loses none", async (context) => {
  const { url } = await startFor(context, () => startRedis());
  const store = redisStore({ client: ioredis(url) });
  const first = claimOf("t1");
  await store.claim(first);
  await ioredis(url).config("SET", "maxmemory", "1");
  await expect(store.claim(claimOf("t2"))).rejects.toMatchObject({ code: "store-full", retryable: true });
  expect(await store.claim({ ...first, token: "t3" })).toMatchObject({ status: "pending" });
  expect(await store.read(first.id)).toMatchObject({ token: "t1" });
  await expect(store.complete({ ...first, outcome: "done" })).rejects.toMatchObject({ code: "store-full" });
});

test("a replica is refused for claims and for reads", async (context) => {
  const primary = await startFor(context, () => startRedis({ settings: { "repl-diskless-sync-delay": 0 } }));
  const replica = await startFor(context, () => startRedis());
  const claim = claimOf("t1");
  const store = redisStore({ client: ioredis(primary.url) });
  await store.claim(claim);
  const aside = redisStore({ client: ioredis(replica.url) });
  await aside.claim(claimOf("t0"));
  await ioredis(replica.url).replicaof("127.0.0.1", primary.port);
  const follower = ioredis(replica.url);
  await vi.waitFor(async () => expect(await follower.exists(keyOf(claim.id))).toBe(1), 10_000);

  const refused = { code: "store-unsafe", message: expect.stringContaining("replica") };
  await expect(redisStore({ client: ioredis(replica.url) }).claim(claimOf("t2"))).rejects.toMatchObject(
    refused,
  );
  // A server that was a master at first use, and was then demoted, as in a failover: the next connection may find the master.
  const demoted = { ...refused, code: "unavailable" };
  await expect(aside.claim(claimOf("t2"))).rejects.toMatchObject(demoted);
  const never = claimOf("t3");
  for (const { id, token, leaseMs } of [claim, never]) {
    await expect(aside.read(id)).rejects.toMatchObject(demoted);
    const completed = aside.complete({ id, token, outcome: "done", retentionMs: 1_000 });
    await expect(completed).rejects.toMatchObject(demoted);
    await expect(aside.renew({ id, token, leaseMs })).rejects.toMatchObject(demoted);
    await expect(aside.abandon({ id, token, as: "released" })).rejects.toMatchObject(demoted);
    await expect(aside.forget?.({ id, fence: 1 })).rejects.toMatchObject(demoted);
  }
});

test("a wrong or missing password is refused, and the error says so", async (context) => {
  const { url } = await startFor(context, () => startRedis({ settings: { requirepass: "right" } }));
  const refused = { code: "store-unsafe", message: expect.stringContaining("password") };
  for (const wrong of [url, url.replace("//", "//:wrong@")])
    await expect(redisStore({ client: ioredis(wrong) }).claim(claimOf("t1"))).rejects.toMatchObject(refused);
  const right = redisStore({ client: ioredis(url.replace("//", "//:right@")) });
  expect(await right.claim(claimOf("t1"))).toMatchObject({ status: "new" });
});

test("a user without the permission for scripts is refused, and the error names the commands", async (context) => {
  const { url } = await startFor(context, () => startRedis());
  await ioredis(url).call("ACL", "SETUSER", "few", "on", ">p", "~*", "&*", "+@all", "-@scripting");
  const store = redisStore({ client: ioredis(url.replace("//", "//few:p@")) });
  const refused = { code: "store-unsafe", message: expect.stringContaining("EVALSHA") };
  await expect(store.claim(claimOf("t1"))).rejects.toMatchObject(refused);
});

test("a node of a cluster needs a cluster client", async (context) => {
  const store = redisStore({ client: ioredis(sharedUrl(context, "redisCluster")) });
  // At least one key belongs to another node.
  const claims = Array.from({ length: 30 }, (_, i) => store.claim(claimOf(`t${i}`)));
  const failed = (await Promise.allSettled(claims)).find(({ status }) => status === "rejected");
  expect(failed).toMatchObject({
    reason: { code: "store-unsafe", message: expect.stringContaining("cluster client") },
  });
});

test("a claim counts once a replica has it, and not while the replica is unreachable", async (context) => {
  const primary = await startFor(context, () => startRedis({ settings: { "repl-diskless-sync-delay": 0 } }));
  const replica = await startFor(context, () => startRedis());
  const follower = ioredis(replica.url);
  await follower.replicaof("127.0.0.1", primary.port);
  await vi.waitFor(
    async () => expect(await follower.info("replication")).toContain("master_link_status:up"),
    10_000,
  );

  for (const client of [
    ioredis(primary.url),
    ioredis(primary.url, { enableAutoPipelining: true }),
    await nodeRedis(primary.url),
  ]) {
    const store = redisStore({ client, replicas: 1, replicasTimeoutMs: 300 });
    const claim = claimOf("t1");
    await vi.waitFor(
      async () => expect(await store.claim(claim)).toMatchObject({ status: "new", number: 1 }),
      10_000,
    );
    expect(await follower.exists(keyOf(claim.id))).toBe(1);

    replica.pause();
    const away = { code: "unavailable", message: expect.stringContaining("0 of 1 replicas") };
    const second = claimOf("t2");
    await expect(store.claim(second)).rejects.toMatchObject(away);
    await expect(store.complete({ ...claim, outcome: "done" })).rejects.toMatchObject(away);
    // The repeat finds the step done on the master, and still does not count it.
    await expect(store.complete({ ...claim, outcome: "done" })).rejects.toMatchObject(away);
    expect(await store.claim({ ...second, token: "t3" })).toMatchObject({ status: "pending" });
    replica.resume();

    await vi.waitFor(
      async () => expect(await store.complete({ ...claim, outcome: "done" })).toBe(true),
      10_000,
    );
    await vi.waitFor(
      async () => expect(await store.claim(second)).toMatchObject({ status: "new", number: 1 }),
      10_000,
    );
    expect(await follower.get(keyOf(claim.id))).toMatch(/\ndone$/);
  }
});

test("a connection that was lost during WAIT does not count as replicated", async (context) => {
  const primary = await startFor(context, () => startRedis({ settings: { "repl-diskless-sync-delay": 0 } }));
  const replica = await startFor(context, () => startRedis());
  const proxy = await startFor(context, () => startProxy(primary.url));
  const follower = ioredis(replica.url);
  await follower.replicaof("127.0.0.1", primary.port);
  await vi.waitFor(
    async () => expect(await follower.info("replication")).toContain("master_link_status:up"),
    10_000,
  );
  // This client sends unanswered commands again on its next connection, and nothing before them.
  const client = ioredis(proxy.url, { enableReadyCheck: false, disableClientInfo: true, protocol: 2 });
  const store = redisStore({ client, replicas: 1, replicasTimeoutMs: 2_000 });
  await store.claim(claimOf("t0"));
  replica.pause();
  const answered = proxy.bytesToClient;
  const claimed = store.claim(claimOf("t1"));
  // The claim is answered, and the connection is lost before WAIT is.
  await vi.waitFor(() => expect(proxy.bytesToClient).toBeGreaterThan(answered));
  proxy.cutAll();
  await expect(claimed).rejects.toMatchObject({ code: "unavailable" });
});

test("a repeated step is written again, so that WAIT has a write to wait for", async (context) => {
  const { url } = await startFor(context, () => startRedis());
  const admin = ioredis(url);
  const store = redisStore({ client: ioredis(url) });
  const writes = async () => Number(/rdb_changes_since_last_save:(\d+)/.exec(await admin.info())?.[1]);
  const [completed, abandoned] = [claimOf("t1"), claimOf("t2")];
  await store.claim(completed);
  await store.claim(abandoned);
  await store.complete({ ...completed, outcome: "done" });
  await store.abandon({ ...abandoned, as: "released" });
  const before = await writes();
  const record = await store.read(completed.id);
  expect(await store.complete({ ...completed, outcome: "other" })).toBe(true);
  expect(await store.abandon({ ...abandoned, as: "unknown" })).toBe(true);
  expect(await writes()).toBe(before + 2);
  expect(await store.read(completed.id)).toEqual(record);
});

test("a server clock that jumps a minute takes no key from an owner that renews, and fences one that does not", async (context) => {
  const server = await startFor(context, () => startRedis({ clock: true }));
  const store = redisStore({ client: ioredis(server.url) });
  const [back, ahead] = [claimOf("t1"), claimOf("t1")];
  await store.claim(back);
  server.stepClock(-60_000);
  expect(await store.claim({ ...back, token: "t2" })).toMatchObject({ status: "pending" });
  expect(await store.renew({ ...back })).toBe(true);
  expect(await store.complete({ ...back, outcome: "done" })).toBe(true);

  const fence = fenceOf(await store.claim(ahead));
  server.stepClock(LEASE_MS);
  const successor = await store.claim({ ...ahead, token: "t2" });
  expect(successor).toMatchObject({ status: "new", number: 2, tookOver: true });
  expect(fenceOf(successor)).toBeGreaterThan(fence);
  expect(await store.renew({ ...ahead })).toBe(false);
  expect(await store.complete({ ...ahead, outcome: "late" })).toBe(false);
  server.stepClock(-60_000);
  expect(await store.abandon({ ...ahead, as: "released" })).toBe(false);
  expect(await store.read(ahead.id)).toMatchObject({ token: "t2" });
});

test("a Redis with an append-only file still has its acknowledged claims after it was killed", async (context) => {
  const settings = { appendonly: "yes", appendfsync: "always" };
  const server = await startFor(context, () => startRedis({ settings }));
  const store = redisStore({ client: ioredis(server.url) });
  const claims = Array.from({ length: 50 }, (_, i) => claimOf(`t${i}`));
  await Promise.all(claims.map((each) => store.claim(each)));
  await server.kill();
  await server.restart();
  for (const claim of claims)
    expect(await store.claim({ ...claim, token: "other" })).toMatchObject({ status: "pending" });
  expect(await store.complete({ ...claimOf("t0"), ...claims[0], outcome: "done" })).toBe(true);
});

test("replicas are refused with createSentinel of node-redis, whose repeated step WAIT would not count", () => {
  const client = createSentinel({ name: "shop", sentinelRootNodes: [{ host: "127.0.0.1", port: 1 }] });
  expect(() => redisStore({ client })).not.toThrow();
  expect(() => redisStore({ client, replicas: 1 })).toThrow(/options-invalid: replicas .*createSentinel/);
});
