/**
 * Tests schedules that break simpler ways to keep records in Redis: an expiry that counts as the lease, a key whose presence
 * counts as its record, a completion that compares the whole text, an erasure that removes the key.
 */
import { expect, type TestContext, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { startProxy } from "../services/proxy.ts";
import { startRedis } from "../services/redis.ts";
import { startFor } from "../services/services.ts";
import { ioredis, nodeRedis } from "./redis/clients.ts";
import { claimOf, fenceOf, keyOf, MARGIN_MS, RETENTION_MS } from "./redis/scene.ts";

const SECOND_MS = 1_000;

async function onMovedClock(context: TestContext): Promise<{
  readonly store: Store;
  readonly url: string;
  step(ms: number): void;
}> {
  const { url, stepClock } = await startFor(context, () => startRedis({ clock: true }));
  return { store: redisStore({ client: ioredis(url) }), url, step: stepClock };
}

test("a renewed lease is the one that counts: no challenger shortens it or takes over before it ends", async (context) => {
  const { store, step } = await onMovedClock(context);
  const claim = claimOf("t1", { leaseMs: 10 * SECOND_MS });
  const challenger = { ...claim, token: "t2" };
  await store.claim(claim);
  expect(await store.renew({ ...claim, leaseMs: 60 * SECOND_MS })).toBe(true);
  for (const left of [60, 40, 20]) {
    const answer = await store.claim(challenger);
    expect(answer).toMatchObject({ status: "pending" });
    const leaseLeftMs = answer.status === "pending" ? answer.leaseLeftMs : 0;
    expect(Math.abs(leaseLeftMs - left * SECOND_MS)).toBeLessThan(10 * SECOND_MS);
    step(20 * SECOND_MS);
  }
  expect(await store.claim(challenger)).toMatchObject({ status: "new", number: 2, tookOver: true });
});

test("a record ends with its retention, although its key stays for the next fence", async (context) => {
  const { store, url, step } = await onMovedClock(context);
  const terms = { leaseMs: SECOND_MS, retentionMs: 5 * SECOND_MS };
  const [completed, released, lapsed] = [claimOf("t1", terms), claimOf("t1", terms), claimOf("t1", terms)];
  const claims = [completed, released, lapsed];
  const fences = await Promise.all(claims.map(async (claim) => fenceOf(await store.claim(claim))));
  await store.complete({ ...completed, outcome: "done" });
  await store.abandon({ ...released, as: "released" });
  step(20 * SECOND_MS);
  for (const [index, claim] of claims.entries()) {
    expect(await ioredis(url).exists(keyOf(claim.id))).toBe(1);
    expect(await store.read(claim.id)).toBeUndefined();
    expect(await store.complete({ ...claim, outcome: "late" })).toBe(false);
    expect(await store.renew(claim)).toBe(false);
    expect(await store.abandon({ ...claim, as: "unknown" })).toBe(false);
    const fence = fences[index] ?? 0;
    expect(await store.forget?.({ id: claim.id, fence })).toBe(false);
    const next = await store.claim({ ...claim, token: "t2" });
    expect(next).toMatchObject({ status: "new", number: 1, tookOver: false });
    expect(fenceOf(next)).toBeGreaterThan(fence);
  }
});

test("an owner completes although its record changed since it was claimed", async (context) => {
  const { store, step } = await onMovedClock(context);
  const changes: ((claim: ReturnType<typeof claimOf>) => Promise<unknown> | undefined)[] = [
    (claim) => store.abandon({ ...claim, as: "unknown" }),
    (claim) => store.renew({ ...claim, leaseMs: 90 * SECOND_MS }),
    (claim) => store.claim(claim),
    (claim) => store.claim({ ...claim, hold: true }),
    (claim) => store.keepStep?.({ ...claim, name: "charge", outcome: "paid" }),
    // The clock goes back, and a challenger writes the lease down.
    (claim) => {
      step(-60 * SECOND_MS);
      return store.claim({ ...claim, token: "t2" });
    },
    async () => step(90 * SECOND_MS),
  ];
  for (const [index, change] of changes.entries()) {
    const claim = claimOf("t1", { leaseMs: 30 * SECOND_MS });
    const fence = fenceOf(await store.claim(claim));
    await change(claim);
    expect([index, await store.complete({ ...claim, outcome: `done ${index}` })]).toEqual([index, true]);
    expect(await store.complete({ ...claim, outcome: "again" })).toBe(true);
    expect(await store.read(claim.id)).toMatchObject({ outcome: `done ${index}`, fence, token: "t1" });
    expect(await store.complete({ ...claim, token: "t2", outcome: "theirs" })).toBe(false);
  }
});

test("a key that was forgotten is new, with a higher fence, also if the clock went back", async (context) => {
  const { store, url, step } = await onMovedClock(context);
  const admin = ioredis(url);
  for (const as of ["released", "unknown"] as const) {
    const claim = claimOf("t1", { fingerprint: "1:secret" });
    const fence = fenceOf(await store.claim(claim));
    await store.keepStep?.({ ...claim, name: "charge", outcome: "secret" });
    await store.abandon({ ...claim, as });
    expect(await store.forget?.({ id: claim.id, fence })).toBe(true);
    expect(await admin.get(keyOf(claim.id))).toBe(`3f${fence}`);
    expect(await admin.pttl(keyOf(claim.id))).toBeLessThanOrEqual(MARGIN_MS);
    expect(await store.read(claim.id)).toBeUndefined();
    expect((await store.list?.({ namespace: claim.parts.namespace, limit: 10 }))?.records).toEqual([]);
    expect(await store.forget?.({ id: claim.id, fence })).toBe(false);
    expect(await store.complete({ ...claim, outcome: "late" })).toBe(false);
    expect(await store.claim({ ...claim, token: "t2", takeover: fence })).toEqual({
      status: "pending",
      leaseLeftMs: 0,
    });
    step(-5 * SECOND_MS);
    const next = await store.claim({ ...claim, token: "t2", fingerprint: "1:other" });
    expect(next).toMatchObject({ status: "new", number: 1, tookOver: false });
    expect(next).not.toHaveProperty("steps");
    expect(fenceOf(next)).toBeGreaterThan(fence);
    await admin.del(keyOf(claim.id));
  }
});

const CLIENTS = [
  ["ioredis", async (url: string) => ioredis(url)],
  ["node-redis", (url: string) => nodeRedis(url)],
] as const;

test.for(CLIENTS)(
  "with %s, a claim whose reply was lost is told the fence of its record, and none of a successor",
  async ([, connect], context) => {
    const { url, step } = await onMovedClock(context);
    const proxy = await startFor(context, () => startProxy(url));
    const store = redisStore({ client: await connect(proxy.url) });
    const other = redisStore({ client: ioredis(url) });
    await store.claim(claimOf("t0"));
    for (const isOvertaken of [false, true]) {
      const claim = claimOf("t1", { leaseMs: 10 * SECOND_MS });
      proxy.cutReply(1, (chunk) => /evalsha/i.test(chunk.toString("latin1")));
      // ioredis sends the claim again by itself, node-redis reports that it was lost.
      const first = await store.claim(claim).catch((error: { code: string }) => error);
      const { fence = 0 } = (await other.read(claim.id)) ?? {};
      expect(fence).toBeGreaterThan(0);
      if (!("code" in first)) expect(first).toMatchObject({ status: "new", fence, number: 1 });
      else expect(first).toMatchObject({ code: "unavailable" });
      if (isOvertaken) {
        step(11 * SECOND_MS);
        expect(fenceOf(await other.claim({ ...claim, token: "t2" }))).toBeGreaterThan(fence);
        expect(await store.claim(claim)).toMatchObject({ status: "pending" });
      } else {
        expect(await store.claim(claim)).toMatchObject({ status: "new", fence, number: 1 });
      }
    }
  },
);

test.for([
  ["without free memory", "maxmemory", "1", "store-full"],
  ["without its replicas", "min-replicas-to-write", "1", "unavailable"],
] as const)(
  "a Redis %s replays and answers pending, also to callers that share a script with a new claim",
  async ([, setting, value, code], context) => {
    const { url } = await startFor(context, () => startRedis());
    const store = redisStore({ client: ioredis(url) });
    const [completed, pending] = [claimOf("t1"), claimOf("t1")];
    await store.claim(completed);
    await store.claim(pending);
    await store.complete({ ...completed, outcome: "done" });
    await ioredis(url).config("SET", setting, value);
    const claims = [claimOf("t2"), { ...completed, token: "t2" }, { ...pending, token: "t2" }, claimOf("t2")];
    const answers = await Promise.allSettled(claims.map((claim) => store.claim(claim)));
    expect(answers).toMatchObject([
      { reason: { code } },
      { value: { status: "completed", outcome: "done" } },
      { value: { status: "pending" } },
      { reason: { code } },
    ]);
  },
);

test("an operator forgets a record on a Redis without free memory", async (context) => {
  const { url } = await startFor(context, () => startRedis());
  const store = redisStore({ client: ioredis(url) });
  const claim = claimOf("t1", { retentionMs: RETENTION_MS });
  const fence = fenceOf(await store.claim(claim));
  await store.abandon({ ...claim, as: "unknown" });
  await ioredis(url).config("SET", "maxmemory", "1");
  expect(await store.forget?.({ id: claim.id, fence })).toBe(true);
  expect(await store.read(claim.id)).toBeUndefined();
});
