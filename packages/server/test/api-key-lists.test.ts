/** Tests lists of keys over HTTP: order, filters, keys by their exact text, undecided keys, and namespaces. */
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { sharedUrl } from "../../nevertwice/test/services/services.ts";
import type { NevertwiceServer } from "../src/server.ts";
import { type Call, callerOf, callWith, startServer } from "./api-client.ts";

async function scene() {
  const server = await startServer();
  const shop = await callerOf(server, "service", { name: "shop" });
  const operator = await callerOf(server, "operator", { name: "ops" });
  const auditor = await callerOf(server, "auditor", { name: "audit" });
  return { server, shop, operator, auditor };
}

const claim = async (shop: Call, key: string, more: object = {}) =>
  (await shop("POST", "/v1/claims", { operation: "charge", key, ...more })).body;

async function abandoned(shop: Call, key: string, more: object = {}) {
  const { id, token } = await claim(shop, key, more);
  await shop("POST", `/v1/claims/${id}/abandon`, { token, as: "unknown" });
  return id as string;
}

const keysAt = async (caller: Call, query: string) =>
  (await caller("GET", `/v1/keys?${query}`)).body.records.map(({ key }: { key: string }) => key);

/** The clock of the memory store has milliseconds, and claims of one millisecond are in the order of their ids. */
async function claimInTurn(shop: Call, keys: readonly string[]) {
  for (const key of keys) {
    await claim(shop, key);
    const claimedAt = Date.now();
    await expect.poll(() => Date.now(), { interval: 1 }).toBeGreaterThan(claimedAt);
  }
}

const RAW_CLAIM = {
  token: "a-token-of-this-test",
  leaseMs: 600_000,
  retentionMs: 600_000,
  hold: false,
};

/** A key for the store itself, which is quicker than the API. */
function rawKey(index: number, key: string) {
  const parts = { namespace: "default", scope: "", operation: "charge", key };
  return { id: index.toString(16).padStart(64, "0"), parts };
}

/** More keys than one page of a search looks at. */
async function claimMany({ context: { store } }: NevertwiceServer) {
  for (let index = 0; index < 5_100; index++)
    await store.claim({ ...RAW_CLAIM, ...rawKey(index, `order-1-${index}`) });
}

test("the key that was claimed last is listed first, over all pages", async () => {
  const { shop, operator } = await scene();
  const keys = ["a", "b", "c", "d", "e"];
  await claimInTurn(shop, keys);
  const listed: string[] = [];
  let after = "";
  do {
    const { body } = await operator("GET", `/v1/keys?limit=2${after}`);
    expect(body.order).toBe("newest-first");
    listed.push(...body.records.map(({ key }: { key: string }) => key));
    after = body.next === null ? "" : `&after=${encodeURIComponent(body.next)}`;
    // A key that is claimed meanwhile moves none of the others.
    await claim(shop, `new-${listed.length}`);
  } while (after !== "");
  expect(listed).toEqual(["e", "d", "c", "b", "a"]);
});

test("keys are listed from a point in time, and by their operation", async () => {
  const { shop, operator } = await scene();
  await claimInTurn(shop, ["a", "b", "c"]);
  await claim(shop, "d", { operation: "refund" });
  const { records } = (await operator("GET", "/v1/keys?operation=charge")).body;
  expect(records.map(({ key }: { key: string }) => key)).toEqual(["c", "b", "a"]);
  expect(await keysAt(operator, `before=${records[1].claimedAt}`)).toEqual(["b", "a"]);
  expect(await keysAt(operator, "operation=refund")).toEqual(["d"]);
  for (const wrong of ["before=-1", "before=now", "operation=", "undecided=perhaps"])
    expect((await operator("GET", `/v1/keys?${wrong}`)).body.code).toBe("request-invalid");
});

test("a key is found by its exact text, in every operation and scope, by operators only", async () => {
  const { shop, operator, auditor } = await scene();
  await claim(shop, "order-1");
  await claim(shop, "order-1", { operation: "refund" });
  await claim(shop, "order-1", { scope: "tenant" });
  for (const other of ["order-10", "order-", "ORDER-1"]) await claim(shop, other);
  expect(await keysAt(operator, "key=order-1")).toEqual(["order-1", "order-1", "order-1"]);
  expect(await keysAt(operator, "key=order-1&operation=refund")).toEqual(["order-1"]);
  expect(await keysAt(operator, "key=none")).toEqual([]);
  expect(await auditor("GET", "/v1/keys?key=order-1")).toMatchObject({
    status: 403,
    body: { code: "not-authorized" },
  });
});

test("a search shows keys that are the text first, however many newer keys there are", async () => {
  const { server, shop, operator } = await scene();
  await claim(shop, "order-1");
  await claim(shop, "order-1", { operation: "refund" });
  await claimMany(server);
  const first = (await operator("GET", "/v1/keys?search=order-1&limit=4")).body;
  const found = first.records.map(({ key }: { key: string }) => key);
  expect(found.slice(0, 2)).toEqual(["order-1", "order-1"]);
  expect(found).toHaveLength(4);
  const after = encodeURIComponent(first.next);
  expect(await keysAt(operator, `search=order-1&limit=500&after=${after}`)).not.toContain("order-1");
  expect(await keysAt(operator, "search=order-1&operation=refund")).toEqual(["order-1"]);
});

test("a named key and an id are found without a scan, on a store that lists without order", async (context) => {
  const server = await startServer({ store: `${sharedUrl(context, "redis")}?prefix=${randomUUID()}` });
  const [shop, operator] = [callWith(server), callWith(server)];
  const { id } = await claim(shop, "oldest", { scope: "ada" });
  const { scope } = (await operator("GET", `/v1/keys/${id}`)).body.record;
  await claim(shop, "oldest", { scope: "bob" });
  const { store } = server.context;
  await Promise.all(
    Array.from({ length: 6_000 }, (_, index) =>
      store.claim({ ...RAW_CLAIM, ...rawKey(index, `order-${index}`) }),
    ),
  );
  const find = async (query: string) => {
    const { records, next } = (await operator("GET", `/v1/keys?${query}`)).body;
    return { ids: records.map((record: { id: string }) => record.id), next };
  };
  const named = `key=oldest&operation=charge&scope=${encodeURIComponent(scope)}`;
  expect(await find(named)).toEqual({ ids: [id], next: null });
  expect(await find(`${named}&state=pending`)).toEqual({ ids: [id], next: null });
  for (const other of [`${named}&state=completed`, `${named}&before=1`, `${named}&search=order`])
    expect((await find(other)).ids).toEqual([]);
  expect((await find(`search=${id}`)).ids).toEqual([id]);
  expect((await find(named.replace("key=", "search="))).ids).toEqual([id]);
});

test("undecided keys are those that are held and lapsed", async () => {
  const { shop, operator } = await scene();
  await abandoned(shop, "held", { onLapsed: "hold" });
  await abandoned(shop, "free");
  await claim(shop, "running", { onLapsed: "hold" });
  expect((await keysAt(operator, "state=lapsed")).sort()).toEqual(["free", "held"]);
  expect(await keysAt(operator, "undecided=true")).toEqual(["held"]);
  expect(await keysAt(operator, "undecided=true&search=hel")).toEqual(["held"]);
  expect(await keysAt(operator, "undecided=true&search=free")).toEqual([]);
});

test("an undecided key is found behind any number of newer keys, and no page follows the last of them", async () => {
  const { server, shop, operator } = await scene();
  const id = await abandoned(shop, "old", { onLapsed: "hold" });
  await claimMany(server);
  const list = async (query = "") => (await operator("GET", `/v1/keys?undecided=true${query}`)).body;
  expect(await list()).toMatchObject({ records: [{ id }], next: null });
  expect(await list("&limit=1")).toMatchObject({ records: [{ id }], next: null });
  await abandoned(shop, "new", { onLapsed: "hold" });
  const first = await list("&limit=1");
  expect(first.records).toMatchObject([{ key: "new" }]);
  expect(await list(`&after=${encodeURIComponent(first.next)}`)).toMatchObject({
    records: [{ id }],
    next: null,
  });
});

test("a lapsed key says when it lapsed, and no other key does", async () => {
  const { server, shop, operator } = await scene();
  await server.context.store.claim({ ...RAW_CLAIM, ...rawKey(0, "slow"), leaseMs: 10 });
  await claim(shop, "running");
  const read = async (key: string) => (await operator("GET", `/v1/keys?key=${key}`)).body.records[0];
  await expect.poll(async () => (await read("slow")).state).toBe("lapsed");
  const { claimedAt, lapsedAt } = await read("slow");
  expect(lapsedAt).toBe(claimedAt + 10);
  expect((await read("running")).lapsedAt).toBeNull();
});

test("the figures count the undecided keys of the caller's namespace, and say since when the oldest waits", async () => {
  const { server, shop, operator } = await scene();
  const stranger = await callerOf(server, "operator", { name: "other", namespace: "other" });
  const id = await abandoned(shop, "first", { onLapsed: "hold" });
  await abandoned(shop, "second", { onLapsed: "hold" });
  const { lapsedAt } = (await operator("GET", `/v1/keys/${id}`)).body.record;
  const live = (await operator("GET", "/v1/live")).body;
  expect(live.undecided).toEqual({ count: 2, isComplete: true, oldestLapsedAt: lapsedAt });
  expect((await stranger("GET", "/v1/live")).body.undecided).toEqual({
    count: 0,
    isComplete: true,
    oldestLapsedAt: null,
  });
});

test("namespaces are listed for callers that see the server; others get their own", async () => {
  const accessToken = "0123456789abcdef0123456789abcdef";
  const server = await startServer({ accessToken });
  const whole = callWith(server, accessToken);
  const operator = await callerOf(server, "operator", { name: "ops", namespace: "loans" });
  for (const namespace of ["orders", "loans", "mails"])
    await server.context.guard(namespace).run({ operation: "work", key: "1" }, () => 1);
  expect((await whole("GET", "/v1/namespaces")).body).toEqual({
    namespaces: ["loans", "mails", "orders"],
    next: null,
  });
  expect((await operator("GET", "/v1/namespaces")).body).toEqual({ namespaces: ["loans"], next: null });
  expect((await (await callerOf(server, "service"))("GET", "/v1/namespaces")).status).toBe(403);
  Object.assign(server.context.store, { namespaces: undefined });
  expect(await whole("GET", "/v1/namespaces")).toMatchObject({
    status: 501,
    body: { code: "not-supported" },
  });
});
