/** Powertools for AWS Lambda on DynamoDB (dynalite) and on its cache layer: `makeIdempotent`, outside of Lambda. */

import { setTimeout as pause } from "node:timers/promises";
import {
  IdempotencyAlreadyInProgressError,
  IdempotencyConfig,
  IdempotencyPersistenceLayerError,
  IdempotencyValidationError,
  makeIdempotent,
} from "@aws-lambda-powertools/idempotency";
import { CachePersistenceLayer } from "@aws-lambda-powertools/idempotency/cache";
import { DynamoDBPersistenceLayer } from "@aws-lambda-powertools/idempotency/dynamodb";
import { CreateTableCommand, DynamoDBClient, paginateScan } from "@aws-sdk/client-dynamodb";
import { countRedis, flushRedis } from "../records.js";
import { connectRedis } from "../redis-client.js";
import { createRunningCalls } from "../running-calls.js";

const TABLE = "idempotency";
const POLL_MS = 100;

function powertools({ name, title, packages = [], openLayer, settings, ...rest }) {
  return {
    name,
    title,
    packages: ["@aws-lambda-powertools/idempotency", ...packages],
    documentation: "https://docs.aws.amazon.com/powertools/typescript/latest/features/idempotency/",
    settings,
    hasLease: true,
    ...rest,
    without: {
      13: "It has no HTTP layer, so it does not know the callers.",
      ...rest.without,
    },

    async open(options) {
      const { target, application = "shop" } = options;
      const { createLayer, close } = await openLayer(target, options);
      const layers = new Map();
      const running = createRunningCalls();

      /** Each configuration needs a layer of its own, as the library says; the prefix is a part of the layer, too. */
      function layerFor(configuration) {
        if (!layers.has(configuration)) layers.set(configuration, createLayer());
        return layers.get(configuration);
      }

      async function call({ key, body, operation = "charge", tenant, waitMs, retentionMs }, work) {
        const seconds = (retentionMs ?? options.retentionMs ?? 86_400_000) / 1_000;
        const config = new IdempotencyConfig({
          eventKeyJmesPath: "key",
          expiresAfterSeconds: seconds,
          throwOnNoIdempotencyKey: true,
          ...(options.comparesBodies && { payloadValidationJmesPath: "body" }),
        });
        const keyPrefix = [application, tenant, operation].filter(Boolean).join("/");
        const leaseMs = options.leaseMs ?? 30_000;
        config.registerLambdaContext({ getRemainingTimeInMillis: () => leaseMs });
        const once = makeIdempotent((event) => work(event.body, event), {
          persistenceStore: layerFor(`${seconds} ${keyPrefix}`),
          config,
          keyPrefix,
        });
        const event = { key, body: body ?? null };
        const giveUpAt = performance.now() + (waitMs ?? 10_000);
        for (;;) {
          try {
            return { value: await once(event) };
          } catch (error) {
            const refusal = refusalFrom(error);
            if (refusal !== "pending" || performance.now() > giveUpAt)
              return { refusal, message: `${error.name}: ${error.message}${reason(error)}` };
          }
          await pause(POLL_MS);
        }
      }

      return {
        call: (request, work) => running.track(call(request, work)),
        loseRecords: () => rest.loseRecords?.(target),
        async close() {
          await running.ended();
          await close();
        },
      };
    },
  };
}

function reason(error) {
  return error.cause === undefined ? "" : ` (${error.cause.message})`;
}

function refusalFrom(error) {
  if (error instanceof IdempotencyAlreadyInProgressError) return "pending";
  if (error instanceof IdempotencyValidationError) return "conflict";
  if (error instanceof IdempotencyPersistenceLayerError) return "unavailable";
  return "failed";
}

const ACCOUNT = {
  region: "eu-west-1",
  credentials: { accessKeyId: "scoreboard", secretAccessKey: "scoreboard" },
};
const CALLS =
  "`makeIdempotent` with an event key, 24 h, `throwOnNoIdempotencyKey`, a registered Lambda context with 30 s left; callers retry every 100 ms while a call is in progress; `payloadValidationJmesPath` where bodies are compared";

export const powertoolsRows = [
  powertools({
    name: "powertools-dynamodb",
    title: "Powertools, DynamoDB",
    packages: ["@aws-sdk/client-dynamodb"],
    settings: `\`DynamoDBPersistenceLayer\` on dynalite; ${CALLS}.`,
    place: "dynalite",
    isShared: true,
    backlog: 2_000,
    collectsItself:
      "DynamoDB removes expired items by itself; dynalite does not, so only the answers are checked",
    openLayer: async ({ url, tableName = TABLE, directUrl }, { hasFaults }) => {
      await createTable(directUrl, tableName);
      const client = new DynamoDBClient({
        ...ACCOUNT,
        endpoint: url,
        ...(hasFaults && { requestHandler: { connectionTimeout: 1_000, requestTimeout: 1_500 } }),
      });
      return {
        createLayer: () => new DynamoDBPersistenceLayer({ tableName, awsSdkV3Client: client }),
        close: async () => client.destroy(),
      };
    },
    loseRecords: ({ directUrl, tableName = TABLE }) => emptyTable(directUrl, tableName),
    clients: { "@aws-sdk/client-dynamodb": undefined },
  }),
  powertools({
    name: "powertools-redis",
    title: "Powertools, Redis",
    packages: ["redis"],
    settings: `\`CachePersistenceLayer\` on a client of \`redis\`; ${CALLS}.`,
    place: "redis",
    isShared: true,
    openLayer: async ({ url }, options) => {
      const client = await connectRedis(url, options);
      return {
        createLayer: () => new CachePersistenceLayer({ client }),
        close: async () => client.destroy(),
      };
    },
    loseRecords: ({ directUrl }) => flushRedis(directUrl),
    countRecords: ({ directUrl }) => countRedis(directUrl),
    clients: { redis: undefined },
  }),
];

async function createTable(url, TableName) {
  const client = new DynamoDBClient({ ...ACCOUNT, endpoint: url });
  try {
    await client.send(
      new CreateTableCommand({
        TableName,
        BillingMode: "PAY_PER_REQUEST",
        KeySchema: [{ AttributeName: "id", KeyType: "HASH" }],
        AttributeDefinitions: [{ AttributeName: "id", AttributeType: "S" }],
      }),
    );
  } catch (error) {
    if (error.name !== "ResourceInUseException") throw error;
  } finally {
    client.destroy();
  }
}

async function emptyTable(url, TableName) {
  const { DeleteItemCommand } = await import("@aws-sdk/client-dynamodb");
  const client = new DynamoDBClient({ ...ACCOUNT, endpoint: url });
  for await (const { Items = [] } of paginateScan({ client }, { TableName }))
    for (const { id } of Items) await client.send(new DeleteItemCommand({ TableName, Key: { id } }));
  client.destroy();
}
