/** What the DynamoDB store adds to the contract: clocks that differ, its requests, its items, and lost races. */
import { randomUUID } from "node:crypto";
import { DynamoDBDocument, GetCommand, ScanCommand } from "@aws-sdk/lib-dynamodb";
import { expect, type TestContext, test, vi } from "vitest";
import type { ClaimAnswer } from "../../src/core/store.ts";
import { createGuard } from "../../src/index.ts";
import { dynamodbStore } from "../../src/stores/dynamodb.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { sharedUrl } from "../services/services.ts";
import { claimOf } from "./claim-request.ts";
import { startConditionProxy } from "./dynamodb/condition-proxy.ts";
import { clientOf, lowClient, newTable } from "./dynamodb/tables.ts";

async function newPlace(context: TestContext) {
  const url = sharedUrl(context, "dynamodb");
  const client = clientOf(url);
  context.onTestFinished(() => client.destroy());
  return { url, client, table: await newTable(client) };
}

const SKEW_MS = 5_000;

for (const aheadMs of [-SKEW_MS, -2_500, -1, 0, 1, 2_500, SKEW_MS]) {
  test(`clock-skew: a caller ${aheadMs} ms ahead does not take over a running lease`, async (context) => {
    const { client, table } = await newPlace(context);
    const ours = manualClock();
    const theirs = manualClock(ours.now() + aheadMs);
    const pass = (ms: number) => {
      ours.advance(ms);
      theirs.advance(ms);
    };
    const owner = dynamodbStore({ client, table, clock: ours });
    const other = dynamodbStore({ client, table, clock: theirs });
    const request = claimOf("a", { leaseMs: 30_000 });
    const { id, token } = request;
    await owner.claim(request);
    // Renewed after a third of the lease, as a guard does, and claimed at every moment that could matter.
    for (let thirds = 0; thirds < 5; thirds++) {
      expect(await other.claim(claimOf("a"))).toMatchObject({ status: "pending" });
      pass(9_999);
      expect(await other.claim(claimOf("a"))).toMatchObject({ status: "pending" });
      expect(await owner.renew({ id, token, leaseMs: 30_000 })).toBe(true);
    }
    expect(await other.claim(claimOf("a"))).toMatchObject({ status: "pending" });
    pass(29_999);
    expect(await other.claim(claimOf("a"))).toMatchObject({ status: "pending" });
    // From here on the owner knows that its lease has ended.
    pass(2 * SKEW_MS + 1);
    expect(await other.claim(claimOf("a"))).toMatchObject({ status: "new", number: 2, tookOver: true });
    expect(await owner.complete({ id, token, outcome: "late", retentionMs: 1_000 })).toBe(false);
  });

  test(`clock-skew: a caller ${aheadMs} ms ahead neither loses nor purges an outcome before its retention ends`, async (context) => {
    const { client, table } = await newPlace(context);
    const ours = manualClock();
    const theirs = manualClock(ours.now() + aheadMs);
    const owner = dynamodbStore({ client, table, clock: ours });
    const other = dynamodbStore({ client, table, clock: theirs });
    const request = claimOf("a");
    await owner.claim(request);
    await owner.complete({ id: request.id, token: request.token, outcome: "done", retentionMs: 30_000 });
    theirs.advance(29_999);
    expect(await other.purge(10)).toEqual({ removed: 0, more: false });
    expect(await other.claim(claimOf("a"))).toEqual({ status: "completed", outcome: "done" });
    theirs.advance(2 * SKEW_MS + 1);
    expect(await other.claim(claimOf("a"))).toMatchObject({ status: "new", number: 1 });
  });
}

test("clock-skew: callers whose clocks differ by up to the skew never own a key at the same time", async (context) => {
  const { client, table } = await newPlace(context);
  const callers = Array.from({ length: 6 }, (_, i) => {
    const clock = manualClock(1_767_225_600_000 + i * 1_000);
    return { clock, store: dynamodbStore({ client, table, clock }), since: -1 };
  });
  let now = 0;
  for (let round = 0; round < 30; round++) {
    const answers = await Promise.all(
      callers.map(({ store }) => store.claim(claimOf("a", { leaseMs: 10_000 }))),
    );
    answers.forEach((answer, i) => {
      if (answer.status !== "new") return;
      // A caller that claimed less than a lease ago in real time must not have been overtaken.
      const believing = callers.filter(({ since }) => since >= 0 && now - since < 10_000);
      expect(believing).toEqual([]);
      Object.assign(callers[i] as object, { since: now });
    });
    now += 1_700;
    for (const { clock } of callers) clock.advance(1_700);
  }
  expect(callers.filter(({ since }) => since >= 0).length).toBeGreaterThan(1);
});

test("each of fifty keys has one owner among eight claimers on two clients", async (context) => {
  const { url, client, table } = await newPlace(context);
  const other = clientOf(url);
  context.onTestFinished(() => other.destroy());
  const stores = [dynamodbStore({ client, table }), dynamodbStore({ client: other, table })];
  const keys = Array.from({ length: 50 }, () => randomUUID());
  const claims = keys.flatMap((key) =>
    Array.from({ length: 8 }, async (_, i) => {
      const request = claimOf(key);
      return { request, answer: await (stores[i % 2] as (typeof stores)[0]).claim(request) };
    }),
  );
  const owners = (await Promise.all(claims)).filter(({ answer }) => answer.status === "new");
  expect(owners.map(({ request }) => request.parts.key).sort()).toEqual(keys.sort());
  for (const { request, answer } of owners) {
    const { fence } = answer as ClaimAnswer & { status: "new" };
    expect(await stores[0]?.read(request.id)).toMatchObject({ token: request.token, fence });
  }
});

test("every step sends its documented requests when the service returns the current item", async (context) => {
  const { url, table } = await newPlace(context);
  const proxy = await startConditionProxy(context, url);
  const client = clientOf(proxy.url);
  context.onTestFinished(() => client.destroy());
  const store = dynamodbStore({ client, table });
  const asked = async (step: () => Promise<unknown>): Promise<string> => {
    proxy.operations.length = 0;
    await step();
    return proxy.operations.join(" ");
  };
  const first = claimOf("a");
  const { id, token } = first;
  const complete = { id, token, outcome: "done", retentionMs: 60_000 };
  expect(await asked(() => store.claim(first))).toBe("PutItem");
  expect(await asked(() => store.claim(claimOf("a")))).toBe("PutItem");
  expect(await asked(() => store.claim(first))).toBe("PutItem PutItem");
  expect(await asked(() => store.renew({ id, token, leaseMs: 60_000 }))).toBe("GetItem PutItem");
  expect(await asked(() => store.complete(complete))).toBe("UpdateItem");
  expect(await asked(() => store.complete(complete))).toBe("UpdateItem");
  expect(await asked(() => store.claim(claimOf("a")))).toBe("PutItem");
  expect(await asked(() => store.read(id))).toBe("GetItem");
  const lapsed = claimOf("b", { leaseMs: 1 });
  await store.claim(lapsed);
  expect(await asked(() => store.abandon({ id: lapsed.id, token: lapsed.token, as: "unknown" }))).toBe(
    "GetItem PutItem",
  );
  expect(await asked(() => store.claim(claimOf("b")))).toBe("PutItem PutItem");
});

test("a step reads the item, with one more request, when the service does not return it", async (context) => {
  const { client, table } = await newPlace(context);
  const send = vi.spyOn(client, "send");
  const store = dynamodbStore({ client, table });
  const asked = async (step: () => Promise<unknown>) => {
    send.mockClear();
    await step();
    return send.mock.calls.map(([command]) => command.constructor.name).join(" ");
  };
  const first = claimOf("a");
  const { id, token } = first;
  const complete = { id, token, outcome: "done", retentionMs: 60_000 };
  expect(await asked(() => store.claim(first))).toBe("PutCommand");
  expect(await asked(() => store.claim(claimOf("a")))).toBe("PutCommand GetCommand");
  expect(await asked(() => store.complete(complete))).toBe("UpdateCommand");
  expect(await asked(() => store.complete(complete))).toBe("UpdateCommand GetCommand");
  expect(await asked(() => store.claim(claimOf("a")))).toBe("PutCommand GetCommand");
});

test("a DynamoDBDocument is called by its methods, and its translation options do no harm", async (context) => {
  const { url, table } = await newPlace(context);
  const client = DynamoDBDocument.from(lowClient(url), {
    marshallOptions: { convertEmptyValues: true, removeUndefinedValues: true },
    unmarshallOptions: { wrapNumbers: true },
  });
  context.onTestFinished(() => client.destroy());
  const put = vi.spyOn(client, "put");
  const store = dynamodbStore({ client, table });
  const request = claimOf("a");
  const { id, token, parts } = request;
  const claimed = (await store.claim(request)) as ClaimAnswer & { status: "new" };
  expect(put).toHaveBeenCalledTimes(1);
  expect(await store.read(id)).toMatchObject({ parts, token, fence: claimed.fence, state: "pending" });
  expect(await store.list?.({ namespace: "n", scope: "s", limit: 10 })).toMatchObject({ records: [{ id }] });
  expect(await store.complete({ id, token, outcome: "", retentionMs: 60_000 })).toBe(true);
  expect(await store.claim(claimOf("a"))).toEqual({ status: "completed", outcome: "" });
});

test("an item has a TTL after its retention ends, and a held one has none", async (context) => {
  const { client, table } = await newPlace(context);
  const clock = manualClock(1_767_225_600_000);
  const store = dynamodbStore({ client, table, clock });
  const purgeAt = async (id: string) =>
    (await client.send(new GetCommand({ TableName: table, Key: { id } }))).Item?.purgeAt;
  const keptUntil = async (id: string) => (await store.read(id))?.keptUntil ?? 0;
  const plain = claimOf("a");
  await store.claim(plain);
  expect(await purgeAt(plain.id)).toBe(1_767_225_600 + 60 + 3_600 + 2 * 5);
  expect(await purgeAt(plain.id)).toBeGreaterThan((await keptUntil(plain.id)) / 1_000);
  await store.renew({ id: plain.id, token: plain.token, leaseMs: 600_000 });
  expect(await purgeAt(plain.id)).toBe(1_767_225_600 + 600 + 3_600 + 2 * 5);
  await store.complete({ id: plain.id, token: plain.token, outcome: "done", retentionMs: 86_400_000 });
  expect(await purgeAt(plain.id)).toBe(1_767_225_600 + 86_400 + 2 * 5);
  const held = claimOf("b", { hold: true });
  await store.claim(held);
  expect(await purgeAt(held.id)).toBeUndefined();
  await store.renew({ id: held.id, token: held.token, leaseMs: 60_000 });
  expect(await purgeAt(held.id)).toBeUndefined();
  await store.complete({ id: held.id, token: held.token, outcome: "done", retentionMs: 1_000 });
  expect(await purgeAt(held.id)).toBe(1_767_225_600 + 1 + 2 * 5);
});

test("a table with TTL is not scanned by a purge", async (context) => {
  const { client, table } = await newPlace(context);
  const clock = manualClock();
  const store = dynamodbStore({ client, table, clock });
  const request = claimOf("a");
  await store.claim(request);
  await store.complete({ id: request.id, token: request.token, outcome: "done", retentionMs: 1_000 });
  clock.advance(60_000);
  const real = client.send.bind(client);
  const send = vi.spyOn(client, "send").mockImplementation((async (command: never) => {
    if ((command as object).constructor.name !== "DescribeTimeToLiveCommand") return real(command);
    return { TimeToLiveDescription: { TimeToLiveStatus: "ENABLED", AttributeName: "purgeAt" } };
  }) as typeof client.send);
  expect(await store.purge(10)).toEqual({ removed: 0, more: false });
  expect(send.mock.calls.some(([command]) => command instanceof ScanCommand)).toBe(false);
  send.mockImplementation((async (command: never) => {
    if ((command as object).constructor.name !== "DescribeTimeToLiveCommand") return real(command);
    return { TimeToLiveDescription: { TimeToLiveStatus: "ENABLED", AttributeName: "expires" } };
  }) as typeof client.send);
  expect(await dynamodbStore({ client, table, clock }).purge(10)).toEqual({ removed: 1, more: false });
});

test("a purge scans a limited number of items, and continues immediately only if it finds something", async (context) => {
  const { client, table } = await newPlace(context);
  const clock = manualClock();
  const store = dynamodbStore({ client, table, clock });
  for (let i = 0; i < 12; i++) {
    const request = claimOf(`k${i}`);
    await store.claim(request);
    const retentionMs = i < 6 ? 1_000 : 3_600_000;
    await store.complete({ id: request.id, token: request.token, outcome: "done", retentionMs });
  }
  clock.advance(60_000);
  let removed = 0;
  for (let bites = 0; bites < 10; bites++) {
    const report = await store.purge(4);
    expect(report.removed).toBeLessThanOrEqual(4);
    if (report.removed === 0) expect(report.more).toBe(false);
    removed += report.removed;
  }
  expect(removed).toBe(6);
});

test("a purge leaves a record that was claimed again after it was found", async (context) => {
  const { client, table } = await newPlace(context);
  const clock = manualClock();
  const store = dynamodbStore({ client, table, clock });
  const past = claimOf("a");
  await store.claim(past);
  await store.complete({ id: past.id, token: past.token, outcome: "done", retentionMs: 1_000 });
  clock.advance(60_000);
  const real = client.send.bind(client);
  const racing = clientOf(sharedUrl(context, "dynamodb"));
  vi.spyOn(racing, "send").mockImplementation((async (command: never) => {
    if ((command as object).constructor.name === "DeleteCommand") await store.claim(claimOf("a"));
    return real(command);
  }) as typeof client.send);
  expect(await dynamodbStore({ client: racing, table, clock }).purge(10)).toEqual({
    removed: 0,
    more: false,
  });
  expect((await store.read(past.id))?.state).toBe("pending");
});

test("a list continues past one page of a scan", async (context) => {
  const { client, table } = await newPlace(context);
  const store = dynamodbStore({ client, table });
  const outcome = "x".repeat(300_000);
  const ids = Array.from({ length: 9 }, (_, i) => `id-k${i}`);
  for (const id of ids) {
    const request = claimOf(id.slice(3));
    await store.claim(request);
    await store.complete({ id, token: request.token, outcome, retentionMs: 60_000 });
  }
  const seen: string[] = [];
  let after: string | undefined;
  do {
    const page = await store.list?.({ namespace: "n", limit: 4, after });
    seen.push(...(page?.records.map(({ id }) => id) ?? []));
    after = page?.next;
  } while (after !== undefined);
  expect(seen.sort()).toEqual(ids);
});

test("the largest outcome with the largest parts fits into an item", async (context) => {
  const { client, table } = await newPlace(context);
  const store = dynamodbStore({ client, table });
  const part = "\u00e9".repeat(512);
  const parts = { namespace: part, scope: part, operation: part, key: part };
  const request = claimOf("a", { parts, fingerprint: `1:${"f".repeat(64)}`, id: "f".repeat(64) });
  await store.claim(request);
  const outcome = "x".repeat(store.maxOutcomeBytes ?? 0);
  expect(await store.complete({ id: request.id, token: request.token, outcome, retentionMs: 1_000 })).toBe(
    true,
  );
  expect((await store.read(request.id))?.outcome).toHaveLength(outcome.length);

  const guard = createGuard({ store, namespace: "n" });
  await guard.run({ operation: "o", key: "large" }, () => outcome);
  await expect(guard.run({ operation: "o", key: "large" }, () => "again")).rejects.toMatchObject({
    code: "not-kept",
  });
  await guard.close();
});

test("a closed store sends no requests, and does not destroy the client", async (context) => {
  const { client, table } = await newPlace(context);
  const store = dynamodbStore({ client, table });
  await store.claim(claimOf("a"));
  await store.close();
  await expect(store.claim(claimOf("a"))).rejects.toMatchObject({ code: "unavailable" });
  expect(await dynamodbStore({ client, table }).claim(claimOf("a"))).toMatchObject({ status: "pending" });
});

/** A client that notes the commands that it sends, and lets the first writes fail with an error of the service. */
function noted(client: ReturnType<typeof clientOf>, failures: readonly Error[] = []) {
  const sent: string[] = [];
  const left = [...failures];
  const send = async (command: object, options: object) => {
    sent.push(command.constructor.name);
    const failure = command instanceof GetCommand ? undefined : left.shift();
    if (failure !== undefined) throw failure;
    return client.send(command as never, options);
  };
  return { sent, client: { send } };
}

test("a claim that reads first replays without a write, and otherwise answers as one that does not", async (context) => {
  const { client, table } = await newPlace(context);
  const reading = noted(client);
  const store = dynamodbStore({ client: reading.client, table, readFirst: true });
  const request = claimOf("a", { fingerprint: "v1:one" });
  expect(await store.claim(request)).toMatchObject({ status: "new", number: 1 });
  expect(await store.claim(claimOf("a"))).toMatchObject({ status: "pending" });
  await store.complete({ id: request.id, token: request.token, outcome: "done", retentionMs: 60_000 });
  reading.sent.length = 0;
  expect(await store.claim(claimOf("a"))).toEqual({ status: "completed", outcome: "done" });
  expect(await store.claim(claimOf("a", { fingerprint: "v1:two" }))).toEqual({
    status: "conflict",
    state: "completed",
  });
  expect(reading.sent).toEqual(["GetCommand", "GetCommand"]);
});

test("one-owner: of many claims that read first, one is granted", async (context) => {
  const { client, table } = await newPlace(context);
  const store = dynamodbStore({ client, table, readFirst: true });
  const answers = await Promise.all(Array.from({ length: 30 }, () => store.claim(claimOf("a"))));
  expect(answers.filter(({ status }) => status === "new")).toHaveLength(1);
});

const conflict = () =>
  Object.assign(new Error("another region writes the item"), {
    name: "ReplicatedWriteConflictException",
    $metadata: { httpStatusCode: 400 },
  });

test("a write that meets the write of another region is repeated, a few times", async (context) => {
  const { client, table } = await newPlace(context);
  const twice = noted(client, [conflict(), conflict()]);
  const request = claimOf("a");
  expect(await dynamodbStore({ client: twice.client, table }).claim(request)).toMatchObject({
    status: "new",
    number: 1,
  });
  expect(twice.sent).toEqual(["PutCommand", "PutCommand", "PutCommand"]);
  const always = noted(client, Array.from({ length: 9 }, conflict));
  await expect(dynamodbStore({ client: always.client, table }).claim(claimOf("b"))).rejects.toMatchObject({
    code: "unavailable",
  });
  expect(always.sent).toHaveLength(5);
});
