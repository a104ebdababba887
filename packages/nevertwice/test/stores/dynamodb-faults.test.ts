/** The DynamoDB store when the connection breaks, the service refuses, or the table is not as it should be. */

import { randomUUID } from "node:crypto";
import { CreateTableCommand } from "@aws-sdk/client-dynamodb";
import { DynamoDBDocumentClient } from "@aws-sdk/lib-dynamodb";
import { expect, type TestContext, test } from "vitest";
import type { ClaimRequest, Store } from "../../src/core/store.ts";
import { failure } from "../../src/stores/dynamodb/failures.ts";
import { type DynamodbClient, dynamodbStore, dynamodbTable } from "../../src/stores/dynamodb.ts";
import { type Filter, startProxy } from "../services/proxy.ts";
import { sharedUrl, startFor } from "../services/services.ts";
import { clientOf, lowClient, newTable } from "./dynamodb/tables.ts";
import { startTelling } from "./dynamodb/telling.ts";

function claimOf(key: string, more: Partial<ClaimRequest> = {}): ClaimRequest {
  return {
    id: `id-${key}`,
    parts: { namespace: "n", scope: "s", operation: "o", key },
    token: randomUUID(),
    leaseMs: 60_000,
    retentionMs: 3_600_000,
    hold: false,
    ...more,
  };
}

const unavailable = { code: "unavailable", retryable: true };

/** A store behind a proxy, which repeats nothing by itself unless it is told so, and one beside it. */
async function throughProxy(context: TestContext, maxAttempts = 1) {
  const url = sharedUrl(context, "dynamodb");
  const beside = clientOf(url);
  const table = await newTable(beside);
  const proxy = await startFor(context, () => startProxy(url));
  const client = clientOf(proxy.url, { maxAttempts });
  context.onTestFinished(() => {
    client.destroy();
    beside.destroy();
  });
  const store = dynamodbStore({ client, table });
  await store.read("warm");
  return { store, beside: dynamodbStore({ client: beside, table }), proxy };
}

const asking =
  (operation: string): Filter =>
  (chunk) =>
    chunk.includes(`.${operation}`);

test("lost-reply: a claim whose reply was lost is recognised by its token", async (context) => {
  const { store, beside, proxy } = await throughProxy(context);
  const request = claimOf("a");
  proxy.cutReply(1, asking("PutItem"));
  await expect(store.claim(request)).rejects.toMatchObject(unavailable);
  const record = await beside.read(request.id);
  expect(record).toMatchObject({ token: request.token, state: "pending" });
  expect(await store.claim(request)).toEqual({
    status: "new",
    fence: record?.fence,
    number: 1,
    tookOver: false,
  });
  expect(await store.claim(claimOf("a"))).toMatchObject({ status: "pending" });
});

const STEPS: Readonly<
  Record<
    string,
    { readonly asks: readonly string[]; take(store: Store, id: string, token: string): Promise<unknown> }
  >
> = {
  complete: {
    asks: ["UpdateItem"],
    take: (store, id, token) => store.complete({ id, token, outcome: "done", retentionMs: 60_000 }),
  },
  "abandon as released": {
    asks: ["GetItem", "PutItem"],
    take: (store, id, token) => store.abandon({ id, token, as: "released" }),
  },
  "abandon as unknown": {
    asks: ["GetItem", "PutItem"],
    take: (store, id, token) => store.abandon({ id, token, as: "unknown" }),
  },
  renew: {
    asks: ["GetItem", "PutItem"],
    take: (store, id, token) => store.renew({ id, token, leaseMs: 60_000 }),
  },
};

for (const [name, { asks, take }] of Object.entries(STEPS)) {
  for (const operation of asks) {
    for (const side of ["cutReply", "cutRequest"] as const) {
      test(`lost-reply: ${name} is true when it is asked again (${operation}, ${side})`, async (context) => {
        const { store, proxy } = await throughProxy(context);
        const owner = claimOf("a");
        await store.claim(owner);
        proxy[side](1, asking(operation));
        await expect(take(store, owner.id, owner.token)).rejects.toMatchObject(unavailable);
        expect(await take(store, owner.id, owner.token)).toBe(true);
      });
    }
    test(`lost-reply: ${name} is true though the SDK asked again by itself (${operation})`, async (context) => {
      const { store, proxy } = await throughProxy(context, 3);
      const owner = claimOf("a");
      await store.claim(owner);
      proxy.cutReply(1, asking(operation));
      expect(await take(store, owner.id, owner.token)).toBe(true);
    });
  }
}

test("lost-reply: a claim that the SDK asked for twice is new, once", async (context) => {
  const { store, proxy } = await throughProxy(context, 3);
  const request = claimOf("a");
  proxy.cutReply(1, asking("PutItem"));
  expect(await store.claim(request)).toMatchObject({ status: "new", number: 1, tookOver: false });
  expect(await store.claim(claimOf("a"))).toMatchObject({ status: "pending" });
});

test("a write that stands in its own way is known by its mark, where the service tells", async (context) => {
  const url = sharedUrl(context, "dynamodb");
  const plain = clientOf(url);
  const table = await newTable(plain);
  const telling = await startTelling(context, url);
  const proxy = await startFor(context, () => startProxy(telling.url));
  const client = clientOf(proxy.url, { maxAttempts: 3 });
  context.onTestFinished(() => {
    client.destroy();
    plain.destroy();
  });
  const store = dynamodbStore({ client, table });
  await store.read("warm");
  proxy.cutReply(1, asking("PutItem"));
  telling.asked.length = 0;
  expect(await store.claim(claimOf("a"))).toMatchObject({ status: "new", number: 1 });
  expect(telling.asked).toEqual(["PutItem", "PutItem"]);
});

test("a service that cannot be reached is unavailable, and the store works once it is back", async (context) => {
  const { store, proxy } = await throughProxy(context);
  proxy.refuse();
  proxy.cutAll();
  await expect(store.claim(claimOf("a"))).rejects.toMatchObject(unavailable);
  proxy.heal();
  expect(await store.claim(claimOf("a"))).toMatchObject({ status: "new" });
});

test("a port where nobody listens is unavailable", async () => {
  const client = clientOf("http://127.0.0.1:1", { maxAttempts: 1 });
  await expect(dynamodbStore({ client, table: "t" }).read("a")).rejects.toMatchObject(unavailable);
});

test("a table that is missing is store-unsafe, and says how to make it", async (context) => {
  const client = clientOf(sharedUrl(context, "dynamodb"));
  context.onTestFinished(() => client.destroy());
  const store = dynamodbStore({ client, table: "nowhere" });
  const missing = { code: "store-unsafe", message: expect.stringContaining("no table nowhere") };
  await expect(store.claim(claimOf("a"))).rejects.toMatchObject(missing);
  await expect(store.read("a")).rejects.toMatchObject(missing);
  await expect(store.purge(1)).rejects.toMatchObject(missing);
  await expect(store.list?.({ namespace: "n", limit: 1 })).rejects.toMatchObject(missing);
  await expect(store.claim(claimOf("a"))).rejects.toMatchObject({
    message: expect.stringContaining("dynamodbTable(name)"),
  });
});

test("a table with another key is store-unsafe", async (context) => {
  const client = clientOf(sharedUrl(context, "dynamodb"));
  context.onTestFinished(() => client.destroy());
  const definition = dynamodbTable(`other-${randomUUID()}`);
  await client.send(
    new CreateTableCommand({
      ...definition,
      AttributeDefinitions: [{ AttributeName: "pk", AttributeType: "S" }],
      KeySchema: [{ AttributeName: "pk", KeyType: "HASH" }],
    }),
  );
  await new Promise((resolve) => setTimeout(resolve, 50));
  const store = dynamodbStore({ client, table: definition.TableName });
  const wrong = { code: "store-unsafe", message: expect.stringContaining("must be id, a string") };
  await expect(store.claim(claimOf("a"))).rejects.toMatchObject(wrong);
  await expect(store.read("a")).rejects.toMatchObject(wrong);
});

test("credentials that cannot be had are store-unsafe", async (context) => {
  const client = DynamoDBDocumentClient.from(
    lowClient(sharedUrl(context, "dynamodb"), {
      credentials: async () => {
        throw Object.assign(new Error("no credentials"), { name: "CredentialsProviderError" });
      },
    }),
  );
  context.onTestFinished(() => client.destroy());
  await expect(dynamodbStore({ client, table: "t" }).read("a")).rejects.toMatchObject({
    code: "store-unsafe",
    message: expect.stringContaining("refused the credentials"),
  });
});

test("what the service says is told apart: refused, throttled, broken, and anything else", () => {
  const codeOf = (name: string, more: object = {}) =>
    (failure(Object.assign(new Error("said"), { name }, more), "t") as { code?: string; name: string }).code;
  for (const name of [
    "AccessDeniedException",
    "UnrecognizedClientException",
    "InvalidSignatureException",
    "MissingAuthenticationTokenException",
    "ExpiredTokenException",
    "CredentialsProviderError",
    "ResourceNotFoundException",
  ])
    expect(codeOf(name)).toBe("store-unsafe");
  for (const name of [
    "ProvisionedThroughputExceededException",
    "ThrottlingException",
    "RequestLimitExceeded",
    "InternalServerError",
    "TimeoutError",
  ])
    expect(codeOf(name)).toBe("unavailable");
  expect(codeOf("Error", { code: "ECONNRESET" })).toBe("unavailable");
  expect(codeOf("Whatever", { $metadata: { httpStatusCode: 503 } })).toBe("unavailable");
  expect(codeOf("ValidationException")).toBeUndefined();
});

test("what is no client, no table name, no clock or no such option is refused", () => {
  const client: DynamodbClient = { send: async () => ({}) };
  const refused = (options: object) => {
    try {
      dynamodbStore(options as never);
    } catch (error) {
      return (error as { code: string }).code;
    }
    return undefined;
  };
  expect(refused({ client, table: "t" })).toBeUndefined();
  for (const options of [
    {},
    { client },
    { table: "t" },
    { client: {}, table: "t" },
    { client, table: "" },
    { client, table: "t", clock: {} },
    { client, table: "t", clockSkewMs: -1 },
    { client, table: "t", skew: 1 },
  ])
    expect(refused(options)).toBe("options-invalid");
});
