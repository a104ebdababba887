/** Tests the writes of examples/assets, on real databases: which event is the latest, and what adds up is added once. */
import { DynamoDBDocument } from "@aws-sdk/lib-dynamodb";
import { expect, onTestFinished, type TestContext, test } from "vitest";
import { assetsIn as assetsInDynamodb } from "../../../../examples/assets/dynamodb.js";
import { assetsIn as assetsInPostgres, TABLE } from "../../../../examples/assets/postgres.js";
import { sharedUrl } from "../services/services.ts";
import { clientOf, newTable } from "./dynamodb/tables.ts";
import { createDatabase, poolOf } from "./postgres/database.ts";

const OPENED = {
  async DynamoDB(context: TestContext) {
    const client = clientOf(sharedUrl(context, "dynamodb"));
    onTestFinished(() => client.destroy());
    return assetsInDynamodb(DynamoDBDocument.from(client as never), await newTable(client));
  },
  async Postgres(context: TestContext) {
    const pool = poolOf(await createDatabase(sharedUrl(context, "postgres")));
    onTestFinished(() => pool.end());
    await pool.query(TABLE);
    return assetsInPostgres(pool);
  },
};
type Place = keyof typeof OPENED;
const PLACES = Object.keys(OPENED) as Place[];

interface Cause {
  readonly id: string;
  readonly occurredAt: string;
  readonly sequence?: number;
}

/** In each row, the last event is the latest; the order of the others does not matter. */
const LATEST_LAST: Readonly<Record<string, readonly Cause[]>> = {
  "events of one second, by their ids": [
    { id: "Z", occurredAt: "2026-01-01T12:00:00Z" },
    { id: "a", occurredAt: "2026-01-01T12:00:00Z" },
    { id: "ä", occurredAt: "2026-01-01T12:00:00Z" },
  ],
  "events of one second, by their sequence numbers": [
    { id: "z", occurredAt: "2026-01-01T12:00:00Z", sequence: 9 },
    { id: "y", occurredAt: "2026-01-01T12:00:00Z", sequence: 10 },
    { id: "x", occurredAt: "2026-01-01T12:00:00Z", sequence: 101 },
  ],
  "events whose clocks disagree, by their sequence numbers": [
    { id: "c", occurredAt: "2026-01-01T12:00:09Z", sequence: 1 },
    { id: "b", occurredAt: "2026-01-01T12:00:05Z", sequence: 2 },
    { id: "a", occurredAt: "2026-01-01T12:00:01Z", sequence: 3 },
  ],
  "times in several spellings, by the moment they name": [
    { id: "c", occurredAt: "2026-01-01T12:00:00Z" },
    { id: "b", occurredAt: "2026-01-01T12:00:00.25Z" },
    { id: "a", occurredAt: "2026-01-01T07:00:00.500-05:00" },
  ],
  "events without a sequence number before those with one": [
    { id: "b", occurredAt: "2026-01-01T12:00:09Z" },
    { id: "a", occurredAt: "2026-01-01T12:00:00Z", sequence: 1 },
  ],
};

const ROWS = PLACES.flatMap((place) => Object.keys(LATEST_LAST).map((name) => ({ place, name })));

test.for(ROWS)(
  "$place orders $name, whatever the order of their arrival",
  async ({ place, name }, context) => {
    const assets = await OPENED[place](context);
    const causes = LATEST_LAST[name] ?? [];
    const latest = causes.at(-1)?.id;
    const arrivals = permutations(causes).map(async (arrival, index) => {
      const asset = { id: `pump-${index}`, facility: "north", load: 1 };
      const said = arrival.map(({ id }) => id).join();
      for (const cause of arrival) await assets.upsert({ ...asset, state: cause.id }, cause);
      const after = await assets.read(asset.id);
      expect(after?.state, said).toBe(latest);
      // Nothing changes when all of them arrive again.
      for (const cause of arrival)
        expect(await assets.upsert({ ...asset, state: "again" }, cause), said).toBe(false);
      expect(await assets.read(asset.id)).toEqual(after);
    });
    await Promise.all(arrivals);
  },
);

const pump = { id: "pump-1", facility: "north", state: "online", load: 0 };
const causeOf = (second: number, id = `event-${second}`): Cause => ({
  id,
  occurredAt: `2026-01-01T12:00:0${second}Z`,
});

test.for(PLACES)(
  "%s applies an additive event once, even if other events were applied in between",
  async (place, context) => {
    const assets = await OPENED[place](context);
    await assets.upsert(pump, causeOf(1));
    const add = async (by: number, cause: Cause) => {
      const found = await assets.read("pump-1");
      return assets.write({ ...pump, load: (found?.load ?? 0) + by }, found?.version ?? 0, cause);
    };
    expect(await add(10, causeOf(2))).toBe(2);
    expect(await add(10, causeOf(2))).toBe(2);
    expect(await add(5, causeOf(3))).toBe(3);
    // The state after a crash between the write and its record.
    expect(await add(10, causeOf(2))).toBe(3);
    expect(await assets.read("pump-1")).toMatchObject({ load: 15, version: 3 });
    // An event that creates is applied once too.
    expect(await assets.write({ ...pump, id: "pump-2" }, 0, causeOf(4))).toBe(1);
    expect(await assets.write({ ...pump, id: "pump-2" }, 0, causeOf(4))).toBe(1);
  },
);

test.for(PLACES)(
  "%s refuses an old upsert even after a versioned write for an old event",
  async (place, context) => {
    const assets = await OPENED[place](context);
    await assets.upsert({ ...pump, state: "offline" }, causeOf(5));
    await assets.write({ ...pump, state: "offline", load: 3 }, 1, causeOf(1));
    expect(await assets.upsert({ ...pump, state: "online" }, causeOf(3))).toBe(false);
    expect(await assets.read("pump-1")).toMatchObject({ state: "offline", load: 3, version: 2 });
  },
);

test.for(PLACES)(
  "%s is not queried about an event without a valid time or sequence number",
  async (place, context) => {
    const assets = await OPENED[place](context);
    for (const occurredAt of ["", "2026-01-01T12:00:00", "2026", "noon", "2026-13-01T12:00:00Z"])
      await expect(assets.upsert(pump, { id: "a", occurredAt }), occurredAt).rejects.toThrow(RangeError);
    for (const sequence of [Number.NaN, -1, 1.5, 2 ** 53])
      await expect(assets.upsert(pump, { ...causeOf(1), sequence })).rejects.toThrow(RangeError);
    expect(await assets.read("pump-1")).toBeUndefined();
  },
);

function permutations<T>(items: readonly T[]): readonly (readonly T[])[] {
  if (items.length <= 1) return [items];
  return items.flatMap((item, index) =>
    permutations(items.toSpliced(index, 1)).map((others) => [item, ...others]),
  );
}
