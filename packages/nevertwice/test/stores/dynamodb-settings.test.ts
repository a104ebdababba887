/** What the doctor says of a DynamoDB table. */
import { expect, test } from "vitest";
import { diagnose } from "../../src/core/doctor.ts";
import { judge } from "../../src/stores/dynamodb/settings.ts";
import { dynamodbStore } from "../../src/stores/dynamodb.ts";
import { sharedUrl } from "../services/services.ts";
import { clientOf, newTable } from "./dynamodb/tables.ts";

test("a program that stands in for the service is not taken for it", async (context) => {
  const client = clientOf(sharedUrl(context, "dynamodb"));
  context.onTestFinished(() => client.destroy());
  const table = await newTable(client);
  const { title, rung, survives, notes } = await diagnose(dynamodbStore({ client, table }));
  expect(title).toContain(`DynamoDB table ${table} in `);
  expect(rung).toBe("our-crash");
  expect(survives["power-loss"]).toMatchObject({ survives: "unknown" });
  expect(notes.join()).toContain("5000 ms apart (clockSkewMs); beyond that only the fence is safe");
  expect(notes.join()).toContain("TTL on purgeAt is not on");
});

const TABLE = { TableArn: "arn:aws:dynamodb:eu-west-1:123456789012:table/nevertwice" };
const TTL = { TimeToLiveDescription: { TimeToLiveStatus: "ENABLED", AttributeName: "purgeAt" } };

function survivals(table: object): readonly string[] {
  const { survives } = judge("nevertwice", { table: { Table: table }, timeToLive: TTL }, 5_000);
  return Object.values(survives).map((finding) => finding.survives);
}

test("a table of one region survives everything", () => {
  expect(survivals(TABLE)).toEqual(["yes", "yes", "yes", "yes"]);
  const { title, notes } = judge("nevertwice", { table: { Table: TABLE }, timeToLive: TTL }, 5_000);
  expect(title).toBe("DynamoDB table nevertwice in eu-west-1");
  expect(notes).toHaveLength(1);
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

test("a table that is not there, or cannot be reached, is not judged", async (context) => {
  const client = clientOf(sharedUrl(context, "dynamodb"));
  const nobody = clientOf("http://127.0.0.1:1", { maxAttempts: 1 });
  context.onTestFinished(() => client.destroy());
  await expect(dynamodbStore({ client, table: "nowhere" }).settings?.()).rejects.toMatchObject({
    code: "store-unsafe",
  });
  await expect(dynamodbStore({ client: nobody, table: "t" }).settings?.()).rejects.toMatchObject({
    code: "unavailable",
  });
});

test("a table that may not be described is not vouched for", () => {
  const { survives, notes } = judge("t", { table: undefined, timeToLive: undefined }, 0);
  expect(survives.failover).toMatchObject({
    survives: "unknown",
    raise: expect.stringContaining("DescribeTable"),
  });
  expect(notes.join()).toContain("as far as can be told");
});
