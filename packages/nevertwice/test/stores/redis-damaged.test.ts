/**
 * Tests records that something else wrote over. For every line and every word: no step answers what would have completed
 * work run again, every step that cannot know says `store-unsafe`, nothing is written over the damage, and neighbours in
 * the same script are answered.
 */
import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import { describe, expect, test } from "vitest";
import { createGuard } from "../../src/index.ts";
import { type RedisStoreOptions, redisStore } from "../../src/stores/redis.ts";
import { sharedUrl } from "../services/services.ts";
import { ioredis, nodeRedis } from "./redis/clients.ts";
import { claimOf, fenceOf, keyOf } from "./redis/scene.ts";

type Damage = readonly [name: string, harm: (client: Redis, key: string) => Promise<unknown>];

/** Values that no script writes as a word. */
const GARBAGE = ["", "x", "-1", "1.5", "0x1", "1e309", "9".repeat(17), "9".repeat(400), "NaN", "\u0000", "é"];
const WORDS = [
  ...["state and fence", "number", "hold and tookOver", "claimedAt", "leaseMs", "endsAt", "retentionMs"],
];
const LINES = ["words", "token", "fingerprint", "parts", "outcome"] as const;

async function rewritten(client: Redis, key: string, change: (text: string) => string): Promise<void> {
  await client.set(key, change((await client.get(key)) ?? ""), "KEEPTTL");
}

/** Changes one line of the text, or removes it. */
function relined(line: (typeof LINES)[number], change: (text: string) => string | undefined): Damage[1] {
  const at = LINES.indexOf(line);
  return (client, key) =>
    rewritten(client, key, (text) =>
      text
        .split("\n")
        .flatMap((each, index) => (index === at ? (change(each) ?? []) : [each]))
        .join("\n"),
    );
}

const WORD_DAMAGE: readonly Damage[] = WORDS.flatMap((word, index) =>
  GARBAGE.map((garbage): Damage => {
    const replace = (text: string) => text.split(" ").with(index, garbage).join(" ");
    return [`${word} is ${garbage.slice(0, 20)}`, relined("words", replace)];
  }),
);

const RECORD_DAMAGE: readonly Damage[] = [
  ["the text is empty", (client, key) => client.set(key, "")],
  ["the text is another one", (client, key) => client.set(key, "text")],
  ["the record is of another version", relined("words", (text) => `2${text.slice(1)}`)],
  ["the record is of no version", relined("words", (text) => text.slice(1))],
  ["the record is cut", (client, key) => rewritten(client, key, (text) => text.slice(0, 30))],
  ["the record is JSON", (client, key) => client.set(key, '{"state":"completed"}')],
  ["completed at no time", relined("words", (text) => text.split(" ").with(5, "0").join(" "))],
  ["completed with a lease", relined("words", (text) => text.split(" ").with(4, "30000").join(" "))],
  ["the state is in capitals", relined("words", (text) => text.replace("3c", "3C"))],
  ["the state is none", relined("words", (text) => text.replace("3c", "3x"))],
  ["a forgotten record with more than a fence", relined("words", (text) => text.replace("3c", "3f"))],
  ["only the words are left", (client, key) => rewritten(client, key, (text) => text.split("\n")[0] ?? "")],
  [
    "the outcome and the line before it are gone",
    (client, key) => rewritten(client, key, (text) => text.split("\n").slice(0, 3).join("\n")),
  ],
];

const TYPES: readonly Damage[] = [
  ["a hash", (client, key) => client.hset(key, "record", "1 completed", "outcome", "done")],
  ["a list", (client, key) => client.rpush(key, "a")],
  ["a set", (client, key) => client.sadd(key, "a")],
  ["a sorted set", (client, key) => client.zadd(key, 1, "a")],
  ["a stream", (client, key) => client.xadd(key, "*", "a", "b")],
];
const TYPE_DAMAGE = TYPES.map(
  ([name, write]): Damage => [
    `the key holds ${name}`,
    async (client, key) => {
      await client.del(key);
      await write(client, key);
    },
  ],
);

/** With these, it can still be read that the work is completed. */
const MILD_DAMAGE: readonly Damage[] = [
  ...["", "x", "2:x", "\u0000", "9".repeat(400)].map(
    (garbage): Damage => [
      `the fingerprint is ${garbage.slice(0, 20)}`,
      relined("fingerprint", () => garbage),
    ],
  ),
  ["the parts are empty", relined("parts", () => "")],
  ["the parts are no JSON", relined("parts", () => '["redis-tests","",')],
  ["the parts are of another kind", relined("parts", () => "null")],
  ["the outcome is garbage", relined("outcome", () => "{")],
  ["the outcome is empty", relined("outcome", () => "")],
  ["the token is gone", relined("token", () => "")],
];

const UNSAFE = { status: "rejected", reason: { code: "store-unsafe" } };

/** Every method on the damaged record, together with the same call on a sound record. */
async function everyStep(options: RedisStoreOptions, admin: Redis, [, harm]: Damage) {
  const prefix = `${randomUUID()}:`;
  const store = redisStore({ ...options, prefix });
  const [claim, well] = [claimOf("t1", { fingerprint: "1:a" }), claimOf("t1", { fingerprint: "1:a" })];
  const fences = [fenceOf(await store.claim(claim)), fenceOf(await store.claim(well))];
  for (const each of [claim, well]) await store.complete({ ...each, outcome: '["1vp","done"]' });
  await harm(admin, keyOf(claim.id, prefix));
  const before = await admin.dumpBuffer(keyOf(claim.id, prefix));
  const answers = async <T>(step: (each: typeof claim, fence: number) => Promise<T>) => {
    const both = [claim, well].map((each, index) => step(each, fences[index] ?? 0));
    const [damaged, neighbour] = await Promise.allSettled(both);
    return { damaged, neighbour };
  };
  const taken = {
    claim: await answers((each) => store.claim({ ...each, token: "t2" })),
    own: await answers((each) => store.claim(each)),
    takeover: await answers((each, fence) => store.claim({ ...each, token: "t2", takeover: fence })),
    read: await answers((each) => store.read(each.id)),
    complete: await answers((each) => store.complete({ ...each, outcome: "other" })),
    renew: await answers((each) => store.renew(each)),
    abandon: await answers((each) => store.abandon({ ...each, as: "released" })),
    forget: await answers(async (each) => store.forget?.({ id: each.id, fence: 1 })),
  };
  const purged = await store.purge(100);
  const listed = await Promise.allSettled([store.list?.({ namespace: "another", limit: 10 })]);
  const isUntouched = before.equals(await admin.dumpBuffer(keyOf(claim.id, prefix)));
  return { taken, purged, listed: listed[0], isUntouched };
}

const NEIGHBOUR = {
  claim: { value: { status: "completed", outcome: '["1vp","done"]' } },
  own: { value: { status: "completed" } },
  takeover: { value: { status: "completed" } },
  read: { value: { state: "completed" } },
  complete: { value: true },
  renew: { value: false },
  abandon: { value: false },
  forget: { value: false },
};

const CLIENTS = [
  ["ioredis", async (url: string) => ioredis(url)],
  ["node-redis", (url: string) => nodeRedis(url)],
] as const;

describe.for(CLIENTS)("with %s", ([, connect]) => {
  test("every step on an unreadable record is store-unsafe, and changes nothing", async (context) => {
    const url = sharedUrl(context, "redis");
    const [client, admin] = [await connect(url), ioredis(url)];
    for (const damage of [...WORD_DAMAGE, ...RECORD_DAMAGE, ...TYPE_DAMAGE]) {
      const [name] = damage;
      const { taken, purged, listed, isUntouched } = await everyStep({ client }, admin, damage);
      for (const [step, { damaged, neighbour }] of Object.entries(taken)) {
        expect({ name, step, ...damaged }).toMatchObject(UNSAFE);
        expect({ name, step, ...neighbour }).toMatchObject(NEIGHBOUR[step as keyof typeof NEIGHBOUR]);
      }
      expect({ name, isUntouched }).toEqual({ name, isUntouched: true });
      expect(purged).toEqual({ removed: 0, more: false });
      expect(listed).toMatchObject({ status: "fulfilled" });
    }
  }, 120_000);

  test("completed work is never granted again when other fields than its state are damaged", async (context) => {
    const url = sharedUrl(context, "redis");
    const [client, admin] = [await connect(url), ioredis(url)];
    for (const damage of MILD_DAMAGE) {
      const [name] = damage;
      const { taken } = await everyStep({ client }, admin, damage);
      for (const step of ["claim", "own", "takeover"] as const) {
        const { damaged } = taken[step];
        const answer = damaged?.status === "fulfilled" ? damaged.value.status : "store-unsafe";
        expect({ name, step, answer }).toEqual({
          name,
          step,
          answer: expect.stringMatching(/^(?:completed|conflict|store-unsafe)$/),
        });
      }
      if (name.startsWith("the parts are ") && !name.endsWith("empty"))
        expect({ name, ...taken.read.damaged }).toMatchObject(UNSAFE);
    }
  });

  test("a list reports its unreadable records, and leaves out those that may belong to another list", async (context) => {
    const url = sharedUrl(context, "redis");
    const [client, admin] = [await connect(url), ioredis(url)];
    const prefix = `${randomUUID()}:`;
    const store = redisStore({ client, prefix });
    const [damaged, well] = [claimOf("t1", {}, { namespace: "a" }), claimOf("t2", {}, { namespace: "b" })];
    await store.claim(damaged);
    await store.claim(well);
    await relined("words", () => "garbage")(admin, keyOf(damaged.id, prefix));
    await admin.set(keyOf("another", prefix), "text");
    await admin.rpush(keyOf("a third", prefix), "text");
    expect(await store.list?.({ namespace: "a", limit: 10 })).toEqual({
      records: [],
      unreadable: [{ id: damaged.id, reason: expect.stringContaining("cannot be read") }],
    });
    const page = await store.list?.({ namespace: "b", limit: 10 });
    expect(page?.records.map(({ token }) => token)).toEqual(["t2"]);
  });

  test("a guard with onUnavailable proceed runs nothing on a key with another type of value", async (context) => {
    const url = sharedUrl(context, "redis");
    const [client, admin] = [await connect(url), ioredis(url)];
    const prefix = `${randomUUID()}:`;
    const store = redisStore({ client, prefix });
    const guard = createGuard({ store, namespace: "redis-tests", purgeEveryMs: 0, onUnavailable: "proceed" });
    for (const damage of [...TYPE_DAMAGE, ...RECORD_DAMAGE]) {
      const { id, parts } = claimOf("t");
      const request = { operation: parts.operation, key: parts.key };
      let runs = 0;
      await guard.run(request, () => ++runs);
      await damage[1](admin, keyOf(id, prefix));
      expect(await guard.tryRun(request, () => ++runs)).toMatchObject({ error: { code: "store-unsafe" } });
      expect(runs).toBe(1);
    }
    await guard.close();
  });
});
