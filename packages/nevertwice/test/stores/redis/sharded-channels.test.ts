/** Tests that waiters on a cluster are woken by sharded pub/sub, whatever its servers, slots and other processes do. */
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { createGuard } from "../../../src/index.ts";
import { type RedisClient, redisStore } from "../../../src/stores/redis.ts";
import { NotInstalled } from "../../services/packages.ts";
import { type Cluster, startRedisCluster } from "../../services/redis-cluster.ts";
import { ioredis, ioredisCluster, nodeRedisCluster } from "./clients.ts";
import { claimOf, keyOf } from "./scene.ts";
import { endMove, MASTERS, planMove, startMove } from "./slot-moves.ts";

const PATIENCE = { timeout: 30_000, interval: 50 };
const OLD = { username: "old", password: "secret" };

type Connect = (url: string) => Promise<RedisClient> | RedisClient;

const plainIoredis: Connect = (url) => ioredisCluster(url);
const CLIENTS: readonly [string, Connect, Connect][] = [
  [
    "ioredis",
    (url) => ioredisCluster(url, { shardedSubscribers: true }),
    (url) => ioredisCluster(url, { shardedSubscribers: true, redisOptions: OLD }),
  ],
  ["node-redis", nodeRedisCluster, (url) => nodeRedisCluster(url, { defaults: OLD })],
];

let cluster: Cluster | undefined;
beforeAll(async () => {
  try {
    cluster = await startRedisCluster();
  } catch (error) {
    if (!(error instanceof NotInstalled)) throw error;
  }
}, 60_000);
afterAll(() => cluster?.stop());

function started(skip: (why: string) => never): Cluster {
  return cluster ?? skip("redis-server is not installed");
}

/** How many connections to the masters are subscribed to this record, by sharded and by plain pub/sub. */
async function subscribers({ nodes }: Cluster, id: string) {
  const count = async (command: string): Promise<number> => {
    const replies = await Promise.all(
      nodes.map(({ url }) => ioredis(url).call("PUBSUB", command, keyOf(id)) as Promise<[string, number]>),
    );
    return replies.reduce((sum, [, number]) => sum + number, 0);
  };
  return { sharded: await count("SHARDNUMSUB"), plain: await count("NUMSUB") };
}

/** How often the masters ran a command, which a script may have done. */
async function countCalls({ nodes }: Cluster, command: string): Promise<number> {
  const infos = await Promise.all(
    nodes.slice(0, MASTERS).map(({ url }) => ioredis(url).info("commandstats")),
  );
  const calls = new RegExp(`cmdstat_${command}:calls=(\\d+),.*failed_calls=0`);
  return infos.reduce((sum, info) => sum + Number(calls.exec(info)?.[1] ?? 0), 0);
}

describe.for(CLIENTS)("with %s", ([, connect, connectOld]) => {
  test("a settlement alone and in a group is published in the slot of its record only", async ({ skip }) => {
    const servers = started(skip);
    const store = redisStore({ client: await connect(servers.url), subscriber: await connect(servers.url) });
    const plainBefore = await countCalls(servers, "publish");
    for (let round = 0; round < 3; round++) {
      const claims = Array.from({ length: 60 }, () => claimOf("t1"));
      await Promise.all(claims.map((claim) => store.claim(claim)));
      const watched = claims.slice(0, 12);
      const wakes = await Promise.all(
        watched.map(async ({ id }) => {
          const wake = vi.fn();
          const end = await store.watch?.({ id, wake });
          return { wake, end };
        }),
      );
      expect(await subscribers(servers, watched[0]?.id ?? "")).toEqual({ sharded: 1, plain: 0 });
      const before = await countCalls(servers, "spublish");
      await Promise.all(claims.map((claim) => store.complete({ ...claim, outcome: "done" })));
      await vi.waitFor(() => {
        for (const { wake } of wakes) expect(wake).toHaveBeenCalled();
      }, PATIENCE);
      expect(await countCalls(servers, "spublish")).toBe(before + claims.length);
      for (const { end } of wakes) end?.();
    }
    expect(await countCalls(servers, "publish")).toBe(plainBefore);
  });

  test("servers that refuse sharded pub/sub, as those before Redis 7, wake waiters by plain pub/sub", async ({
    skip,
  }) => {
    const servers = started(skip);
    const rules = [
      "on",
      `>${OLD.password}`,
      "+@all",
      "~*",
      "&*",
      "-spublish",
      "-ssubscribe",
      "-sunsubscribe",
    ];
    for (const { url } of servers.nodes) await ioredis(url).call("ACL", "SETUSER", OLD.username, ...rules);
    const store = redisStore({
      client: await connectOld(servers.url),
      subscriber: await connectOld(servers.url),
    });
    for (let round = 0; round < 2; round++) {
      const claim = claimOf("t1");
      await store.claim(claim);
      const wake = vi.fn();
      const end = await store.watch?.({ id: claim.id, wake });
      expect(await subscribers(servers, claim.id)).toEqual({ sharded: 0, plain: 1 });
      await store.complete({ ...claim, outcome: "done" });
      await vi.waitFor(() => expect(wake).toHaveBeenCalled(), PATIENCE);
      end?.();
      await vi.waitFor(
        async () => expect(await subscribers(servers, claim.id)).toEqual({ sharded: 0, plain: 0 }),
        PATIENCE,
      );
    }
  });

  test("a watcher whose slot moves to another master is subscribed there", async ({ skip }) => {
    const servers = started(skip);
    const store = redisStore({ client: await connect(servers.url), subscriber: await connect(servers.url) });
    await store.claim(claimOf("t0"));
    const claim = claimOf("t1");
    const wake = vi.fn();
    await store.watch?.({ id: claim.id, wake });
    const move = await planMove(servers, [claim]);
    await startMove(move);
    await endMove(move);
    await vi.waitFor(async () => {
      const moved = await move.to.admin.call("PUBSUB", "SHARDNUMSUB", keyOf(claim.id));
      expect(moved).toEqual([keyOf(claim.id), 1]);
    }, PATIENCE);
    await store.claim(claim);
    wake.mockClear();
    await store.complete({ ...claim, outcome: "done" });
    await vi.waitFor(() => expect(wake).toHaveBeenCalled(), PATIENCE);
  });

  test("a subscriber that lost its connections wakes its watchers when it is back", async ({ skip }) => {
    const servers = started(skip);
    const store = redisStore({ client: await connect(servers.url), subscriber: await connect(servers.url) });
    const claim = claimOf("t1");
    await store.claim(claim);
    const wake = vi.fn();
    await store.watch?.({ id: claim.id, wake });
    for (const { url } of servers.nodes) await ioredis(url).call("CLIENT", "KILL", "TYPE", "pubsub");
    await vi.waitFor(() => expect(wake).toHaveBeenCalled(), PATIENCE);
    wake.mockClear();
    await vi.waitFor(
      async () => expect(await subscribers(servers, claim.id)).toEqual({ sharded: 1, plain: 0 }),
      PATIENCE,
    );
    await store.complete({ ...claim, outcome: "done" });
    await vi.waitFor(() => expect(wake).toHaveBeenCalled(), PATIENCE);
  });

  test("a process that cannot shard and one that can get each other's outcomes", async ({ skip }) => {
    const servers = started(skip);
    const openGuard = async (kind: Connect) => {
      const [client, subscriber] = [await kind(servers.url), await kind(servers.url)];
      return createGuard({
        store: redisStore({ client, subscriber }),
        namespace: "redis-tests",
        purgeEveryMs: 0,
      });
    };
    const [sharded, plain] = [await openGuard(connect), await openGuard(plainIoredis)];
    for (const [owner, waiter] of [
      [sharded, plain],
      [plain, sharded],
    ] as const) {
      const request = { operation: "charge", key: claimOf("t").id };
      let waiting: Promise<unknown> | undefined;
      await owner.run(request, async () => {
        waiting = waiter.run(request, () => "twice");
        await vi.waitFor(async () => {
          const { sharded: some, plain: others } = await anySubscriber(servers);
          expect(some + others).toBeGreaterThan(0);
        }, PATIENCE);
        return "once";
      });
      expect(await waiting).toBe("once");
    }
  });
});

async function anySubscriber({ nodes }: Cluster) {
  const count = async (command: string): Promise<number> => {
    const replies = await Promise.all(
      nodes.map(({ url }) => ioredis(url).call("PUBSUB", command, "nevertwice:*") as Promise<unknown[]>),
    );
    return replies.flat().length;
  };
  return { sharded: await count("SHARDCHANNELS"), plain: await count("CHANNELS") };
}
