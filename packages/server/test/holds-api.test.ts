/** Tests holds over HTTP. */
import { expect, test } from "vitest";
import { type Call, sceneOf } from "./calling.ts";

const HOLD = { resource: "room-7", requester: "ann", durationMs: 60_000 };
const UNKNOWN = "00000000-0000-4000-8000-000000000000";

async function placed(call: Call, key = "k1", more: object = {}): Promise<string> {
  const { status, body } = await call("POST /v1/holds", { key, body: { ...HOLD, ...more } });
  expect(status).toBe(201);
  return body.id;
}

test("a hold is placed once for its key, and a retry gets the same answer", async () => {
  const { call } = await sceneOf();
  const first = await call("POST /v1/holds", { key: '"order 1"', body: HOLD });
  expect(first).toMatchObject({
    status: 201,
    body: { ok: true, id: expect.stringMatching(/^[0-9a-f-]{36}$/) },
    headers: { location: `/v1/holds/${first.body.id}`, "cache-control": "no-store" },
  });
  const again = await call("POST /v1/holds", { key: '"order 1"', body: HOLD });
  expect([again.status, again.body]).toEqual([201, first.body]);
  expect((await call("GET /v1/holds")).body.rows).toMatchObject([
    { id: first.body.id, state: "held", isElapsed: false, units: 1, occupied: 1, ...without(HOLD) },
  ]);
});

test("a key in quotes and the same key bare are one key", async () => {
  const { call } = await sceneOf();
  const id = await placed(call, '"k1"');
  expect(await placed(call, "k1")).toBe(id);
});

const BAD_KEYS = [
  [{}, "key-missing"],
  [{ key: "" }, "key-invalid"],
  [{ key: '""' }, "key-invalid"],
  [{ key: "a, b" }, "key-invalid"],
  [{ key: '"a' }, "key-invalid"],
  [{ key: "x".repeat(256) }, "key-invalid"],
] as const;

test("a request whose key is missing or malformed is refused by its code, and places nothing", async () => {
  const { call } = await sceneOf();
  for (const [calling, code] of BAD_KEYS) {
    const answer = await call("POST /v1/holds", { ...calling, body: HOLD });
    expect([answer.status, answer.body.code], JSON.stringify(calling)).toEqual([400, code]);
  }
  expect((await call("GET /v1/holds")).body.rows).toEqual([]);
});

test("a key of another request is a token-collision, which reveals nothing of that request", async () => {
  const { call } = await sceneOf();
  const id = await placed(call);
  const other = await call("POST /v1/holds", { key: "k1", body: { ...HOLD, requester: "bob" } });
  expect([other.status, other.body]).toEqual([
    422,
    { ok: false, reason: "token-collision", detail: expect.stringContaining("requester") },
  ]);
  expect(other.text).not.toContain("ann");
  const release = await call(`POST /v1/holds/${id}/release`, { key: "k1" });
  expect([release.status, release.body.reason]).toEqual([422, "token-collision"]);
});

test("a hold is confirmed, as a whole or in part, and confirmed units are given back", async () => {
  const { call } = await sceneOf();
  await call("POST /v1/resources", { key: "d", body: { resource: "room-7", capacity: 5 } });
  const id = await placed(call, "k1", { units: 3 });
  const confirmed = await call(`POST /v1/holds/${id}/confirm`, { key: "k2", body: { units: 2 } });
  expect([confirmed.status, confirmed.body]).toEqual([200, { ok: true }]);
  expect((await call(`GET /v1/holds/${id}`)).body).toMatchObject({
    state: "confirmed",
    confirmedUnits: 2,
    occupied: 2,
  });
  expect((await call(`POST /v1/holds/${id}/give-back`, { key: "k3" })).status).toBe(200);
  expect((await call("GET /v1/resources/room-7")).body).toEqual({
    name: "room-7",
    capacity: 5,
    taken: 0,
    free: 5,
    state: "open",
    isDeclared: true,
  });
});

test("a refusal has the reason of reservations, and a retry gets the same refusal", async () => {
  const { call } = await sceneOf();
  const id = await placed(call);
  const refused = async (address: string, key: string, body?: object) => {
    const one = await call(address, { key, ...(body !== undefined && { body }) });
    const two = await call(address, { key, ...(body !== undefined && { body }) });
    expect([two.status, two.body]).toEqual([one.status, one.body]);
    expect(one.headers["retry-after"]).toBeUndefined();
    expect(one.headers["content-type"]).toContain("application/json");
    return [one.status, one.body.reason];
  };
  expect(await refused("POST /v1/holds", "a", HOLD)).toEqual([409, "resource-unavailable"]);
  expect(await refused(`POST /v1/holds/${id}/expire`, "b")).toEqual([409, "window-not-elapsed"]);
  expect(await refused(`POST /v1/holds/${id}/confirm`, "c", { units: 2 })).toEqual([409, "units-exceeded"]);
  expect(await refused(`POST /v1/holds/${UNKNOWN}/release`, "d")).toEqual([404, "not-known"]);
  expect((await call(`POST /v1/holds/${id}/release`, { key: "e" })).status).toBe(200);
  expect(await refused(`POST /v1/holds/${id}/confirm`, "f")).toEqual([409, "not-held"]);
  expect(await refused("POST /v1/holds", "g", { ...HOLD, requester: " " })).toEqual([422, "invalid-request"]);
});

test("a resource is declared, adjusted, suspended, resumed and closed", async () => {
  const { call } = await sceneOf();
  const act = async (address: string, key: string, body?: object) => {
    const answer = await call(`POST /v1/resources${address}`, { key, ...(body !== undefined && { body }) });
    return answer.body.reason ?? answer.status;
  };
  expect(await act("", "1", { resource: "hall/1", capacity: 2 })).toBe(200);
  expect(await act("/hall%2F1/adjust", "2", { capacity: 1 })).toBe(200);
  expect(await act("/hall%2F1/suspend", "3")).toBe(200);
  const hold = { ...HOLD, resource: "hall/1" };
  expect((await call("POST /v1/holds", { key: "h1", body: hold })).body.reason).toBe("pool-suspended");
  expect(await act("/hall%2F1/resume", "4")).toBe(200);
  expect((await call("POST /v1/holds", { key: "h2", body: hold })).status).toBe(201);
  expect(await act("/hall%2F1/adjust", "5", { capacity: 0 })).toBe("units-exceeded");
  expect(await act("/hall%2F1/close", "6")).toBe(200);
  expect(await act("/nowhere/close", "7")).toBe("not-known");
  expect((await call("GET /v1/resources")).body.rows).toMatchObject([
    { name: "hall/1", capacity: 1, taken: 1, free: 0, state: "closed" },
    // Its chain has the refusal.
    { name: "nowhere", capacity: 1, taken: 0, free: 1, state: "open", isDeclared: false },
  ]);
});

test("holds are listed by state, resource and requester, in pages", async () => {
  const { call } = await sceneOf();
  const ids: string[] = [];
  for (const [index, requester] of ["ann", "bob", "ann"].entries())
    ids.push(await placed(call, `k${index}`, { resource: `room-${index}`, requester }));
  await call(`POST /v1/holds/${ids[0]}/confirm`, { key: "c" });
  const found = async (query: string) =>
    (await call(`GET /v1/holds?${query}`)).body.rows.map((row: { id: string }) => row.id).sort();
  expect(await found("state=held")).toEqual([ids[1], ids[2]].sort());
  expect(await found("state=confirmed&requester=ann")).toEqual([ids[0]]);
  expect(await found("resource=room-1")).toEqual([ids[1]]);
  const page = (await call("GET /v1/holds?limit=2")).body;
  const rest = (await call(`GET /v1/holds?limit=2&after=${page.next}`)).body;
  expect([...page.rows, ...rest.rows].map(({ id }) => id).sort()).toEqual([...ids].sort());
  expect(rest.next).toBeUndefined();
});

const BAD_REQUESTS = [
  ["POST /v1/holds", { ...HOLD, scope: "another" }],
  ["POST /v1/holds", { ...HOLD, namespace: "another" }],
  ["POST /v1/holds", { ...HOLD, key: "k2" }],
  ["POST /v1/holds", { resource: "room-7", requester: "ann" }],
  ["POST /v1/holds", { ...HOLD, units: 0 }],
  ["POST /v1/holds", { ...HOLD, units: 1.5 }],
  ["POST /v1/holds", { ...HOLD, durationMs: "60000" }],
  [`POST /v1/holds/${UNKNOWN}/release`, { units: 1 }],
  ["POST /v1/holds/no-id/release", {}],
  ["GET /v1/holds?state=lost", undefined],
  ["GET /v1/holds?limit=0", undefined],
  ["GET /v1/holds?colour=red", undefined],
] as const;

test("unknown members of address, query and body are refused, the owner of the key included", async () => {
  const { call } = await sceneOf();
  for (const [address, body] of BAD_REQUESTS) {
    const answer = await call(address, { key: "k1", ...(body !== undefined && { body }) });
    expect([answer.status, answer.body.code], `${address} ${JSON.stringify(body)}`).toEqual([
      400,
      "request-invalid",
    ]);
  }
});

test("a hold or a resource that does not exist is not found", async () => {
  const { call } = await sceneOf();
  for (const address of [`GET /v1/holds/${UNKNOWN}`, "GET /v1/resources/nowhere"])
    expect((await call(address)).body).toMatchObject({ status: 404, code: "not-found" });
});

test("two services have separate keys and share the resources", async () => {
  const { call, token } = await sceneOf();
  const [one, two] = [await token({ name: "one" }), await token({ name: "two" })];
  const first = await call("POST /v1/holds", { token: one, key: "k1", body: HOLD });
  const second = await call("POST /v1/holds", { token: two, key: "k1", body: HOLD });
  expect([first.status, second.status, second.body.reason]).toEqual([201, 409, "resource-unavailable"]);
});

test("tokens of two namespaces have separate resources and cannot reach each other's holds", async () => {
  const { call, token } = await sceneOf();
  const [one, two] = [await token({ namespace: "one" }), await token({ namespace: "two" })];
  const first = await call("POST /v1/holds", { token: one, key: "k1", body: HOLD });
  const second = await call("POST /v1/holds", { token: two, key: "k1", body: HOLD });
  expect([first.status, second.status]).toEqual([201, 201]);
  const { id } = first.body;
  expect((await call(`GET /v1/holds/${id}`, { token: two })).status).toBe(404);
  const released = await call(`POST /v1/holds/${id}/release`, { token: two, key: "k2" });
  expect([released.status, released.body.reason]).toEqual([404, "not-known"]);
  expect((await call(`GET /v1/holds/${id}`, { token: one })).body.state).toBe("held");
});

test("a store that cannot write gives a retryable 503 without the store's error message", async () => {
  const { call, server } = await sceneOf();
  const reservations = server.context.holds("default");
  if (reservations === undefined) throw new Error("memory keeps holds");
  const said = {
    ok: false,
    reason: "storage-failure",
    detail: "connect to db.internal:5432 as root",
  } as const;
  Object.assign(reservations, { placeHold: async () => said });
  const answer = await call("POST /v1/holds", { key: "k1", body: HOLD });
  expect(answer).toMatchObject({ status: 503, headers: { "retry-after": "1" } });
  expect(answer.body.reason).toBe("storage-failure");
  expect(answer.text).not.toContain("db.internal");
});

test("without a store for holds the routes return not-supported and say what to do", async () => {
  const token = "0123456789abcdef0123456789abcdef";
  const { call } = await sceneOf({ store: "redis://127.0.0.1:1/0", accessToken: token });
  for (const [address, body] of [
    ["POST /v1/holds", HOLD],
    [`POST /v1/holds/${UNKNOWN}/confirm`, {}],
    ["GET /v1/holds", undefined],
    ["GET /v1/resources", undefined],
    ["GET /v1/audit", undefined],
    ["GET /v1/audit/doubles?withinMs=1", undefined],
  ] as const) {
    const answer = await call(address, { token, key: "k1", ...(body !== undefined && { body }) });
    expect([answer.status, answer.body.code], address).toEqual([501, "not-supported"]);
    expect(answer.body.detail).toContain("--holds-store");
  }
});

function without({ resource, requester }: typeof HOLD): object {
  return { resource, requester };
}
