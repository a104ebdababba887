/** Tests that a step takes one round trip, and that work without steps takes as many as before. */
import { randomUUID } from "node:crypto";
import { expect, onTestFinished, type TestContext, test } from "vitest";
import { createEngine } from "../../src/core/engine.ts";
import type { Store } from "../../src/core/store.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { type FaultProxy, startProxy } from "../services/proxy.ts";
import { sharedUrl } from "../services/services.ts";
import { createDatabase, poolOf } from "./postgres/database.ts";
import { ioredis } from "./redis/clients.ts";
import { proxied } from "./redis/scene.ts";

type Opened = readonly [store: Store, proxy: FaultProxy];

async function onRedis(context: TestContext): Promise<Opened> {
  const proxy = await proxied(context);
  return [redisStore({ client: ioredis(proxy.url) }), proxy];
}

async function onPostgres(context: TestContext): Promise<Opened> {
  const proxy = await startProxy(await createDatabase(sharedUrl(context, "postgres")));
  const client = poolOf(proxy.url, { max: 1 });
  onTestFinished(async () => {
    await client.end();
    await proxy.stop();
  });
  const store = postgresStore({ client });
  await store.migrate();
  return [store, proxy];
}

test.for([
  ["redis", onRedis],
  ["postgres", onPostgres],
] as const)(
  "on %s a step takes one round trip, and work without steps none more than two",
  async (row, context) => {
    const [protocol, open] = row;
    const [store, proxy] = await open(context);
    const guard = createEngine({ store, purgeEveryMs: 0 });
    const tripsOf = async (
      steps: number,
      failsAfter = steps,
      key: string = randomUUID(),
    ): Promise<number> => {
      const sent = proxy.countRequests(protocol);
      const run = guard.run({ operation: "order", key }, async (attempt) => {
        for (let step = 0; step < failsAfter; step++) await attempt.step(`step ${step}`, () => step);
        if (failsAfter < steps) throw new Error("failed");
      });
      await run.catch(() => {});
      return sent.count;
    };
    // The first steps load scripts and prepare statements.
    const warm = randomUUID();
    await tripsOf(3, 1, warm);
    await tripsOf(3, 3, warm);
    expect(await tripsOf(0)).toBe(2);
    expect(await tripsOf(1)).toBe(3);
    expect(await tripsOf(5)).toBe(7);
    // Claim, two steps, abandon; then two trips to claim the released key, three steps, complete.
    const key = randomUUID();
    expect(await tripsOf(5, 2, key)).toBe(4);
    expect(await tripsOf(5, 5, key)).toBe(6);
  },
);
