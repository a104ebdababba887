/** Tests how often a thousand checks, claims and completions that come together go to the server. */
import { randomUUID } from "node:crypto";
import { expect, onTestFinished, type TestContext, test } from "vitest";
import { createEngine } from "../../src/core/engine.ts";
import type { Store } from "../../src/core/store.ts";
import { type Claimed, createClaimMethods } from "../../src/functions/claim.ts";
import { createMarks } from "../../src/functions/mark.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { type FaultProxy, startProxy } from "../services/proxy.ts";
import { sharedUrl } from "../services/services.ts";
import { createDatabase, poolOf } from "./postgres/database.ts";
import { ioredis } from "./redis/clients.ts";
import { proxied } from "./redis/scene.ts";

interface Ground {
  readonly store: Store;
  readonly proxy: FaultProxy;
}

async function onRedis(context: TestContext): Promise<Ground> {
  const proxy = await proxied(context);
  return { proxy, store: redisStore({ client: ioredis(proxy.url) }) };
}

async function onPostgres(context: TestContext): Promise<Ground> {
  const proxy = await startProxy(await createDatabase(sharedUrl(context, "postgres")));
  const client = poolOf(proxy.url);
  onTestFinished(async () => {
    await client.end();
    await proxy.stop();
  });
  const store = postgresStore({ client });
  await store.migrate();
  return { proxy, store };
}

const GROUNDS = [
  ["redis", onRedis],
  ["postgres", onPostgres],
] as const;

const COUNT = 1_000;
/** At most thirty-two calls share a round trip; the rest allows for batches that were not full. */
const FEW = 100;

test.for(GROUNDS)(
  "on %s a thousand checks, claims and completions take few round trips",
  async ([protocol, ground], context) => {
    const { store, proxy } = await ground(context);
    const guard = createEngine({ store, purgeEveryMs: 0 });
    const { seen, seenBatch, markBatch } = createMarks(guard, () => {});
    const { claimBatch } = createClaimMethods(guard);
    const scope = randomUUID();
    const subjects = Array.from({ length: COUNT }, (_, i) => ({
      operation: "bill",
      scope,
      key: `invoice-${i}`,
    }));
    const [first = { operation: "bill", scope, key: "" }] = subjects;
    const tripsOf = async <T>(call: () => Promise<T>): Promise<[answer: T, trips: number]> => {
      const sent = proxy.countRequests(protocol);
      return [await call(), sent.count];
    };

    await seen(first);
    expect(await tripsOf(() => seen(first))).toEqual([false, 1]);
    const [claims, claimed] = await tripsOf(() => claimBatch(subjects));
    expect(claims.filter(({ status }) => status === "claimed").length).toBe(COUNT);
    expect(claimed).toBeLessThan(FEW);
    const had = claims as Claimed[];
    const [done, completed] = await tripsOf(() => Promise.all(had.map((claim, i) => claim.complete(i))));
    expect(done.every((completion) => completion.status === "ran" && completion.recorded)).toBe(true);
    expect(completed).toBeLessThan(FEW);
    const [answers, checked] = await tripsOf(() => seenBatch([...subjects, { ...first, key: "another" }]));
    expect(answers).toEqual([...subjects.map(() => true), false]);
    expect(checked).toBeLessThan(FEW);
    const marks = subjects.map((subject) => ({ ...subject, operation: "mail" }));
    const [marked, written] = await tripsOf(() => markBatch(marks));
    expect(marked).toEqual(marks.map(() => true));
    expect(written).toBeLessThan(2 * FEW);
    await guard.close();
  },
);

test.for(GROUNDS)(
  "on %s each caller gets its own record when many are read together",
  async ([protocol, ground], context) => {
    const { store, proxy } = await ground(context);
    const guard = createEngine({ store, purgeEveryMs: 0 });
    const scope = randomUUID();
    const subjects = Array.from({ length: COUNT }, (_, i) => ({
      operation: "bill",
      scope,
      key: `invoice-${i}`,
    }));
    const kept = subjects.filter((_, i) => i % 3 === 0);
    await Promise.all(kept.map((subject) => guard.run(subject, () => subject.key)));
    const sent = proxy.countRequests(protocol);
    const asked = [...subjects, ...subjects.slice(0, 10)];
    const records = await Promise.all(asked.map((subject) => guard.read(subject)));
    expect(sent.count).toBeLessThan(FEW);
    for (const [i, record] of records.entries()) {
      const { key } = asked[i] ?? { key: "" };
      const isKept = kept.some((subject) => subject.key === key);
      expect(record?.outcome).toEqual(isKept ? { kind: "value", value: key } : undefined);
    }
    await guard.close();
  },
);

test("on redis a damaged record fails only its own caller when many are read together", async (context) => {
  const client = ioredis(sharedUrl(context, "redis"));
  const prefix = `${randomUUID()}:`;
  const store = redisStore({ client, prefix });
  await client.rpush(`${prefix}{wrong}`, "not a record");
  await client.set(`${prefix}{newer}`, "3 something else");
  const reads = await Promise.allSettled(["a", "wrong", "newer", "b"].map((id) => store.read(id)));
  expect(reads).toMatchObject([
    { value: undefined },
    { reason: { message: /WRONGTYPE/ } },
    { reason: { code: "store-unsafe" } },
    { value: undefined },
  ]);
});
