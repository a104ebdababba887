/** Tests guards on real stores that processes share. */
import { randomUUID } from "node:crypto";
import { expect, onTestFinished, test, vi } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { dynamodbStore } from "../../src/stores/dynamodb.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { held, REFUSE, tally } from "../functions/guard-scene.ts";
import { sharedUrl } from "../services/services.ts";
import { clientOf, newTable } from "./dynamodb/tables.ts";
import { createDatabase, poolOf } from "./postgres/database.ts";
import { ioredis, nodeRedis } from "./redis/clients.ts";

function guardOn(store: Store): Guard {
  const guard = createGuard({ store, namespace: "baldur", purgeEveryMs: 0, ...REFUSE });
  onTestFinished(async () => void (await guard.close()));
  return guard;
}

test("Baldur: clock-skew margin on takeover: whose clock is five seconds ahead takes nothing from an owner whose lease runs", async (context) => {
  const client = clientOf(sharedUrl(context, "dynamodb"));
  onTestFinished(() => client.destroy());
  const table = await newTable(client);
  const [ours, theirs] = [manualClock(), manualClock()];
  theirs.advance(5_000);
  const request = { operation: "charge", key: "order-1", leaseMs: 30_000 };
  const owner = guardOn(dynamodbStore({ client, table, clock: ours }));
  const other = guardOn(dynamodbStore({ client, table, clock: theirs }));
  const statuses: string[] = [];
  await owner.tryRun(request, async () => {
    // By the other clock the lease ended almost five seconds ago; by the store's clock it has a moment left.
    theirs.advance(29_999);
    statuses.push((await other.tryRun(request, () => "early")).status);
    theirs.advance(2 * 5_000 + 1);
    statuses.push((await other.tryRun(request, ({ number }) => statuses.push(String(number)))).status);
  });
  expect(statuses).toEqual(["pending", "2", "ran"]);
});

test("Baldur: cluster-wide via shared store: a key that one worker has done is refused to those of every host", async (context) => {
  const url = sharedUrl(context, "redis");
  const database = await createDatabase(sharedUrl(context, "postgres"));
  const pools = [poolOf(database), poolOf(database)];
  onTestFinished(async () => void (await Promise.all(pools.map((pool) => pool.end()))));
  const [first, second] = pools.map((client) => postgresStore({ client }));
  await first?.migrate();
  const clusters = [
    [redisStore({ client: ioredis(url) }), redisStore({ client: await nodeRedis(url) })],
    [first as Store, second as Store],
  ];
  for (const hosts of clusters) {
    const [here, there] = hosts.map(guardOn);
    const order = { operation: "charge", key: randomUUID() };
    await here?.run(order, async () => "charged");
    expect(await there?.tryRun(order, async () => "twice")).toEqual({ status: "already-done" });
  }
});

test("Baldur: Redis, atomic script: of two hundred claims over two connections one is granted", async (context) => {
  const url = sharedUrl(context, "redis");
  const guards = [ioredis(url), await nodeRedis(url)].map((client) => guardOn(redisStore({ client })));
  const order = { operation: "charge", key: randomUUID() };
  const { work, isUnderWay, finish } = held<string>();
  const charge = vi.fn(work);
  const calls = guards.flatMap((guard) => Array.from({ length: 100 }, () => guard.tryRun(order, charge)));
  await isUnderWay;
  finish("charged");
  const { ran, pending = 0, "already-done": done = 0 } = tally(await Promise.all(calls));
  expect([ran, pending + done, charge.mock.calls.length]).toEqual([1, 199, 1]);
});
