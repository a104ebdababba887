/** Tests that calls that come together go together in one script, and each caller gets its own right answer. */
import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { redisStore } from "../../src/stores/redis.ts";
import { startRedis } from "../services/redis.ts";
import { sharedUrl, startFor } from "../services/services.ts";
import { ioredis, nodeRedis } from "./redis/clients.ts";
import { claimOf, keyOf, proxied } from "./redis/scene.ts";

const CLIENTS = [
  ["ioredis", async (url: string) => ioredis(url, { maxRetriesPerRequest: 0 })],
  ["node-redis", (url: string) => nodeRedis(url)],
] as const;

describe.for(CLIENTS)("with %s", ([, connect]) => {
  test("steps in one turn of the event loop share a script", async (context) => {
    const proxy = await proxied(context);
    const store = redisStore({ client: await connect(proxy.url) });
    const warm = claimOf("t0");
    await store.claim(warm);
    await store.complete({ ...warm, outcome: "done" });

    const sent = proxy.countRequests("redis");
    const claims = Array.from({ length: 30 }, (_, index) => claimOf(`t${index}`));
    const answers = await Promise.all(claims.map((claim) => store.claim(claim)));
    expect(answers.map(({ status }) => status)).toEqual(claims.map(() => "new"));
    expect(sent.count).toBe(1);
    await Promise.all(claims.map((claim) => store.complete({ ...claim, outcome: claim.id })));
    expect(sent.count).toBe(2);
    const replays = await Promise.all(claims.map((claim) => store.claim({ ...claim, token: "other" })));
    expect(replays).toEqual(claims.map(({ id }) => ({ status: "completed", outcome: id })));
    expect(sent.count).toBe(3);
  });

  test("one of several simultaneous duplicates is granted, and each is decided by its own request", async (context) => {
    const store = redisStore({ client: await connect(sharedUrl(context, "redis")) });
    const claim = claimOf("t0", { fingerprint: `1:${"a".repeat(64)}` });
    const calls = Array.from({ length: 40 }, (_, index) => ({ ...claim, token: `t${index}` }));
    calls[7] = { ...claim, token: "t7", fingerprint: `1:${"b".repeat(64)}` };
    calls[8] = { ...claim, token: "t0" };
    const answers = await Promise.all(calls.map((call) => store.claim(call)));
    const [first] = answers;
    expect(first).toMatchObject({ status: "new", number: 1 });
    expect(answers[7]).toEqual({ status: "conflict", state: "pending" });
    expect(answers[8]).toEqual(first);
    for (const [index, answer] of answers.entries())
      if (![0, 7, 8].includes(index)) expect(answer).toMatchObject({ status: "pending" });
  });

  test("a key with another type of value fails only its own caller", async (context) => {
    const url = sharedUrl(context, "redis");
    const prefix = `${randomUUID()}:`;
    const store = redisStore({ client: await connect(url), prefix });
    const claims = Array.from({ length: 9 }, (_, index) => claimOf(`t${index}`));
    const poisoned = claims[4] ?? claimOf("t4");
    await ioredis(url).rpush(keyOf(poisoned.id, prefix), "not a record");
    const answers = await Promise.allSettled(claims.map((claim) => store.claim(claim)));
    for (const [index, answer] of answers.entries()) {
      if (index === 4) expect(answer).toMatchObject({ status: "rejected", reason: { message: /WRONGTYPE/ } });
      else expect(answer).toMatchObject({ status: "fulfilled", value: { status: "new", number: 1 } });
    }
    await expect(store.read(poisoned.id)).rejects.toThrow("WRONGTYPE");
    const { namespace } = poisoned.parts;
    let listed = 0;
    for (let after: string | undefined, isFirst = true; isFirst || after !== undefined; isFirst = false) {
      const page = await store.list?.({ namespace, limit: 100, after });
      listed += page?.records.length ?? 0;
      after = page?.next;
    }
    expect(listed).toBe(8);
  });

  test("an unreadable record fails only its own caller", async (context) => {
    const url = sharedUrl(context, "redis");
    const prefix = `${randomUUID()}:`;
    const store = redisStore({ client: await connect(url), prefix });
    const claims = Array.from({ length: 3 }, (_, index) => claimOf(`t${index}`));
    await ioredis(url).set(keyOf(claims[1]?.id ?? "", prefix), "3 something else");
    const answers = await Promise.allSettled(claims.map((claim) => store.claim(claim)));
    expect(answers).toMatchObject([
      { value: { status: "new" } },
      { reason: { code: "store-unsafe" } },
      { value: { status: "new" } },
    ]);
  });

  test("a script whose reply is lost is unavailable for all its callers, and each recognises its claim", async (context) => {
    const proxy = await proxied(context);
    const store = redisStore({ client: await connect(proxy.url) });
    await store.claim(claimOf("t0"));
    const claims = Array.from({ length: 20 }, (_, index) => claimOf(`t${index}`));
    proxy.cutReply(1, (chunk) => /evalsha/i.test(chunk.toString("latin1")));
    const lost = await Promise.allSettled(claims.map((claim) => store.claim(claim)));
    for (const answer of lost) expect(answer).toMatchObject({ reason: { code: "unavailable" } });
    const again = await Promise.all(claims.map((claim) => store.claim(claim)));
    for (const answer of again) expect(answer).toMatchObject({ status: "new", number: 1, tookOver: false });
    const others = await Promise.all(claims.map((claim) => store.claim({ ...claim, token: "other" })));
    for (const answer of others) expect(answer).toMatchObject({ status: "pending" });
  });
});

test("renewals do not wait behind ten thousand claims", async (context) => {
  const { url } = await startFor(context, () => startRedis());
  const store = redisStore({ client: ioredis(url) });
  const held = claimOf("holder", { leaseMs: 2_000 });
  await store.claim(held);
  const claims = Array.from({ length: 10_000 }, (_, index) => claimOf(`t${index}`));
  let answered = 0;
  const claiming = Promise.all(claims.map((claim) => store.claim(claim).then(() => answered++)));
  expect(await store.renew(held)).toBe(true);
  expect(answered).toBeLessThan(5_000);
  await claiming;
  expect(await store.renew(held)).toBe(true);
});
