/** Tests that with `replicas` on a cluster, nothing is told that the loss of a master could undo, whatever its slots do. */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { Store } from "../../../src/core/store.ts";
import { keySlot } from "../../../src/stores/redis/key-slot.ts";
import { type RedisClient, redisStore } from "../../../src/stores/redis.ts";
import { NotInstalled } from "../../services/packages.ts";
import { type Cluster, startRedisCluster } from "../../services/redis-cluster.ts";
import type { Server } from "../../services/server.ts";
import { ioredis, ioredisCluster, nodeRedisCluster } from "./clients.ts";
import { claimOf, keyOf } from "./scene.ts";
import { endMove, MASTERS, type Move, planSlotMove, startMove } from "./slot-moves.ts";

const PATIENCE = { timeout: 30_000, interval: 50 };
const AWAY = { code: "unavailable", message: expect.stringContaining("0 of 1 replicas") };
const LONG_MS = 60_000;

/** Sends unanswered commands again on its next connection, and nothing before them. */
const AGAIN = {
  clusterNodeRetryStrategy: () => 10,
  redisOptions: { enableReadyCheck: false, disableClientInfo: true, protocol: 2 },
} as const;

type Connect = (url: string) => Promise<RedisClient> | RedisClient;

const CLIENTS: readonly [string, Connect][] = [
  ["ioredis", ioredisCluster],
  ["node-redis", nodeRedisCluster],
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

const claimsOf = (token: string, count: number) => Array.from({ length: count }, () => claimOf(token));

/** A store whose records all have one slot, which no other test uses, and a move of this slot. */
async function openOneSlot(servers: Cluster, connect: Connect, replicasTimeoutMs = 100) {
  const prefix = `{${randomUUID()}}:`;
  const move = await planSlotMove(servers, keySlot(prefix));
  const client = await connect(servers.url);
  return { store: redisStore({ client, prefix, replicas: 1, replicasTimeoutMs }), prefix, move };
}

function findReplica({ nodes }: Cluster, { admin, id }: Move["from"]): Promise<Server> {
  return vi.waitFor(async () => {
    const [line] = (await admin.cluster("REPLICAS", id)) as string[];
    const replica = nodes.find(({ port }) => line?.includes(`127.0.0.1:${port}@`));
    if (replica === undefined) throw new Error(`no node is the replica of ${id}`);
    return replica;
  }, PATIENCE);
}

/** Makes this replica the master of its slots, and waits until the one before follows it. */
async function takeOver(replica: Server, before: Server): Promise<void> {
  await ioredis(replica.url).cluster("FAILOVER", "TAKEOVER");
  await before.restart();
  const follows = async () =>
    expect(await ioredis(before.url).info("replication")).toMatch(/role:slave\s[\s\S]*master_link_status:up/);
  await vi.waitFor(follows, PATIENCE);
}

/** Whether one of these replicas has this key. KEYS looks at every slot, also at one that is moving to its master. */
async function isOn(replicas: readonly Server[], key: string): Promise<boolean> {
  const found = await Promise.all(replicas.map(({ url }) => ioredis(url).keys(key)));
  return found.flat().includes(key);
}

/** Pauses them until the work is done. */
async function withPaused(servers: readonly Server[], work: () => Promise<unknown>): Promise<void> {
  for (const server of servers) server.pause();
  try {
    await work();
  } finally {
    for (const server of servers) server.resume();
  }
}

/** Groups are used once each server has shown that it refuses the keys of another one. */
async function warm(store: Store): Promise<void> {
  for (let round = 0; round < 3; round++)
    await vi.waitFor(() => Promise.all(claimsOf("warm", 60).map((claim) => store.claim(claim))), PATIENCE);
}

describe.for(CLIENTS)("with %s", ([, connect]) => {
  test("a claim and its completion count once a replica has them, alone and in a group", async ({ skip }) => {
    const servers = started(skip);
    const store = redisStore({ client: await connect(servers.url), replicas: 1, replicasTimeoutMs: LONG_MS });
    await warm(store);
    for (const count of [1, 60]) {
      const claims = claimsOf("t1", count);
      const answers = await Promise.all(claims.map((claim) => store.claim(claim)));
      for (const answer of answers) expect(answer).toMatchObject({ status: "new", number: 1 });
      for (const { id } of claims) expect(await isOn(servers.nodes.slice(MASTERS), keyOf(id))).toBe(true);
      const done = claims.map((claim) => store.complete({ ...claim, outcome: claim.id }));
      expect(await Promise.all(done)).toEqual(claims.map(() => true));
      const replays = await Promise.all(claims.map((claim) => store.claim({ ...claim, token: "t2" })));
      expect(replays).toEqual(claims.map(({ id }) => ({ status: "completed", outcome: id })));
    }
  });

  test("nothing counts while the replicas are paused, and the repeat with the same token does", async ({
    skip,
  }) => {
    const servers = started(skip);
    const store = redisStore({ client: await connect(servers.url), replicas: 1, replicasTimeoutMs: 100 });
    await warm(store);
    const [completed, single] = [claimOf("t1"), claimOf("t1")];
    await vi.waitFor(() => store.claim(completed), PATIENCE);
    const claims = claimsOf("t1", 60);
    const replicas = servers.nodes.slice(MASTERS);
    await withPaused(replicas, async () => {
      await expect(store.claim(single)).rejects.toMatchObject(AWAY);
      const settled = await Promise.allSettled(claims.map((claim) => store.claim(claim)));
      expect(settled).toEqual(
        claims.map(() => ({ status: "rejected", reason: expect.objectContaining(AWAY) })),
      );
      await expect(store.complete({ ...completed, outcome: "done" })).rejects.toMatchObject(AWAY);
      await expect(store.claim({ ...completed, token: "t2" })).rejects.toMatchObject(AWAY);
      await expect(store.read(completed.id)).rejects.toMatchObject(AWAY);
    });
    for (const claim of [single, ...claims]) {
      const again = () => store.claim(claim);
      expect(await vi.waitFor(again, PATIENCE)).toMatchObject({ status: "new", number: 1 });
    }
    const replay = () => store.claim({ ...completed, token: "t2" });
    expect(await vi.waitFor(replay, PATIENCE)).toEqual({ status: "completed", outcome: "done" });
  });

  test("a step counts by the replicas of the master that took it, also while its slot moves", async ({
    skip,
  }) => {
    const servers = started(skip);
    const { store, prefix, move } = await openOneSlot(servers, connect);
    const [replica, other] = [await findReplica(servers, move.to), await findReplica(servers, move.from)];
    await store.claim(claimOf("t0")).catch(() => {});
    await move.from.admin.del(...((await move.from.admin.keys(`${prefix}*`)) as string[]));
    const [moving, moved] = [claimOf("t1"), claimOf("t1")];
    await startMove(move);
    for (const claim of [moving, moved]) {
      // The source sends a claim of a new key to the target, whose replica has not confirmed it.
      await withPaused([replica], () => expect(store.claim(claim)).rejects.toMatchObject(AWAY));
      await withPaused([other], async () => {
        const again = () => store.claim(claim);
        expect(await vi.waitFor(again, PATIENCE)).toMatchObject({ status: "new", number: 1 });
        expect(await isOn([replica], keyOf(claim.id, prefix))).toBe(true);
        expect(await store.complete({ ...claim, outcome: "done" })).toBe(true);
      });
      if (claim === moving) await endMove(move);
    }
  });

  test("a claim whose master is lost before a replica confirmed it is not granted", async ({ skip }) => {
    const servers = started(skip);
    const { store, prefix, move } = await openOneSlot(servers, connect, LONG_MS);
    await vi.waitFor(() => store.claim(claimOf("t0")), PATIENCE);
    const replica = await findReplica(servers, move.from);
    const claim = claimOf("t1");
    await withPaused([replica], async () => {
      const claimed = expect(store.claim(claim)).rejects.toMatchObject({ code: "unavailable" });
      const isWritten = async () => expect(await move.from.admin.exists(keyOf(claim.id, prefix))).toBe(1);
      await vi.waitFor(isWritten, PATIENCE);
      await move.from.server.kill();
      await claimed;
    });
    await takeOver(replica, move.from.server);
    const again = () => store.claim(claim);
    expect(await vi.waitFor(again, PATIENCE)).toMatchObject({ status: "new", number: 1 });
    expect(await store.claim({ ...claim, token: "t2" })).toMatchObject({ status: "pending" });
    // For the next test, back again.
    await takeOver(move.from.server, replica);
  });
});

test("keys have the prefix of the client, wherever it is set", async ({ skip }) => {
  const servers = started(skip);
  for (const options of [{ keyPrefix: "app:" }, { redisOptions: { keyPrefix: "app:" } }]) {
    const store = redisStore({ client: ioredisCluster(servers.url, options), replicas: 1 });
    const claim = claimOf("t1");
    await vi.waitFor(() => store.claim(claim), PATIENCE);
    expect(await isOn(servers.nodes.slice(MASTERS), keyOf(claim.id, "app:nevertwice:"))).toBe(true);
  }
});

test.for([...CLIENTS, ["ioredis that connects again", (url: string) => ioredisCluster(url, AGAIN)]] as const)(
  "a connection of %s that is lost between a step and its WAIT does not count",
  async ([, connect], { skip }) => {
    const servers = started(skip);
    const { store, prefix, move } = await openOneSlot(servers, connect, LONG_MS);
    await vi.waitFor(() => store.claim(claimOf("t0")), PATIENCE);
    const replica = await findReplica(servers, move.from);
    const claim = claimOf("t1");
    await withPaused([replica], async () => {
      const claimed = expect(store.claim(claim)).rejects.toMatchObject({ code: "unavailable" });
      const isWritten = async () => expect(await move.from.admin.exists(keyOf(claim.id, prefix))).toBe(1);
      await vi.waitFor(isWritten, PATIENCE);
      await move.from.admin.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
      await claimed;
    });
    const again = () => store.claim(claim);
    expect(await vi.waitFor(again, PATIENCE)).toMatchObject({ status: "new", number: 1 });
  },
);
