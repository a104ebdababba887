/** Tests what the doctor reports about a DynamoDB table. */
import { expect, test } from "vitest";
import { diagnose } from "../../src/core/doctor.ts";
import { judgeDurability } from "../../src/stores/dynamodb/durability.ts";
import { dynamodbStore } from "../../src/stores/dynamodb.ts";
import { sharedUrl } from "../services/services.ts";
import { clientOf, newTable } from "./dynamodb/tables.ts";

test("an emulator is not judged like the service", async (context) => {
  const client = clientOf(sharedUrl(context, "dynamodb"));
  context.onTestFinished(() => client.destroy());
  const table = await newTable(client);
  const { title, rung, survives, notes } = await diagnose(dynamodbStore({ client, table }));
  expect(title).toContain(`DynamoDB table ${table} in `);
  expect(rung).toBe("our-crash");
  expect(survives["power-loss"]).toMatchObject({ survives: "unknown" });
  expect(notes.join()).toContain("5000 ms (clockSkewMs); beyond that only the fence is safe");
  expect(notes.join()).toContain("TTL on purgeAt is off, or cannot be read");
});

const TABLE = { TableArn: "arn:aws:dynamodb:eu-west-1:123456789012:table/nevertwice" };
const TTL = { TimeToLiveDescription: { TimeToLiveStatus: "ENABLED", AttributeName: "purgeAt" } };

function survivals(table: object): readonly string[] {
  const { survives } = judgeDurability("nevertwice", { table: { Table: table }, timeToLive: TTL }, 5_000);
  return Object.values(survives).map((finding) => finding.survives);
}

test("a table in one region survives every fault", () => {
  expect(survivals(TABLE)).toEqual(["yes", "yes", "yes", "yes"]);
  const { title, notes } = judgeDurability("nevertwice", { table: { Table: TABLE }, timeToLive: TTL }, 5_000);
  expect(title).toBe("DynamoDB table nevertwice in eu-west-1");
  expect(notes).toHaveLength(2);
  expect(notes[1]).toContain("fences are as good as the callers' clocks");
});

test("a global table does not survive failover, unless it is strongly consistent", () => {
  const Replicas = [{ RegionName: "us-east-1" }];
  expect(survivals({ ...TABLE, Replicas })).toEqual(["yes", "yes", "yes", "no"]);
  expect(survivals({ ...TABLE, Replicas, MultiRegionConsistency: "STRONG" })).toEqual([
    "yes",
    "yes",
    "yes",
    "yes",
  ]);
});

test("a strongly consistent global table is not told to turn on TTL, which it cannot have", () => {
  const table = { ...TABLE, Replicas: [{ RegionName: "us-east-1" }], MultiRegionConsistency: "STRONG" };
  const { notes } = judgeDurability("nevertwice", { table: { Table: table }, timeToLive: undefined }, 5_000);
  expect(notes[2]).toBe(
    "a global table with strong consistency has no TTL: guards scan the table to purge it",
  );
});

test("a table that is missing or cannot be reached is not judged", async (context) => {
  const client = clientOf(sharedUrl(context, "dynamodb"));
  const unreachable = clientOf("http://127.0.0.1:1", { maxAttempts: 1 });
  context.onTestFinished(() => client.destroy());
  await expect(dynamodbStore({ client, table: "nowhere" }).settings?.()).rejects.toMatchObject({
    code: "store-unsafe",
  });
  await expect(dynamodbStore({ client: unreachable, table: "t" }).settings?.()).rejects.toMatchObject({
    code: "unavailable",
  });
});

test("a table that may not be described is reported as unknown", () => {
  const { survives, notes } = judgeDurability("t", { table: undefined, timeToLive: undefined }, 0);
  expect(survives.failover).toMatchObject({
    survives: "unknown",
    raise: expect.stringContaining("DescribeTable"),
  });
  expect(notes.join()).toContain("TTL on purgeAt is off, or cannot be read");
});
