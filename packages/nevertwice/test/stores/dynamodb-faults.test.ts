/** Tests the DynamoDB store when the connection breaks, the service refuses, or the table is wrong. */

import { randomUUID } from "node:crypto";
import { CreateTableCommand } from "@aws-sdk/client-dynamodb";
import { DynamoDBDocumentClient } from "@aws-sdk/lib-dynamodb";
import { expect, type TestContext, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { toStoreError } from "../../src/stores/dynamodb/errors.ts";
import { type DynamodbClient, dynamodbStore, dynamodbTable } from "../../src/stores/dynamodb.ts";
import { type Filter, startProxy } from "../services/proxy.ts";
import { sharedUrl, startFor } from "../services/services.ts";
import { claimOf } from "./claim-request.ts";
import { startConditionProxy } from "./dynamodb/condition-proxy.ts";
import { clientOf, lowClient, newTable } from "./dynamodb/tables.ts";
import {
  expectBackAfterRefusal,
  expectClaimRecognised,
  STEPS,
  testRepeatedStep,
  UNAVAILABLE,
} from "./lost-replies.ts";

/** A store behind a proxy, whose SDK makes `maxAttempts` attempts, and a second one directly on the service. */
async function throughProxy(context: TestContext, maxAttempts = 1) {
  const url = sharedUrl(context, "dynamodb");
  const direct = clientOf(url);
  const table = await newTable(direct);
  const proxy = await startFor(context, () => startProxy(url));
  const client = clientOf(proxy.url, { maxAttempts });
  context.onTestFinished(() => {
    client.destroy();
    direct.destroy();
  });
  const store = dynamodbStore({ client, table });
  await store.read("warm");
  return { store, direct: dynamodbStore({ client: direct, table }), proxy };
}

const asking =
  (operation: string): Filter =>
  (chunk) =>
    chunk.includes(`.${operation}`);

test("lost-reply: a claim whose reply was lost is recognised by its token", async (context) => {
  await expectClaimRecognised(await throughProxy(context), asking("PutItem"));
});

/** The requests of each step. */
const REQUESTS = {
  complete: ["UpdateItem"],
  "abandon as released": ["GetItem", "PutItem"],
  "abandon as unknown": ["GetItem", "PutItem"],
  renew: ["GetItem", "PutItem"],
} as const;

for (const name of Object.keys(REQUESTS) as (keyof typeof REQUESTS)[]) {
  for (const operation of REQUESTS[name]) {
    testRepeatedStep(name, operation, asking(operation), throughProxy);
    test(`lost-reply: ${name} is true although the SDK itself repeated it (${operation})`, async (context) => {
      const { store, proxy } = await throughProxy(context, 3);
      const owner = claimOf("a");
      await store.claim(owner);
      proxy.cutReply(1, asking(operation));
      expect(await STEPS[name](store, owner.id, owner.token)).toBe(true);
    });
  }
}

test("lost-reply: a claim that the SDK sent twice is new once", async (context) => {
  const { store, proxy } = await throughProxy(context, 3);
  const request = claimOf("a");
  proxy.cutReply(1, asking("PutItem"));
  expect(await store.claim(request)).toMatchObject({ status: "new", number: 1, tookOver: false });
  expect(await store.claim(claimOf("a"))).toMatchObject({ status: "pending" });
});

test("a repeated write recognises its own mark in the item that the service returns", async (context) => {
  const url = sharedUrl(context, "dynamodb");
  const plain = clientOf(url);
  const table = await newTable(plain);
  const conditions = await startConditionProxy(context, url);
  const proxy = await startFor(context, () => startProxy(conditions.url));
  const client = clientOf(proxy.url, { maxAttempts: 3 });
  context.onTestFinished(() => {
    client.destroy();
    plain.destroy();
  });
  const store = dynamodbStore({ client, table });
  await store.read("warm");
  proxy.cutReply(1, asking("PutItem"));
  conditions.operations.length = 0;
  expect(await store.claim(claimOf("a"))).toMatchObject({ status: "new", number: 1 });
  expect(conditions.operations).toEqual(["PutItem", "PutItem"]);
});

test("a service that cannot be reached is unavailable, and the store works once it is back", async (context) => {
  await expectBackAfterRefusal(await throughProxy(context));
});

/** Each call of the store, with a signal that cancels it. */
const CALLS: Readonly<Record<string, (store: Store, signal: AbortSignal) => Promise<unknown> | undefined>> = {
  claim: (store, signal) => store.claim({ ...claimOf("a"), signal }),
  complete: (store, signal) =>
    store.complete({ id: "id-a", token: "t", outcome: "done", retentionMs: 1, signal }),
  renew: (store, signal) => store.renew({ id: "id-a", token: "t", leaseMs: 1, signal }),
  abandon: (store, signal) => store.abandon({ id: "id-a", token: "t", as: "released", signal }),
  read: (store, signal) => store.read("id-a", { signal }),
  forget: (store, signal) => store.forget?.({ id: "id-a", fence: 1, signal }),
  list: (store, signal) => store.list?.({ namespace: "n", limit: 1, signal }),
};

for (const [name, call] of Object.entries(CALLS)) {
  test(`stuck-store: a cancelled ${name} ends its request and closes its connection`, async (context) => {
    const { store, proxy } = await throughProxy(context, 3);
    expect(store.usesSignal).toBe(true);
    proxy.hang();
    const giveUp = new AbortController();
    const before = proxy.requests;
    const called = call(store, giveUp.signal);
    const refused = expect(called).rejects.toMatchObject(UNAVAILABLE);
    await expect.poll(() => proxy.requests, { timeout: 15_000 }).toBeGreaterThan(before);
    giveUp.abort();
    await refused;
    await expect.poll(() => proxy.connections, { timeout: 15_000 }).toBe(0);
    proxy.heal();
    expect(await store.claim(claimOf("b"))).toMatchObject({ status: "new" });
  });
}

test("a port without a listener is unavailable", async () => {
  const client = clientOf("http://127.0.0.1:1", { maxAttempts: 1 });
  await expect(dynamodbStore({ client, table: "t" }).read("a")).rejects.toMatchObject(UNAVAILABLE);
});

test("a missing table is store-unsafe, and the message says how to create it", async (context) => {
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

test("missing credentials are store-unsafe", async (context) => {
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

test("translates each error of the service to its code: refused, throttled, broken, and others", () => {
  const codeOf = (name: string, more: object = {}) =>
    (toStoreError(Object.assign(new Error("said"), { name }, more), "t") as { code?: string; name: string })
      .code;
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
  expect(codeOf("ValidationException", { $metadata: { httpStatusCode: 400 } })).toBe("store-unsafe");
  expect(codeOf("TypeError")).toBeUndefined();
});

test("refuses a value that is not a client, table name or clock, and an unknown option", () => {
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

const LOOKS: Readonly<Record<string, (store: Store) => Promise<unknown>>> = {
  read: async (store) => (await store.read("id-a"))?.state,
  list: async (store) => (await store.list?.({ namespace: "n", limit: 5 }))?.records[0]?.state,
  "a claim that is told what stands there": async (store) => (await store.claim(claimOf("a"))).status,
  "a claim that holds": async (store) => (await store.claim(claimOf("a", { hold: true }))).status,
  "a claim that takes over": async (store) => (await store.claim(claimOf("a", { takeover: 1 }))).status,
};

for (const [name, look] of Object.entries(LOOKS)) {
  test(`${name}: a record that was renewed all the time is not seen as lapsed where answers are slow`, async (context) => {
    const { url } = await startConditionProxy(context, sharedUrl(context, "dynamodb"));
    const client = clientOf(url);
    context.onTestFinished(() => client.destroy());
    const table = await newTable(client);
    let time = 1_000_000;
    const clock = { now: () => time };
    const owner = dynamodbStore({ client, table, clock });
    const { id, token } = claimOf("a");
    await owner.claim(claimOf("a", { token }));
    // Each answer is under way for longer than the lease, which is renewed meanwhile.
    const far: DynamodbClient = {
      async send(command, options) {
        const answer = client.send(command, options);
        await answer.catch(() => {});
        for (let renewals = 0; renewals < 4; renewals++) {
          time += 30_000;
          await owner.renew({ id, token, leaseMs: 60_000 });
        }
        return answer;
      },
    };
    expect(await look(dynamodbStore({ client: far, table, clock }))).toBe("pending");
  });
}
