/**
 * Tests the guide's checks of a stateless, idempotent service, each of them on the function of examples/stateless/handler.js:
 * instances of it that start cold, on a real table. What an instance logs is taken for its log.
 */
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { DynamoDBDocument } from "@aws-sdk/lib-dynamodb";
import { describe, expect, onTestFinished, type TestContext, test, vi } from "vitest";
import { sharedUrl } from "../services/services.ts";
import { clientOf, newTable } from "./dynamodb/tables.ts";

type Handler = (
  event: ReturnType<typeof eventOf>,
  context?: { getRemainingTimeInMillis(): number },
) => Promise<unknown>;

async function createScene(context: TestContext) {
  const endpoint = sharedUrl(context, "dynamodb");
  const client = clientOf(endpoint);
  onTestFinished(() => client.destroy());
  const [assetsTable, recordsTable] = [await newTable(client), await newTable(client)];
  const environment = {
    AWS_REGION: "eu-west-1",
    AWS_ACCESS_KEY_ID: "test",
    AWS_SECRET_ACCESS_KEY: "test",
    AWS_ENDPOINT_URL_DYNAMODB: endpoint,
    ASSETS_TABLE: assetsTable,
    RECORDS_TABLE: recordsTable,
  };
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
  const log = vi.spyOn(console, "log").mockReturnValue();
  const documents = DynamoDBDocument.from(client as never);

  return {
    /** A cold start: nothing of an earlier instance exists. */
    async instance(): Promise<Handler> {
      vi.resetModules();
      const module = await import("../../../../examples/stateless/handler.js");
      return module.handler;
    },
    async asset(id = "pump-1") {
      const { Item } = await documents.get({ TableName: assetsTable, Key: { id }, ConsistentRead: true });
      return Item;
    },
    /** What another program writes into the table. */
    put: (item: Record<string, unknown>) => documents.put({ TableName: assetsTable, Item: item }),
    /** Removes the records, as if every instance had crashed before it wrote them. */
    async forgetRecords() {
      const { Items = [] } = await documents.scan({ TableName: recordsTable, ConsistentRead: true });
      for (const { id } of Items) await documents.delete({ TableName: recordsTable, Key: { id } });
    },
    async records() {
      const { Items = [] } = await documents.scan({ TableName: recordsTable, ConsistentRead: true });
      return Items;
    },
    logged: () => log.mock.calls.map(([line]) => JSON.parse(String(line))),
  };
}

function eventOf(id: string, type = "registered", detail: Record<string, unknown> = {}) {
  const time = `2026-01-01T12:00:0${id.length}.000Z`;
  return {
    id,
    "detail-type": `asset.${type}`,
    time,
    detail: { assetId: "pump-1", facilityId: "north", ...detail },
  };
}

const adjusted = (id: string, by: number) => eventOf(id, "load_adjusted", { by });

describe("the checks of the guide", () => {
  test("no mutable global state between requests: a warm instance answers as a cold one", async (context) => {
    const { instance, asset } = await createScene(context);
    const warm = await instance();
    for (const id of ["a", "b"]) await warm(eventOf(id, "registered", { assetId: id }));
    await warm(eventOf("cc", "load_adjusted", { assetId: "a", by: 5 }));
    const cold = await instance();
    await cold(eventOf("dd", "load_adjusted", { assetId: "b", by: 5 }));
    const [a, b] = [await asset("a"), await asset("b")];
    expect([a?.load, b?.load, a?.version, b?.version]).toEqual([5, 5, 2, 2]);
  });

  test("all state stored in external systems: what one instance did, another that never saw it knows", async (context) => {
    const { instance, asset } = await createScene(context);
    const answer = await (await instance())(eventOf("a"));
    const before = await asset();
    expect(await (await instance())(eventOf("a"))).toEqual(answer);
    expect(await asset()).toEqual(before);
  });

  test("idempotency keys uniquely identify operations: one id is one operation, and equal contents under two are two", async (context) => {
    const { instance, asset, logged } = await createScene(context);
    const handler = await instance();
    await handler(eventOf("a"));
    for (const id of ["b1", "b2", "b1"]) await handler(adjusted(id, 5));
    expect((await asset())?.load).toBe(10);
    // The same id with another content is a mistake of the sender, and is never processed.
    await handler(adjusted("b1", 500));
    expect((await asset())?.load).toBe(10);
    expect(logged().at(-1)).toMatchObject({ kind: "alarm" });
  });

  test("deduplication lookup checks before processing: a known event does not touch the asset", async (context) => {
    const { instance, put, asset, logged } = await createScene(context);
    const handler = await instance();
    await handler(eventOf("a"));
    const byHand = {
      id: "pump-1",
      facility: "north",
      state: "repaired by hand",
      load: 1,
      version: 9,
      event: "-",
      occurredAt: "2000",
    };
    await put(byHand);
    await handler(eventOf("a"));
    expect(await asset()).toEqual(byHand);
    expect(logged().map(({ kind }) => kind)).toEqual(["done", "done-before"]);
  });

  test("upsert operations used for persistence: an event that is new or known, early or late, leaves the latest state", async (context) => {
    const { instance, asset } = await createScene(context);
    const handler = await instance();
    const changed = (id: string, state: string) => eventOf(id, "state_changed", { state, load: 3 });
    // Before it was registered, and out of order: the length of each id is its second.
    await handler(changed("333", "offline"));
    await handler(changed("22", "online"));
    await handler(eventOf("1"));
    expect(await asset()).toMatchObject({ state: "offline", load: 3, version: 1 });
  });

  test("conditional writes handle concurrent requests: of ten at once on two instances none is lost", async (context) => {
    const { instance, asset, logged } = await createScene(context);
    const handlers = [await instance(), await instance()] as const;
    await handlers[0](eventOf("a"));
    const events = Array.from({ length: 10 }, (_, index) => adjusted(`e${index}`, 1));
    await Promise.all(events.map((event, index) => handlers[(index % 2) as 0 | 1](event)));
    expect(await asset()).toMatchObject({ load: 10, version: 11 });
    const retries = logged().filter(({ kind }) => kind === "retrying");
    expect(retries.length).toBeGreaterThan(0);
    for (const { error } of retries) expect(error).toContain("concurrent-modification");
  });

  test("event IDs checked for deduplication: one event on five instances at once is done once", async (context) => {
    const { instance, asset, logged } = await createScene(context);
    const handlers: Handler[] = [];
    for (let index = 0; index < 5; index++) handlers.push(await instance());
    await handlers[0]?.(eventOf("a"));
    const ends = await Promise.allSettled(handlers.map((handler) => handler(adjusted("b", 7))));
    expect(ends.filter(({ status }) => status === "fulfilled").length).toBeGreaterThanOrEqual(1);
    // Early calls failed, and Lambda calls again.
    for (const handler of handlers) await handler(adjusted("b", 7));
    expect((await asset())?.load).toBe(7);
    expect(logged().filter(({ kind }) => kind === "done")).toHaveLength(2);
  });

  test("TTL configured for idempotency records: each is to be removed thirty days after its event was done", async (context) => {
    const { instance, records } = await createScene(context);
    const from = Date.now() / 1_000;
    await (await instance())(eventOf("a"));
    const [record] = await records();
    const days = (Number(record?.purgeAt) - from) / 86_400;
    expect(days).toBeGreaterThanOrEqual(30);
    expect(days).toBeLessThan(30.1);
  });

  test("failed operations properly marked for retry visibility: the failure is thrown, logged and counted, and the next call tries again", async (context) => {
    const { instance, records, logged } = await createScene(context);
    const handler = await instance();
    const early = eventOf("a", "painted");
    await expect(handler(early)).rejects.toMatchObject({
      message: "not done: failed",
      cause: { message: "unknown event type: asset.painted" },
    });
    expect(logged()).toMatchObject([{ kind: "failed", consumer: "asset-events", verdict: "reject" }]);
    await expect(handler(early)).rejects.toThrow("not done: failed");
    const [record] = await records();
    expect(record).toMatchObject({ number: 2 });
  });

  test("same input always produces same output: on every instance, at any time", async (context) => {
    const { instance } = await createScene(context);
    const handler = await instance();
    const first = await handler(eventOf("a"));
    expect(first).toEqual({ asset: "pump-1" });
    expect([await handler(eventOf("a")), await (await instance())(eventOf("a"))]).toEqual([first, first]);
  });

  test("no in-memory caches that survive across invocations: what changed in the table is seen by the next call", async (context) => {
    const { instance, put, asset } = await createScene(context);
    const handler = await instance();
    await handler(eventOf("a"));
    await handler(adjusted("bb", 1));
    await put({ ...(await asset()), load: 100, version: 50 });
    await handler(adjusted("ccc", 1));
    expect(await asset()).toMatchObject({ load: 101, version: 51 });
  });

  test("middleware can be applied to any handler uniformly: each type of event is done once, by one wrapper for all", async (context) => {
    const { instance, asset, logged } = await createScene(context);
    const handler = await instance();
    const all = [
      eventOf("1"),
      eventOf("22", "state_changed", { state: "offline", load: 4 }),
      adjusted("333", 1),
    ];
    for (const event of [...all, ...all]) await handler(event);
    expect(await asset()).toMatchObject({ state: "offline", load: 5, version: 3 });
    const kinds = logged().map(({ kind }) => kind);
    expect(kinds).toEqual([...all.map(() => "done"), ...all.map(() => "done-before")]);
  });
});

/** The guide's list. The titles of the checks above begin with these. */
const CHECKS = [
  "no mutable global state between requests",
  "all state stored in external systems",
  "idempotency keys uniquely identify operations",
  "deduplication lookup checks before processing",
  "upsert operations used for persistence",
  "conditional writes handle concurrent requests",
  "event IDs checked for deduplication",
  "TTL configured for idempotency records",
  "failed operations properly marked for retry visibility",
  "same input always produces same output",
  "no in-memory caches that survive across invocations",
  "middleware can be applied to any handler uniformly",
];

test("Skill: stateless handler rule + checklist: an example meets each of the twelve checks, by a test of its name", async (context) => {
  const source = await readFile(fileURLToPath(import.meta.url), "utf8");
  for (const check of CHECKS) expect(source).toContain(`  test("${check}: `);
  // The rule itself: separate instances give the same answers.
  const { instance, asset } = await createScene(context);
  await (await instance())(eventOf("1"));
  for (const id of ["22", "333", "22"]) await (await instance())(adjusted(id, 2));
  expect(await asset()).toMatchObject({ load: 4, version: 3 });
});

test("a killed function holds its event no longer than its remaining time", async (context) => {
  const { instance, records } = await createScene(context);
  await (await instance())(eventOf("a"), { getRemainingTimeInMillis: () => 3_000 });
  // Including the five seconds that clocks may differ.
  expect((await records())[0]).toMatchObject({ leaseMs: 8_000 });
});

test("crash-after-write: events whose records were lost change nothing when they arrive again, in any order", async (context) => {
  const { instance, asset, forgetRecords } = await createScene(context);
  const handler = await instance();
  // EventBridge has a resolution of one second: within it, the sequence number decides which state is later.
  const all = [
    eventOf("z", "registered", { sequence: 1 }),
    eventOf("y", "state_changed", { state: "offline", load: 4, sequence: 2 }),
    eventOf("x", "state_changed", { state: "paused", load: 6, sequence: 3 }),
    eventOf("b", "load_adjusted", { by: 10 }),
    eventOf("c", "load_adjusted", { by: 5 }),
  ];
  for (const event of all) await handler(event);
  const before = await asset();
  expect(before).toMatchObject({ state: "paused", load: 21, version: 5 });
  for (const events of [all, all.toReversed()]) {
    await forgetRecords();
    for (const event of events) await handler(event);
    expect(await asset()).toEqual(before);
  }
});

test("an event without a valid time is rejected, and not retried", async (context) => {
  const { instance, logged } = await createScene(context);
  const handler = await instance();
  await expect(handler({ ...eventOf("a"), time: "yesterday" })).rejects.toThrow("not done: failed");
  expect(logged()).toMatchObject([{ kind: "failed", verdict: "reject" }]);
});
