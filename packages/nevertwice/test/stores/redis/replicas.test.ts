/** Tests that with `replicas`, nothing is told that a failover could undo: a step, or the outcome of somebody else's. */
import { describe, expect, test, vi } from "vitest";
import { createGuard } from "../../../src/index.ts";
import { redisStore } from "../../../src/stores/redis.ts";
import { startProxy } from "../../services/proxy.ts";
import { startRedis } from "../../services/redis.ts";
import { startFor } from "../../services/services.ts";
import { ioredis, nodeRedis } from "./clients.ts";
import { startPair } from "./replication.ts";
import { claimOf, fenceOf } from "./scene.ts";

const AWAY = { code: "unavailable", message: expect.stringContaining("0 of 1 replicas") };
const REPLICATED = { replicas: 1, replicasTimeoutMs: 300 };

const CLIENTS = [
  ["ioredis", async (url: string) => ioredis(url)],
  ["node-redis", (url: string) => nodeRedis(url)],
] as const;

describe.for(CLIENTS)("with %s", ([, connect]) => {
  test("a completion is shown to no duplicate, reader or list until a replica has it", async (context) => {
    const { master, cutOff, rejoin } = await startPair(context);
    const ours = redisStore({ client: await connect(master.url), ...REPLICATED });
    const theirs = redisStore({ client: await connect(master.url), ...REPLICATED });
    const claim = claimOf("t1", { fingerprint: "1:a" });
    const { namespace } = claim.parts;
    await vi.waitFor(async () => fenceOf(await ours.claim(claim)), 10_000);
    await theirs.claim(claimOf("t0"));
    cutOff();
    await expect(ours.complete({ ...claim, outcome: "done" })).rejects.toMatchObject(AWAY);

    const again = { ...claim, token: "t2" };
    const calls = {
      replay: () => theirs.claim(again),
      conflict: () => theirs.claim({ ...again, fingerprint: "1:b" }),
      read: () => theirs.read(claim.id),
      list: async () => theirs.list?.({ namespace, limit: 10 }),
    };
    for (const ask of Object.values(calls)) await expect(ask()).rejects.toMatchObject(AWAY);

    rejoin();
    await vi.waitFor(
      async () => expect(await calls.replay()).toEqual({ status: "completed", outcome: "done" }),
      10_000,
    );
    expect(await calls.conflict()).toEqual({ status: "conflict", state: "completed" });
    expect(await calls.read()).toMatchObject({ outcome: "done" });
    expect((await calls.list())?.records.map(({ id }) => id)).toContain(claim.id);
  });
});

test("an outcome that a duplicate got is still the outcome after a failover", async (context) => {
  const { master, replica, cutOff, failOver } = await startPair(context);
  const guardOn = (url: string, replicas: number) => {
    const store = redisStore({ client: ioredis(url), replicas, replicasTimeoutMs: 300 });
    const guard = createGuard({ store, namespace: "redis-tests", purgeEveryMs: 0, drainMs: 1 });
    context.onTestFinished(async () => void (await guard.close()));
    return guard;
  };
  const { parts } = claimOf("t");
  const request = { operation: "charge", key: parts.key };
  const lease = { leaseMs: 2_000, onPending: "reject" } as const;
  const first = guardOn(master.url, 1);
  await vi.waitFor(() => first.run({ operation: "warm", key: parts.key }, () => "warm"), 10_000);
  // The work is done and its outcome is written, but no replica receives it.
  const running = first.run({ ...request, ...lease }, () => {
    cutOff();
    return "first";
  });
  await running;
  const replayed = await guardOn(master.url, 1).tryRun({ ...request, ...lease }, () => "second");
  await failOver();
  const after = guardOn(replica.url, 0);
  const answer = await vi.waitFor(async () => {
    const found = await after.tryRun({ ...request, ...lease }, () => "third");
    if (found.status === "pending") throw new Error("the claim is still pending");
    return found;
  }, 15_000);
  // If a duplicate got an outcome, it is the one that counts.
  const valueIn = (outcome: object) => ("value" in outcome ? outcome.value : undefined);
  expect([undefined, valueIn(answer)]).toContain(valueIn(replayed));
});

test("an erasure or renewal that no replica has is repeated until one has it", async (context) => {
  const { master, cutOff, rejoin } = await startPair(context);
  const store = redisStore({ client: ioredis(master.url), ...REPLICATED });
  const [completed, pending] = [claimOf("t1"), claimOf("t2")];
  const fence = await vi.waitFor(async () => fenceOf(await store.claim(completed)), 10_000);
  await store.claim(pending);
  await store.complete({ ...completed, outcome: "done" });
  cutOff();
  const steps = [
    () => store.renew(pending),
    async () => store.forget?.({ id: completed.id, fence }),
    () => store.abandon({ ...pending, as: "released" }),
  ];
  for (const step of steps) await expect(step()).rejects.toMatchObject(AWAY);
  rejoin();
  await vi.waitFor(async () => expect(await steps[1]?.()).toBe(true), 10_000);
  expect(await steps[2]?.()).toBe(true);
});

test("a replay takes one command, and with replicas also one WAIT and one write", async (context) => {
  const { master } = await startPair(context);
  const proxy = await startFor(context, () => startProxy(master.url));
  const admin = ioredis(master.url);
  const writes = async () => Number(/rdb_changes_since_last_save:(\d+)/.exec(await admin.info())?.[1]);
  for (const [options, commands, written] of [
    [{}, ["EVALSHA"], 0],
    [REPLICATED, ["EVALSHA", "WAIT"], 1],
  ] as const) {
    const store = redisStore({ client: ioredis(proxy.url), ...options });
    const claim = claimOf("t1");
    await vi.waitFor(async () => fenceOf(await store.claim(claim)), 10_000);
    await store.complete({ ...claim, outcome: "done" });
    // The first call of each kind sends the whole script.
    await store.claim({ ...claim, token: "t2" });
    await store.read(claim.id);
    for (const ask of [() => store.claim({ ...claim, token: "t3" }), () => store.read(claim.id)]) {
      const before = await writes();
      const sent = proxy.countRequests("redis");
      await ask();
      expect(sent.names.map((name) => name.toUpperCase())).toEqual(commands);
      expect(await writes()).toBe(before + written);
    }
  }
});

test("a Redis without free memory still replays, also with replicas", async (context) => {
  const { master } = await startPair(context);
  const store = redisStore({ client: ioredis(master.url), ...REPLICATED });
  const claim = claimOf("t1");
  await vi.waitFor(async () => fenceOf(await store.claim(claim)), 10_000);
  await store.complete({ ...claim, outcome: "done" });
  await ioredis(master.url).config("SET", "maxmemory", "1");
  expect(await store.claim({ ...claim, token: "t2" })).toMatchObject({ status: "completed" });
  expect(await store.read(claim.id)).toMatchObject({ outcome: "done" });
});

test("with appendfsync always no other client sees a completion that a crash then loses", async (context) => {
  const settings = { appendonly: "yes", appendfsync: "always" };
  const server = await startFor(context, () => startRedis({ settings }));
  const [writer, reader] = [
    redisStore({ client: ioredis(server.url, { maxRetriesPerRequest: 0 }) }),
    redisStore({ client: ioredis(server.url, { maxRetriesPerRequest: 0 }) }),
  ];
  const claims = Array.from({ length: 200 }, (_, index) => claimOf(`t${index}`));
  await Promise.all(claims.map((claim) => writer.claim(claim)));
  await reader.claim(claimOf("t0"));
  const seen = new Set<string>();
  const completing = claims.map((claim) => writer.complete({ ...claim, outcome: claim.id }));
  const reading = claims.map(async (claim) => {
    const answer = await reader.claim({ ...claim, token: "other" });
    if (answer.status === "completed") seen.add(claim.id);
  });
  const ending = Promise.allSettled([...completing, ...reading]);
  await Promise.race(completing);
  await server.kill();
  await ending;
  await server.restart();
  const after = redisStore({ client: ioredis(server.url) });
  for (const id of seen) expect(await after.read(id)).toMatchObject({ state: "completed", outcome: id });
});
