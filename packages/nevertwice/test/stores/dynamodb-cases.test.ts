/**
 * Tests the published cases on dynalite, behind the proxy that adds the current item to failed conditions. Every case has its own
 * table, because each purges by its own clock. The cases run one by one, because dynalite does one thing at a time.
 */
import type { DynamoDBDocumentClient } from "@aws-sdk/lib-dynamodb";
import { afterAll, beforeAll, describe, inject } from "vitest";
import { dynamodbStore } from "../../src/stores/dynamodb.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { describeStoreCases, NO_WATCH, SCANS } from "./cases.ts";
import { type ConditionProxy, conditionProxyServer } from "./dynamodb/condition-proxy.ts";
import { clientOf, newTable } from "./dynamodb/tables.ts";

describe("as the service answers", () => {
  let proxy: ConditionProxy & { stop(): void };
  let client: DynamoDBDocumentClient;
  beforeAll(async () => {
    proxy = await conditionProxyServer(String(inject("services").dynamodb));
    client = clientOf(proxy.url);
  });
  afterAll(() => {
    client.destroy();
    proxy.stop();
  });

  describeStoreCases(
    "dynamodbStore on dynalite",
    async () => {
      const clock = manualClock();
      const table = await newTable(client);
      const store = dynamodbStore({ client, table, clock, clockSkewMs: 0 });
      return { store, advance: clock.advance };
    },
    { service: "dynamodb", without: { ...NO_WATCH, ...SCANS }, oneByOne: true, row: "DynamoDB, dynalite" },
  );
});
