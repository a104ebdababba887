/** Tests that calls that come together go together in one script, and each caller gets its own right answer. */
import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { ClaimRequest } from "../../src/core/store.ts";
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

  test("500 callers of one key send one claim: the first gets it, and later its outcome is fetched once for all", async (context) => {
    const proxy = await proxied(context);
    const store = redisStore({ client: await connect(proxy.url) });
    await store.claim(claimOf("warm"));
    const claim = claimOf("t0");
    const claimAll = () =>
      Promise.all(Array.from({ length: 500 }, (_, index) => store.claim({ ...claim, token: `t${index}` })));

    const sent = proxy.countRequests("redis");
    const [first, ...others] = await claimAll();
    expect(first).toMatchObject({ status: "new", number: 1 });
    for (const other of others)
      expect(other).toEqual({ status: "pending", leaseLeftMs: 60_000, elapsedMs: 0 });
    expect(sent.count).toBe(1);
    expect(await store.read(claim.id)).toMatchObject({ token: "t0", state: "pending" });

    const outcome = "x".repeat(100_000);
    await store.complete({ ...claim, outcome });
    const replays = proxy.countRequests("redis");
    for (const answer of await claimAll()) expect(answer).toEqual({ status: "completed", outcome });
    expect(replays.count).toBe(1);
  });

  test("an owner that asks again among other callers of its key is recognised", async (context) => {
    const store = redisStore({ client: await connect(sharedUrl(context, "redis")) });
    const claim = claimOf("owner");
    const granted = await store.claim(claim);
    const tokens = ["stranger", "owner", "another"];
    const [stranger, owner, another] = await Promise.all(
      tokens.map((token) => store.claim({ ...claim, token })),
    );
    expect(stranger).toMatchObject({ status: "pending" });
    expect(owner).toEqual(granted);
    expect(another).toMatchObject({ status: "pending" });
  });

  test("retries in one turn read their records with the script that would claim them, and each gets its own answer", async (context) => {
    const proxy = await proxied(context);
    const store = redisStore({ client: await connect(proxy.url) });
    const fingerprint = `1:${"a".repeat(64)}`;
    const claims = Array.from({ length: 20 }, (_, index) => claimOf(`t${index}`, { fingerprint }));
    const retry = (claim: ClaimRequest, index: number) => ({ ...claim, token: `retry${index}` });
    await Promise.all(claims.map((claim) => store.claim(claim)));
    await Promise.all(claims.map((claim) => store.complete({ ...claim, outcome: claim.id })));
    const replay = () => Promise.all(claims.map((claim, index) => store.claim(retry(claim, index))));
    const completed = claims.map(({ id }) => ({ status: "completed", outcome: id }));
    expect(await replay()).toEqual(completed);
    // The server may not have the script of this group yet.
    expect(await replay()).toEqual(completed);
    // New keys among the retries are claimed in the same trip.
    const added = Array.from({ length: 3 }, (_, index) => claimOf(`added${index}`));
    const sent = proxy.countRequests("redis");
    const [retried, granted] = await Promise.all([
      replay(),
      Promise.all(added.map((claim) => store.claim(claim))),
    ]);
    expect(sent.names.map((name) => name.toUpperCase())).toEqual(["MGET", "EVALSHA"]);
    expect(retried).toEqual(completed);
    expect(granted).toMatchObject(added.map(() => ({ status: "new", number: 1 })));
    const owners = await Promise.all(added.map(({ id }) => store.read(id)));
    expect(owners).toMatchObject(added.map(({ token, parts }) => ({ token, parts, state: "pending" })));

    // A group of retries that also has new keys, one of them twice, a conflict, and a record that is pending.
    const [fresh, twice, pending] = [claimOf("f1"), claimOf("f2"), claimOf("f3")];
    await redisStore({ client: ioredis(sharedUrl(context, "redis")) }).claim(pending);
    const [first] = claims as [ClaimRequest];
    const others = [fresh, twice, { ...twice, token: "f4" }, { ...pending, token: "f5" }];
    const conflicting = { ...first, token: "f6", fingerprint: `1:${"b".repeat(64)}` };
    const mixed = [...claims.map(retry), ...others, conflicting];
    const answers = await Promise.all(mixed.map((claim) => store.claim(claim)));
    expect(answers.slice(0, 20)).toEqual(completed);
    expect(answers.slice(20)).toMatchObject([
      { status: "new", number: 1 },
      { status: "new", number: 1 },
      { status: "pending" },
      { status: "pending" },
      { status: "conflict", state: "completed" },
    ]);
    // What was written is a whole record: its owner completes it, and nobody else.
    expect(await store.complete({ ...fresh, token: "f4", outcome: "x" })).toBe(false);
    expect(await store.complete({ ...fresh, outcome: "done" })).toBe(true);
    expect(await store.read(fresh.id)).toMatchObject({ parts: fresh.parts, outcome: "done" });
  });

  test("a group of completions tells each caller whether its token owned the claim", async (context) => {
    const url = sharedUrl(context, "redis");
    const store = redisStore({ client: await connect(url) });
    const claims = Array.from({ length: 6 }, (_, index) =>
      claimOf(index % 2 === 0 ? `t ${index}\n\\` : `t${index}`, { retentionMs: 60_000 * (index + 1) }),
    );
    await Promise.all(claims.map((claim) => store.claim(claim)));
    const completions = claims.map((claim, index) => ({ ...claim, outcome: `outcome ${index}\n` }));
    const stale = completions.map((each, index) => (index === 3 ? { ...each, token: "stale" } : each));
    const done = await Promise.all(stale.map((each) => store.complete(each)));
    expect(done).toEqual([true, true, true, false, true, true]);
    const records = await Promise.all(claims.map(({ id }) => store.read(id)));
    expect(records.map((record) => record?.outcome)).toEqual(
      completions.map(({ outcome }, index) => (index === 3 ? undefined : outcome)),
    );
    expect(records.map((record) => record?.token)).toEqual(claims.map(({ token }) => token));
    const texts = await Promise.all(claims.map(({ id }) => ioredis(url).get(keyOf(id))));
    const retentions = texts.map((text) => Number(text?.split(" ")[6]?.split("\n")[0]));
    expect(retentions).toEqual(claims.map(({ retentionMs }) => retentionMs));
    expect(await Promise.all(completions.map((each) => store.complete(each)))).toEqual(
      claims.map(() => true),
    );
  });

  test("a text of another program under the key of a claim is never taken for a grant", async (context) => {
    const url = sharedUrl(context, "redis");
    const store = redisStore({ client: await connect(url) });
    const claim = claimOf("t0");
    await ioredis(url).set(keyOf(claim.id), "1");
    await expect(store.claim(claim)).rejects.toMatchObject({ code: "store-unsafe" });
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
