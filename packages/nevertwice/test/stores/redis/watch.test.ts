/** Tests that waiters are woken by pub/sub: through what happens to its connection, and on a cluster. */
import { expect, type TestContext, test, vi } from "vitest";
import type { Store } from "../../../src/core/store.ts";
import { type RedisClient, redisStore } from "../../../src/stores/redis.ts";
import { startRedis } from "../../services/redis.ts";
import { sharedUrl, startFor } from "../../services/services.ts";
import { ioredis, ioredisCluster, nodeRedis, nodeRedisCluster } from "./clients.ts";
import { claimOf, keyOf } from "./scene.ts";

/** Counts the wake-ups of one watcher. */
async function watch(store: Store, id: string) {
  const wake = vi.fn();
  const end = await store.watch?.({ id, wake });
  return { wake, end: () => end?.() };
}

const KINDS: readonly [string, (url: string) => Promise<RedisClient> | RedisClient][] = [
  ["ioredis", ioredis],
  ["node-redis", nodeRedis],
];

const CLUSTERS: typeof KINDS = [
  ["ioredis", ioredisCluster],
  ["node-redis", nodeRedisCluster],
];

test.for(KINDS)(
  "watchers of one key share a subscription of %s, which ends with the last watcher",
  async ([, connect], context) => {
    const { url } = await startFor(context, () => startRedis());
    const admin = ioredis(url);
    const channels = async () => (await admin.pubsub("CHANNELS")).length;
    const [client, subscriber] = [await connect(url), await connect(url)];
    // Two stores on one subscriber: when one stops watching, the other must not lose its subscription.
    const [store, another] = [redisStore({ client, subscriber }), redisStore({ client, subscriber })];
    const claim = claimOf("t1");
    await store.claim(claim);
    const watchers = [
      await watch(store, claim.id),
      await watch(store, claim.id),
      await watch(another, claim.id),
    ];
    expect(await admin.pubsub("NUMSUB", keyOf(claim.id))).toEqual([keyOf(claim.id), 1]);
    watchers[0]?.end();
    await store.close();
    expect(await channels()).toBe(1);
    await another.complete({ ...claim, outcome: "done" });
    await vi.waitFor(() => expect(watchers[2]?.wake).toHaveBeenCalledTimes(1));
    expect(watchers[0]?.wake).not.toHaveBeenCalled();
    expect(watchers[1]?.wake).not.toHaveBeenCalled();
    await another.close();
    await vi.waitFor(async () => expect(await channels()).toBe(0));
    expect(await store.read(claim.id)).toMatchObject({ outcome: "done" });
  },
);

test.for(KINDS)("a step that changes nothing wakes no watcher (%s)", async ([, connect], context) => {
  const url = sharedUrl(context, "redis");
  const store = redisStore({ client: await connect(url), subscriber: await connect(url) });
  const claim = claimOf("t1");
  await store.claim(claim);
  const { wake } = await watch(store, claim.id);
  await store.renew({ ...claim });
  await store.complete({ ...claim, token: "t2", outcome: "" });
  await store.abandon({ ...claim, token: "t2", as: "released" });
  await store.complete({ ...claim, outcome: "done" });
  await store.complete({ ...claim, outcome: "done" });
  await store.abandon({ ...claim, as: "released" });
  await vi.waitFor(() => expect(wake).toHaveBeenCalled());
  await store.read(claim.id);
  expect(wake).toHaveBeenCalledTimes(1);
});

test.for(KINDS)(
  "a subscriber of %s that lost its connection wakes its watchers when it is back",
  async ([, connect], context) => {
    const { url } = await startFor(context, () => startRedis());
    const admin = ioredis(url);
    const [client, subscriber] = [await connect(url), await connect(url)];
    const store = redisStore({ client, subscriber });
    const claim = claimOf("t1");
    await store.claim(claim);
    const { wake } = await watch(store, claim.id);
    expect(wake).not.toHaveBeenCalled();
    await admin.call("CLIENT", "KILL", "TYPE", "pubsub");
    // Messages in between were missed, so every waiter must read its record.
    await vi.waitFor(() => expect(wake).toHaveBeenCalled(), 5_000);
    const before = wake.mock.calls.length;
    await store.complete({ ...claim, outcome: "done" });
    await vi.waitFor(() => expect(wake.mock.calls.length).toBeGreaterThan(before));
  },
);

test.for(KINDS)(
  "a subscription that fails rejects, and the next watch subscribes again (%s)",
  async ([, connect], context) => {
    const { url } = await startFor(context, () => startRedis());
    const admin = ioredis(url);
    await admin.call("ACL", "SETUSER", "deaf", "on", ">secret", "+@all", "~*", "resetchannels");
    const deaf = url.replace("//", "//deaf:secret@");
    const store = redisStore({ client: await connect(deaf), subscriber: await connect(deaf) });
    const claim = claimOf("t1");
    await store.claim(claim);
    await expect(watch(store, claim.id)).rejects.toMatchObject({ code: "store-unsafe" });
    await admin.call("ACL", "SETUSER", "deaf", "allchannels");
    const { wake } = await watch(store, claim.id);
    await store.complete({ ...claim, outcome: "done" });
    await vi.waitFor(() => expect(wake).toHaveBeenCalled());
  },
);

test("a user without the permission to publish can still complete", async (context) => {
  const { url } = await startFor(context, () => startRedis());
  await ioredis(url).call("ACL", "SETUSER", "mute", "on", ">secret", "+@all", "~*", "resetchannels");
  const store = redisStore({ client: ioredis(url.replace("//", "//mute:secret@")) });
  const claim = claimOf("t1");
  await store.claim(claim);
  expect(await store.complete({ ...claim, outcome: "done" })).toBe(true);
  expect(await store.claim({ ...claim, token: "t2" })).toEqual({ status: "completed", outcome: "done" });
});

test.for(CLUSTERS)(
  "on a cluster a watcher (%s) is woken for a key on every server",
  async ([, connect], context: TestContext) => {
    const url = sharedUrl(context, "redisCluster");
    const store = redisStore({ client: await connect(url), subscriber: await connect(url) });
    // Enough keys for each of three masters to have some.
    const claims = Array.from({ length: 20 }, (_, i) => claimOf(`t${i}`));
    const wakes = await Promise.all(
      claims.map(async (claim) => {
        await store.claim(claim);
        return watch(store, claim.id);
      }),
    );
    await Promise.all(claims.map((claim) => store.complete({ ...claim, outcome: "done" })));
    await vi.waitFor(() => {
      for (const { wake } of wakes) expect(wake).toHaveBeenCalled();
    });
  },
);

test.for(CLUSTERS)(
  "on a cluster a watcher (%s) that starts while the last one stops is woken",
  async ([, connect], context: TestContext) => {
    const url = sharedUrl(context, "redisCluster");
    const store = redisStore({ client: await connect(url), subscriber: await connect(url) });
    for (let i = 0; i < 20; i++) {
      const [before, claim] = [claimOf("t1"), claimOf("t2")];
      await store.claim(claim);
      const last = await watch(store, before.id);
      last.end();
      if (i % 2 === 1) await new Promise((resolve) => setTimeout(resolve, i % 4));
      const { wake, end } = await watch(store, claim.id);
      await store.complete({ ...claim, outcome: "done" });
      await vi.waitFor(() => expect(wake).toHaveBeenCalled());
      end();
    }
  },
);
