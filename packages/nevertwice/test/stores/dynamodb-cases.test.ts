/**
 * The published cases on dynalite, told what the service tells. Every case has a table of its own, since each purges by a
 * clock of its own; and they run one by one, since dynalite does one thing at a time.
 */
import type { DynamoDBDocumentClient } from "@aws-sdk/lib-dynamodb";
import { afterAll, beforeAll, describe, inject } from "vitest";
import { dynamodbStore } from "../../src/stores/dynamodb.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { describeStoreCases, NO_WATCH } from "./cases.ts";
import { clientOf, newTable } from "./dynamodb/tables.ts";
import { type Telling, tellingServer } from "./dynamodb/telling.ts";

describe("as the service answers", () => {
  let telling: Telling & { stop(): void };
  let client: DynamoDBDocumentClient;
  beforeAll(async () => {
    telling = await tellingServer(String(inject("services").dynamodb));
    client = clientOf(telling.url);
  });
  afterAll(() => {
    client.destroy();
    telling.stop();
  });

  describeStoreCases(
    "dynamodbStore on dynalite",
    async () => {
      const clock = manualClock();
      const table = await newTable(client);
      const store = dynamodbStore({ client, table, clock, clockSkewMs: 0 });
      return { store, advance: clock.advance };
    },
    { service: "dynamodb", without: NO_WATCH, oneByOne: true },
  );
});
