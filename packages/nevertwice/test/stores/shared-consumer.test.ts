/** Tests consumers on real databases that instances share. */
import { randomUUID } from "node:crypto";
import { DynamoDBDocument } from "@aws-sdk/lib-dynamodb";
import { expect, onTestFinished, type TestContext, test } from "vitest";
import { assetsIn as assetsInDynamodb } from "../../../../examples/assets/dynamodb.js";
import { assetsIn as assetsInPostgres, TABLE } from "../../../../examples/assets/postgres.js";
import type { Store } from "../../src/core/store.ts";
import { consumer } from "../../src/events/index.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { dynamodbStore } from "../../src/stores/dynamodb.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { held, tally } from "../functions/guard-scene.ts";
import { sharedUrl } from "../services/services.ts";
import { clientOf, newTable } from "./dynamodb/tables.ts";
import { createDatabase, poolOf } from "./postgres/database.ts";

function dynamodb(context: TestContext) {
  const client = clientOf(sharedUrl(context, "dynamodb"));
  onTestFinished(() => client.destroy());
  return client;
}

async function postgres(context: TestContext) {
  const pool = poolOf(await createDatabase(sharedUrl(context, "postgres")));
  onTestFinished(() => pool.end());
  return pool;
}

function eventsOn(store: Store, work: (id: string) => unknown) {
  const guard = createGuard({ store, namespace: "guide", purgeEveryMs: 0 });
  onTestFinished(async () => void (await guard.close()));
  return consumer(guard, { name: "assets", key: (id: string) => id, work });
}

test("Skill: cluster-wide via shared store: instances that share nothing but a database process an event once", async (context) => {
  const [client, pool] = [dynamodb(context), await postgres(context)];
  const table = await newTable(client);
  const migrated = postgresStore({ client: pool });
  await migrated.migrate();
  for (const open of [() => dynamodbStore({ client, table }), () => postgresStore({ client: pool })]) {
    const done: string[] = [];
    const instances = [1, 2, 3].map(() => eventsOn(open(), (id) => done.push(id)));
    for (const id of ["event-1", "event-2", "event-1"])
      for (const instance of instances) expect((await instance.handle(id)).verdict).toBe("acknowledge");
    expect(done).toEqual(["event-1", "event-2"]);
  }
});

test("Skill: conditional-put key-value: of twenty instances that race for one event, the table lets one through", async (context) => {
  const client = dynamodb(context);
  const table = await newTable(client);
  const { work, finish } = held<string>();
  let runs = 0;
  const instances = Array.from({ length: 20 }, () =>
    eventsOn(dynamodbStore({ client, table }), () => {
      runs++;
      return work();
    }),
  );
  const deliveries = instances.map((instance) => instance.handle("event-1"));
  // Nineteen learn that another instance is working; then that one may finish.
  let refused = 0;
  for (const delivery of deliveries)
    void delivery.then(({ status }) => {
      if (status === "pending" && ++refused === 19) finish("done");
    });
  expect(tally(await Promise.all(deliveries))).toEqual({ done: 1, pending: 19 });
  expect(runs).toBe(1);
});

/** The repositories of the examples, each on its own database. */
async function repositories(context: TestContext) {
  const [client, pool] = [dynamodb(context), await postgres(context)];
  await pool.query(TABLE);
  const table = await newTable(client);
  return [assetsInDynamodb(DynamoDBDocument.from(client as never), table), assetsInPostgres(pool)];
}

const pump = { id: "pump-1", facility: "north", state: "online", load: 10 };
const causeOf = (second: number) => ({ id: randomUUID(), occurredAt: `2026-01-01T12:00:0${second}.000Z` });

test("Skill: upsert as natural idempotency: the same write again, at once or later, changes nothing", async (context) => {
  for (const assets of await repositories(context)) {
    const first = causeOf(1);
    const written = await Promise.all(Array.from({ length: 5 }, () => assets.upsert(pump, first)));
    expect(written.filter(Boolean)).toHaveLength(1);
    const after = await assets.read("pump-1");
    expect(after).toMatchObject({ ...pump, version: 1 });
    await assets.upsert({ ...pump, state: "offline" }, causeOf(3));
    // Neither a repetition nor an older event changes it back.
    expect([await assets.upsert(pump, first), await assets.upsert(pump, causeOf(2))]).toEqual([false, false]);
    expect(await assets.read("pump-1")).toMatchObject({ state: "offline", version: 2 });
  }
});

test("Skill: optimistic version write: of several writers that read one version, one may replace it, and the others get an error", async (context) => {
  for (const assets of await repositories(context)) {
    const race = (expected: number) =>
      Promise.allSettled(
        Array.from({ length: 8 }, (_, load) => assets.write({ ...pump, load }, expected, causeOf(1))),
      );
    for (const expected of [0, 1]) {
      const ends = await race(expected);
      const won = ends.flatMap((end) => (end.status === "fulfilled" ? [end.value] : []));
      const lost = ends.flatMap((end) => (end.status === "rejected" ? [end.reason.code] : []));
      expect([won, lost]).toEqual([[expected + 1], new Array(7).fill("concurrent-modification")]);
    }
    // A row that never existed has no version.
    await expect(assets.write({ ...pump, id: "pump-2" }, 3, causeOf(1))).rejects.toMatchObject({
      code: "concurrent-modification",
      status: 409,
    });
    expect(await assets.read("pump-2")).toBeUndefined();
  }
});
