/** What the Redis store adds to the contract: its records and when they are removed, its commands, and its clients. */
import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { type RedisClient, redisStore } from "../../src/stores/redis.ts";
import { deferred } from "../deferred.ts";
import { startProxy } from "../services/proxy.ts";
import { startRedis } from "../services/redis.ts";
import { sharedUrl, startFor } from "../services/services.ts";
import { ioredis, nodeRedis } from "./redis/clients.ts";
import { claimOf, fenceOf, keyOf, LEASE_MS, MARGIN_MS, proxied, RETENTION_MS } from "./redis/scene.ts";

describe("a record in Redis", () => {
  test("is removed by Redis, a margin after it expires, which a completion does not prolong much", async (context) => {
    const client = ioredis(sharedUrl(context, "redis"));
    const store = redisStore({ client });
    const claim = claimOf("t1");
    const left = () => client.pttl(keyOf(claim.id));
    const expectLeft = async (ms: number) => {
      expect(await left()).toBeGreaterThan(ms - 5_000);
      expect(await left()).toBeLessThanOrEqual(ms);
    };
    await store.claim(claim);
    await expectLeft(LEASE_MS + RETENTION_MS + MARGIN_MS);
    await store.renew({ id: claim.id, token: "t1", leaseMs: 10 * LEASE_MS });
    await expectLeft(10 * LEASE_MS + RETENTION_MS + MARGIN_MS);
    await store.claim(claim);
    await expectLeft(LEASE_MS + RETENTION_MS + MARGIN_MS);
    await store.complete({ id: claim.id, token: "t1", outcome: "done", retentionMs: 1_000 });
    await expectLeft(1_000 + MARGIN_MS);

    const longer = { ...claimOf("t1"), outcome: "done", retentionMs: 2 * RETENTION_MS };
    await store.claim({ ...longer, retentionMs: RETENTION_MS });
    await store.complete(longer);
    expect(await client.pttl(keyOf(longer.id))).toBeGreaterThan(2 * RETENTION_MS + MARGIN_MS - 5_000);
    // The time that the claim had set is later by what is left of the lease, and is left as it is.
    const usual = { ...claimOf("t1"), outcome: "done" };
    await store.claim(usual);
    await store.complete(usual);
    expect(await client.pttl(keyOf(usual.id))).toBeGreaterThan(RETENTION_MS + MARGIN_MS);
    expect(await client.pttl(keyOf(usual.id))).toBeLessThanOrEqual(RETENTION_MS + MARGIN_MS + LEASE_MS);
  });

  test("that is held stays until it is decided", async (context) => {
    const client = ioredis(sharedUrl(context, "redis"));
    const store = redisStore({ client });
    const claim = claimOf("t1");
    const left = () => client.pttl(keyOf(claim.id));
    await store.claim(claim);
    expect(await left()).toBeGreaterThan(0);
    await store.claim({ ...claim, hold: true });
    expect(await left()).toBe(-1);
    await store.renew({ id: claim.id, token: "t1", leaseMs: LEASE_MS });
    expect(await left()).toBe(-1);
    await store.abandon({ id: claim.id, token: "t1", as: "unknown" });
    expect(await left()).toBe(-1);

    const lapsed = await store.read(claim.id);
    const successor = { ...claim, token: "t2", takeover: lapsed?.fence };
    expect(await store.claim(successor)).toMatchObject({ status: "new", tookOver: true });
    expect(await left()).toBe(-1);
    await store.complete({ id: claim.id, token: "t2", outcome: "done", retentionMs: 1_000 });
    expect(await left()).toBeGreaterThan(0);
  });

  test("that was held is removed after it is released", async (context) => {
    const client = ioredis(sharedUrl(context, "redis"));
    const store = redisStore({ client });
    const claim = claimOf("t1", { hold: true });
    await store.claim(claim);
    await store.abandon({ id: claim.id, token: "t1", as: "released" });
    expect(await client.pttl(keyOf(claim.id))).toBeGreaterThan(RETENTION_MS);
  });

  test("that a takeover holds stays, although it had an expiry before", async (context) => {
    const client = ioredis(sharedUrl(context, "redis"));
    const store = redisStore({ client });
    const claim = claimOf("t1");
    const fence = fenceOf(await store.claim(claim));
    await store.abandon({ id: claim.id, token: "t1", as: "unknown" });
    await store.claim({ ...claim, token: "t2", hold: true, takeover: fence });
    expect(await client.pttl(keyOf(claim.id))).toBe(-1);
  });

  test("keeps a fence to the last digit, and a lease and a retention of a hundred years", async (context) => {
    const client = ioredis(sharedUrl(context, "redis"));
    const store = redisStore({ client });
    const years = 3_155_760_000_000;
    const claim = claimOf("t1", { leaseMs: years, retentionMs: years });
    const fence = fenceOf(await store.claim(claim));
    expect(await client.get(keyOf(claim.id))).toMatch(`3p${fence} 1 00 0 `);
    const record = await store.read(claim.id);
    expect(record?.keptUntil).toBe((record?.claimedAt ?? 0) + 2 * years);
    expect(fenceOf(await store.claim(claim))).toBe(fence);
  });

  test("may have a token and a fingerprint with any characters", async (context) => {
    const store = redisStore({ client: ioredis(sharedUrl(context, "redis")) });
    const token = "a \\n token \n 3p1 \\\u0000 2 \u{1f4b3}\\";
    const fingerprint = "1: \u0000 '\n\\";
    const claim = claimOf(token, { fingerprint });
    const { id } = claim;
    await store.claim(claim);
    expect(await store.read(id)).toMatchObject({ token, fingerprint });
    expect(await store.claim(claim)).toMatchObject({ status: "new", number: 1 });
    for (const other of ["a \\n token ", token.replaceAll("\n", "\\n"), token.replaceAll("\\n", "\n")])
      expect(await store.renew({ id, token: other, leaseMs: LEASE_MS })).toBe(false);
    expect(await store.renew({ id, token, leaseMs: LEASE_MS })).toBe(true);
    const other = { ...claim, token: "t2", fingerprint: "1: \u0000 '\\n\\" };
    expect(await store.claim(other)).toEqual({ status: "conflict", state: "pending" });
    await store.complete({ id, token, outcome: "d\no\\ne\n", retentionMs: RETENTION_MS });
    expect(await store.claim({ ...claim, token: "t2" })).toEqual({
      status: "completed",
      outcome: "d\no\\ne\n",
    });
  });

  test("accepts times that are not whole milliseconds", async (context) => {
    const store = redisStore({ client: ioredis(sharedUrl(context, "redis")) });
    const claim = claimOf("t1", { leaseMs: 1_000.25, retentionMs: 2_000.5 });
    await store.claim(claim);
    await store.complete({ id: claim.id, token: "t1", outcome: "done", retentionMs: 3_000.75 });
    expect(await store.read(claim.id)).toMatchObject({ state: "completed", outcome: "done" });
  });

  test("of another version is refused by every step, with an error that names the version", async (context) => {
    const client = ioredis(sharedUrl(context, "redis"));
    const prefix = `${randomUUID()}:`;
    const store = redisStore({ client, prefix });
    const claim = claimOf("t1");
    await client.set(keyOf(claim.id, prefix), '3p1 1 0 0 1 1 1 1 0\nt1\n\n["redis-tests","","",""]\n');
    const { id } = claim;
    const refused = { code: "store-unsafe", message: expect.stringContaining("newer nevertwice") };
    await expect(store.claim(claim)).rejects.toMatchObject(refused);
    await expect(store.complete({ id, token: "t1", outcome: "", retentionMs: 1 })).rejects.toMatchObject(
      refused,
    );
    await expect(store.abandon({ id, token: "t1", as: "unrun" })).rejects.toMatchObject(refused);
    await expect(store.renew({ id, token: "t1", leaseMs: 1 })).rejects.toMatchObject(refused);
    await expect(store.read(id)).rejects.toMatchObject(refused);
    await expect(store.forget?.({ id, fence: 1 })).rejects.toMatchObject(refused);
    expect(await client.exists(keyOf(id, prefix))).toBe(1);
  });

  test("takes less than 1,500 bytes with an outcome of a kilobyte", async (context) => {
    const client = ioredis(sharedUrl(context, "redis"));
    const store = redisStore({ client });
    const claim = claimOf(randomUUID(), { fingerprint: `1:${"a".repeat(64)}` });
    await store.claim(claim);
    await store.complete({ ...claim, outcome: "x".repeat(1_000) });
    expect(Number(await client.call("MEMORY", "USAGE", keyOf(claim.id)))).toBeLessThan(1_500);
  });
});

describe("on the wire", () => {
  test("a first call is two round trips and a replay is one", async (context) => {
    const proxy = await proxied(context);
    const store = redisStore({ client: ioredis(proxy.url) });
    // The first claim of a store also reads the settings, and sends the scripts to a server that does not have them.
    const warm = claimOf("t0");
    await store.claim(warm);
    await store.complete({ ...warm, outcome: "done" });

    const sent = proxy.countRequests("redis");
    const claim = claimOf("t1");
    await store.claim(claim);
    await store.complete({ ...claim, outcome: "done" });
    expect(sent.names.map((name) => name.toUpperCase())).toEqual(["EVALSHA", "EVALSHA"]);
    await store.claim({ ...claim, token: "t2" });
    expect(sent.count).toBe(3);
  });

  test("the store sends the scripts again to a server that lost them, and no call fails", async (context) => {
    const { url } = await startFor(context, () => startRedis());
    for (const client of [ioredis(url), await nodeRedis(url)]) {
      const store = redisStore({ client });
      const admin = ioredis(url);
      const claim = claimOf("t1");
      const flushed = async <T>(step: () => Promise<T>): Promise<T> => {
        await admin.script("FLUSH");
        return step();
      };
      expect(await flushed(() => store.claim(claim))).toMatchObject({ status: "new", number: 1 });
      expect(await flushed(() => store.renew({ ...claim, leaseMs: LEASE_MS }))).toBe(true);
      expect(await flushed(() => store.complete({ ...claim, outcome: "done" }))).toBe(true);
      expect(await flushed(() => store.abandon({ ...claim, as: "unrun" }))).toBe(false);
      expect(await flushed(() => store.read(claim.id))).toMatchObject({ outcome: "done" });
      const fence = (await store.read(claim.id))?.fence ?? 0;
      expect(await flushed(async () => store.forget?.({ id: claim.id, fence }))).toBe(true);
    }
  });
});

describe("two applications on one Redis", () => {
  test("are separate if their prefixes differ, whatever else is the same", async (context) => {
    const client = ioredis(sharedUrl(context, "redis"));
    const [ours, theirs] = [randomUUID(), randomUUID()].map((prefix) => redisStore({ client, prefix }));
    const claim = claimOf("t1");
    expect(await ours?.claim(claim)).toMatchObject({ status: "new" });
    expect(await theirs?.claim({ ...claim, token: "t2" })).toMatchObject({ status: "new", number: 1 });
    const page = await theirs?.list?.({ namespace: claim.parts.namespace, limit: 10 });
    expect(page?.records.map(({ token }) => token)).toEqual(["t2"]);
  });

  test("are separate if they use different databases, and only wake each other", async (context) => {
    const url = sharedUrl(context, "redis");
    const store = redisStore({ client: ioredis(url), subscriber: ioredis(url) });
    const other = redisStore({ client: ioredis(url, { db: 1 }) });
    const claim = claimOf("t1");
    await store.claim(claim);
    const woken = new Promise<void>((resolve) => void store.watch?.({ id: claim.id, wake: resolve }));
    expect(await other.claim({ ...claim, token: "t2" })).toMatchObject({ status: "new", number: 1 });
    await other.complete({ ...claim, token: "t2", outcome: "theirs" });
    await woken;
    expect(await store.read(claim.id)).toMatchObject({ state: "pending", token: "t1" });
    expect(await store.claim({ ...claim, token: "t3" })).toMatchObject({ status: "pending" });
  });

  test("find their records when the prefixes contain characters of a pattern", async (context) => {
    const client = ioredis(sharedUrl(context, "redis"), { keyPrefix: "app[1]*:" });
    const store = redisStore({ client, prefix: `\\?${randomUUID()}[a]:` });
    const claim = claimOf("t1");
    await store.claim(claim);
    const page = await store.list?.({ namespace: claim.parts.namespace, limit: 10 });
    expect(page?.records.map(({ id }) => id)).toEqual([claim.id]);
  });
});

describe("a client with its own prefix", () => {
  test("adds the prefix to keys, and waiters are still woken", async (context) => {
    const url = sharedUrl(context, "redis");
    const plain = ioredis(url);
    const clients = [
      { client: ioredis(url, { keyPrefix: "own:" }), subscriber: ioredis(url, { keyPrefix: "own:" }) },
      { client: await nodeRedis(url, { keyPrefix: "own:" }), subscriber: await nodeRedis(url) },
    ];
    for (const given of clients) {
      const store = redisStore(given);
      const claim = claimOf("t1");
      await store.claim(claim);
      expect(await plain.exists(`own:${keyOf(claim.id)}`)).toBe(1);
      const { promise: woken, resolve: wake } = deferred();
      await store.watch?.({ id: claim.id, wake });
      await store.complete({ ...claim, outcome: "done" });
      await woken;
      expect(await store.read(claim.id)).toMatchObject({ outcome: "done" });
    }
  });
});

describe("a list", () => {
  test("shows every record once, however small its pages and however many other keys there are", async (context) => {
    const client = ioredis(sharedUrl(context, "redis"));
    const prefix = `${randomUUID()}:`;
    const store = redisStore({ client, prefix });
    const namespace = randomUUID();
    const claims = Array.from({ length: 60 }, (_, i) => claimOf(`t${i}`, {}, { namespace }));
    const others = Array.from({ length: 300 }, (_, i) => claimOf(`o${i}`, {}, { namespace: "another" }));
    await Promise.all([...claims, ...others].map((each) => store.claim(each)));
    for (const limit of [1, 7, 59, 60, 1_000]) {
      const seen: string[] = [];
      let after: string | undefined;
      do {
        const page = await store.list?.({ namespace, limit, after });
        expect(page?.records.length).toBeLessThanOrEqual(limit);
        seen.push(...(page?.records ?? []).map(({ id }) => id));
        after = page?.next;
      } while (after !== undefined);
      expect(seen.toSorted()).toEqual(claims.map(({ id }) => id).toSorted());
    }
  });

  test("shows the remaining records when some are removed between its pages", async (context) => {
    const client = ioredis(sharedUrl(context, "redis"));
    const prefix = `${randomUUID()}:`;
    const store = redisStore({ client, prefix });
    const namespace = randomUUID();
    const claims = Array.from({ length: 60 }, (_, i) => claimOf(`t${i}`, {}, { namespace }));
    await Promise.all(claims.map((each) => store.claim(each)));
    let page = await store.list?.({ namespace, limit: 1 });
    const seen = new Set(page?.records.map(({ id }) => id));
    const [going, staying] = [claims.slice(0, 30), claims.slice(30)];
    await Promise.all(going.map(({ id }) => client.del(keyOf(id, prefix))));
    while (page?.next !== undefined) {
      page = await store.list?.({ namespace, limit: 1, after: page.next });
      for (const { id } of page?.records ?? []) seen.add(id);
    }
    expect(staying.filter(({ id }) => !seen.has(id))).toEqual([]);
  });

  test("carries few ids from page to page, however many records there are", async (context) => {
    const client = ioredis(sharedUrl(context, "redis"));
    const store = redisStore({ client, prefix: `${randomUUID()}:` });
    const namespace = randomUUID();
    const claims = Array.from({ length: 1_500 }, (_, i) => claimOf(`t${i}`, {}, { namespace }));
    await Promise.all(claims.map((each) => store.claim(each)));
    let seen = 0;
    let after: string | undefined;
    do {
      const page = await store.list?.({ namespace, limit: 100, after });
      seen += page?.records.length ?? 0;
      after = page?.next;
      // It may have to fit into a URL; each id takes 90 characters.
      expect(after?.length ?? 0).toBeLessThan(4_000);
    } while (after !== undefined);
    expect(seen).toBe(1_500);
  });

  test("refuses an `after` that is not the `next` of a page", async (context) => {
    const store = redisStore({ client: ioredis(sharedUrl(context, "redis")) });
    const page = store.list?.({ namespace: "n", limit: 1, after: "x" });
    await expect(page).rejects.toMatchObject({ code: "options-invalid" });
  });
});

describe("the options", () => {
  test.for([
    ["nothing", undefined],
    ["something else", { get: () => {}, set: () => {} }],
    ["a pool of node-redis", { sendCommand: () => {}, execute: () => {} }],
  ])("refuse %s as a client, and name the clients that they accept", ([, client]) => {
    expect(() => redisStore({ client: client as unknown as RedisClient })).toThrow(
      /options-invalid: client .*ioredis.*node-redis/,
    );
  });

  test("refuse one connection for both uses, an invalid subscriber, and unknown options", (context) => {
    const client = ioredis(sharedUrl(context, "redis"));
    expect(() => redisStore({ client, subscriber: client })).toThrow(/options-invalid: subscriber/);
    expect(() => redisStore({ client, subscriber: {} as RedisClient })).toThrow(
      /options-invalid: subscriber/,
    );
    expect(() => redisStore({ client, prefix: "" })).toThrow(/options-invalid: prefix/);
    expect(() => redisStore({ client, ...{ ttl: 1 } })).toThrow(/options-invalid: there is no option/);
  });
});

test("replies are read correctly, whatever type mapping the client has", async (context) => {
  const client = (await nodeRedis(sharedUrl(context, "redis"))).withTypeMapping({ 36: Buffer, 58: String });
  const store = redisStore({ client });
  const claim = claimOf("t1");
  await store.claim(claim);
  expect(await store.complete({ ...claim, outcome: "d\u00f6ne" })).toBe(true);
  expect(await store.claim({ ...claim, token: "t2" })).toEqual({ status: "completed", outcome: "d\u00f6ne" });
});

test("Redis removes expired records itself, and a purge sends no command", async (context) => {
  const { url, stepClock } = await startFor(context, () => startRedis({ clock: true }));
  const proxy = await startFor(context, () => startProxy(url));
  const store = redisStore({ client: ioredis(proxy.url) });
  const [done, held] = [claimOf("t1", { leaseMs: 1_000, retentionMs: 1_000 }), claimOf("t2", { hold: true })];
  await store.claim(done);
  await store.claim(held);
  await store.complete({ ...done, outcome: "done" });
  const sent = proxy.countRequests("redis");
  expect(await store.purge(100)).toEqual({ removed: 0, more: false });
  expect(sent.count).toBe(0);

  const admin = ioredis(url);
  await stepClock(1_000 + MARGIN_MS - 5_000);
  expect(await store.read(done.id)).toBeUndefined();
  expect(await admin.exists(keyOf(done.id))).toBe(1);
  await stepClock(10_000);
  expect(await admin.exists(keyOf(done.id))).toBe(0);
  expect(await admin.exists(keyOf(held.id))).toBe(1);
});
