/** Tests keys over HTTP: what operators and auditors see, and the decisions of operators. */
import { saga } from "nevertwice/saga";
import { expect, test } from "vitest";
import { type Call, callerOf, startServer } from "./api-client.ts";

async function scene() {
  const server = await startServer();
  const shop = await callerOf(server, "service", { name: "shop" });
  const operator = await callerOf(server, "operator", { name: "ops" });
  const auditor = await callerOf(server, "auditor", { name: "audit" });
  return { server, shop, operator, auditor };
}

const claim = async (shop: Call, key: string, more: object = {}) =>
  (await shop("POST", "/v1/claims", { operation: "charge", key, ...more })).body;

async function completed(shop: Call, key: string, value: unknown = "secret-receipt") {
  const { id, token } = await claim(shop, key);
  await shop("POST", `/v1/claims/${id}/complete`, { token, value });
  return id as string;
}

async function lapsed(shop: Call, key: string) {
  const { id, token, fence } = await claim(shop, key, { onLapsed: "hold" });
  await shop("POST", `/v1/claims/${id}/abandon`, { token, as: "unknown" });
  return { id, fence } as { id: string; fence: number };
}

test("operators list whole keys, auditors their first characters, and lists have no outcomes", async () => {
  const { shop, operator, auditor } = await scene();
  await completed(shop, "order-4711");
  const [whole] = (await operator("GET", "/v1/keys")).body.records;
  expect(whole).toMatchObject({
    key: "order-4711",
    operation: "charge",
    scope: "shop",
    state: "completed",
    number: 1,
  });
  const seen = await auditor("GET", "/v1/keys");
  expect(seen.body.records[0].key).toBe("orde…");
  expect(seen.text).not.toContain("4711");
  for (const answer of [seen, await operator("GET", "/v1/keys")])
    expect(answer.text).not.toContain("secret-receipt");
});

test("auditors see at most half of a short key", async () => {
  const { shop, auditor } = await scene();
  await claim(shop, "1234");
  expect((await auditor("GET", "/v1/keys")).body.records[0].key).toBe("12…");
});

test("services cannot list keys", async () => {
  const { shop } = await scene();
  expect(await shop("GET", "/v1/keys")).toMatchObject({ status: 403, body: { code: "not-authorized" } });
});

test("keys are listed by state, by scope, and page by page", async () => {
  const { shop, operator } = await scene();
  await completed(shop, "done");
  for (const key of ["a", "b", "c"]) await claim(shop, key, { scope: "tenant" });
  const keysAt = async (query: string) =>
    (await operator("GET", `/v1/keys?${query}`)).body.records.map(({ key }: { key: string }) => key).sort();
  expect(await keysAt("state=completed")).toEqual(["done"]);
  expect(await keysAt(`scope=${encodeURIComponent("shop|tenant")}`)).toEqual(["a", "b", "c"]);

  const paged: string[] = [];
  let after = "";
  do {
    const { body } = await operator("GET", `/v1/keys?limit=1${after}`);
    paged.push(...body.records.map(({ key }: { key: string }) => key));
    after = body.next === null ? "" : `&after=${encodeURIComponent(body.next)}`;
  } while (after !== "");
  expect(paged.sort()).toEqual(["a", "b", "c", "done"]);
});

test("a search finds every key that has the text, over any number of pages", async () => {
  const { shop, operator } = await scene();
  const wanted = Array.from({ length: 30 }, (_, index) => `order-${index}`);
  for (const key of wanted) await claim(shop, key);
  for (let index = 0; index < 30; index++) await claim(shop, `refund-${index}`);
  const found: string[] = [];
  let after = "";
  do {
    const { body } = await operator("GET", `/v1/keys?search=ORDER&limit=7${after}`);
    expect(body.records.length).toBeLessThanOrEqual(7);
    found.push(...body.records.map(({ key }: { key: string }) => key));
    after = body.next === null ? "" : `&after=${encodeURIComponent(body.next)}`;
  } while (after !== "");
  expect(found.sort()).toEqual(wanted.sort());
});

test("an auditor cannot guess a key by searching", async () => {
  const { shop, operator, auditor } = await scene();
  await claim(shop, "order-4711");
  const found = async (caller: Call, text: string) =>
    (await caller("GET", `/v1/keys?search=${text}`)).body.records.length;
  expect([await found(operator, "4711"), await found(auditor, "4711"), await found(auditor, "orde")]).toEqual(
    [1, 0, 1],
  );
});

test("one key has the events of this server, and its outcome only for operators", async () => {
  const { shop, operator, auditor } = await scene();
  const id = await completed(shop, "order-4711");
  await claim(shop, "order-4711");
  const { body } = await operator("GET", `/v1/keys/${id}`);
  expect(body.record).toMatchObject({
    id,
    key: "order-4711",
    outcome: { kind: "value", value: "secret-receipt" },
  });
  expect(body.events.map(({ kind }: { kind: string }) => kind)).toEqual(["claimed", "completed", "replayed"]);
  const seen = await auditor("GET", `/v1/keys/${id}`);
  expect(seen.body.record.outcome).toBeUndefined();
  expect(seen.text).not.toMatch(/4711|secret-receipt/);
});

test("an outcome with types beyond JSON is converted to JSON", async () => {
  const { server, operator } = await scene();
  const value = {
    at: new Date(0),
    big: 12n,
    bytes: new Uint8Array([1, 2]),
    map: new Map([[1, new Set([2])]]),
    none: undefined,
  };
  const guard = server.context.guard("default");
  await guard.run({ operation: "job", key: "1" }, () => value);
  await guard
    .run({ operation: "job", key: "2", onFailure: "remember" }, () => Promise.reject(new RangeError("no")))
    .catch(() => {});
  const [{ id: first }] = (await operator("GET", "/v1/keys?search=job")).body.records.filter(
    (r: { key: string }) => r.key === "1",
  );
  const [{ id: second }] = (await operator("GET", "/v1/keys?search=job")).body.records.filter(
    (r: { key: string }) => r.key === "2",
  );
  expect((await operator("GET", `/v1/keys/${first}`)).body.record.outcome).toEqual({
    kind: "value",
    value: { at: "1970-01-01T00:00:00.000Z", big: "12", bytes: "AQI=", map: [[1, [2]]], none: null },
  });
  expect((await operator("GET", `/v1/keys/${second}`)).body.record.outcome).toEqual({
    kind: "thrown",
    error: { name: "RangeError", message: "no" },
  });
});

test("an operator of another namespace finds no keys and changes none", async () => {
  const { server, shop } = await scene();
  const { id, fence } = await lapsed(shop, "order-1");
  const other = await callerOf(server, "operator", { name: "other", namespace: "elsewhere" });
  expect((await other("GET", "/v1/keys")).body.records).toEqual([]);
  expect((await other("GET", `/v1/keys/${id}`)).status).toBe(404);
  for (const verb of ["resolve", "release", "forget"]) {
    const body = { fence, ...(verb === "resolve" && { decision: "done" }) };
    expect((await other("POST", `/v1/keys/${id}/${verb}`, body)).status).toBe(404);
  }
});

test("the decision of an operator becomes the outcome of the key", async () => {
  const { shop, operator } = await scene();
  const hold = { onLapsed: "hold" };
  const ask = (key: string) => shop("POST", "/v1/claims", { operation: "charge", key, ...hold });
  const decide = async (key: string, decision: object) => {
    const { id, fence } = await lapsed(shop, key);
    return operator("POST", `/v1/keys/${id}/resolve`, { fence, ...decision });
  };
  expect((await decide("a", { decision: "done", value: 17 })).status).toBe(200);
  expect((await ask("a")).body.outcome).toEqual({ kind: "value", value: 17 });
  expect((await decide("b", { decision: "failed", error: "declined" })).status).toBe(200);
  expect((await ask("b")).body.outcome).toEqual({ kind: "thrown", error: "declined" });
  expect((await decide("c", { decision: "not-done" })).status).toBe(200);
  expect(await ask("c")).toMatchObject({ status: 201, body: { tookOver: false } });
});

test("a stale decision is refused", async () => {
  const { shop, operator } = await scene();
  const { id, fence } = await lapsed(shop, "order-1");
  await operator("POST", `/v1/keys/${id}/resolve`, { fence, decision: "not-done" });
  const next = await claim(shop, "order-1");
  await shop("POST", `/v1/claims/${id}/complete`, { token: next.token, value: 1 });
  for (const verb of ["resolve", "release", "forget"]) {
    const body = { fence, ...(verb === "resolve" && { decision: "done" }) };
    const answer = await operator("POST", `/v1/keys/${id}/${verb}`, body);
    expect(answer).toMatchObject({ status: 409, body: { code: "concurrent-modification" } });
  }
  expect((await shop("GET", `/v1/claims/${id}`)).body.state).toBe("completed");
});

test("a completed key cannot be resolved", async () => {
  const { shop, operator } = await scene();
  const id = await completed(shop, "order-1", "first");
  const { fence } = (await operator("GET", `/v1/keys/${id}`)).body.record;
  const answer = await operator("POST", `/v1/keys/${id}/resolve`, {
    fence,
    decision: "done",
    value: "second",
  });
  expect(answer).toMatchObject({ status: 409, body: { code: "concurrent-modification" } });
  expect((await shop("GET", `/v1/claims/${id}`)).body.outcome.value).toBe("first");
});

test("a key whose work is running cannot be resolved, released or forgotten", async () => {
  const { shop, operator } = await scene();
  const { id, fence } = await claim(shop, "order-1");
  for (const verb of ["resolve", "release", "forget"]) {
    const body = { fence, ...(verb === "resolve" && { decision: "done" }) };
    const answer = await operator("POST", `/v1/keys/${id}/${verb}`, body);
    expect(answer).toMatchObject({ status: 409, body: { code: "pending" } });
  }
});

test("release frees completed and unknown keys, and may be repeated", async () => {
  const { shop, operator } = await scene();
  const id = await completed(shop, "order-1");
  const unknown = await lapsed(shop, "order-2");
  const { fence } = (await operator("GET", `/v1/keys/${id}`)).body.record;
  expect((await operator("POST", `/v1/keys/${id}/release`, { fence })).status).toBe(200);
  expect((await operator("POST", `/v1/keys/${id}/release`, { fence })).status).toBe(200);
  expect((await operator("POST", `/v1/keys/${unknown.id}/release`, { fence: unknown.fence })).status).toBe(
    200,
  );
  expect((await claim(shop, "order-1")).number).toBe(2);
  expect(await claim(shop, "order-2", { onLapsed: "hold" })).toMatchObject({ tookOver: false });
});

test("a forgotten key is no longer found, and its work is not repeated", async () => {
  const { shop, operator } = await scene();
  const id = await completed(shop, "order-1");
  const { fence } = (await operator("GET", `/v1/keys/${id}`)).body.record;
  expect((await operator("POST", `/v1/keys/${id}/forget`, { fence })).status).toBe(200);
  expect((await operator("GET", `/v1/keys/${id}`)).status).toBe(404);
  expect((await operator("GET", "/v1/keys")).body.records).toEqual([]);
  const { body } = await shop("POST", "/v1/claims", { operation: "charge", key: "order-1" });
  expect(body.outcome).toEqual({ kind: "not-kept", reason: "forgotten" });
});

test("auditors and services cannot decide", async () => {
  const { shop, auditor } = await scene();
  const { id, fence } = await lapsed(shop, "order-1");
  for (const caller of [shop, auditor])
    expect((await caller("POST", `/v1/keys/${id}/forget`, { fence })).status).toBe(403);
});

test("a key shows its finished steps: names and times to all who may read it, outcomes to operators and not in lists", async () => {
  const { server, operator, auditor } = await scene();
  const guard = server.context.guard("default");
  const subject = { operation: "order", scope: "shop", key: "order-4712" };
  const run = guard.run(subject, async (attempt) => {
    await attempt.step("charge", () => "card 4711");
    await attempt.step("ship", () => "parcel 1");
    throw new Error("failed");
  });
  await expect(run).rejects.toThrow("failed");
  const id = (await guard.read(subject))?.id;
  const keptAt = expect.any(Number);
  const named = [
    { name: "charge", keptAt },
    { name: "ship", keptAt },
  ];
  const shown = await operator("GET", `/v1/keys/${id}`);
  expect(shown.body.record.steps).toEqual([
    { ...named[0], outcome: { kind: "value", value: "card 4711" } },
    { ...named[1], outcome: { kind: "value", value: "parcel 1" } },
  ]);
  const kinds = shown.body.events.map(({ kind }: { kind: string }) => kind);
  expect(kinds).toEqual(["claimed", "step-kept", "step-kept", "abandoned"]);
  for (const [read, path] of [
    [auditor, `/v1/keys/${id}`],
    [auditor, "/v1/keys"],
    [operator, "/v1/keys"],
  ] as const) {
    const { body, text } = await read("GET", path);
    const { steps } = body.record ?? body.records[0];
    expect(steps).toEqual(named);
    expect(text).not.toContain("4711");
  }
});

const UNENDED = { renewals: 0, renewedAt: null, endedAt: null, ended: null };

test("a key shows its attempts and renewals to all who may read it, and lists leave them out", async () => {
  const { shop, operator, auditor } = await scene();
  const { id, token } = await claim(shop, "order-4713");
  await shop("POST", `/v1/claims/${id}/renew`, { token });
  await shop("POST", `/v1/claims/${id}/abandon`, { token, as: "released" });
  await claim(shop, "order-4713");
  const time = expect.any(Number);
  for (const read of [operator, auditor]) {
    const { body } = await read("GET", `/v1/keys/${id}`);
    expect(body.record.history).toEqual({
      attempts: [
        {
          number: 1,
          fence: time,
          claimedAt: time,
          renewals: 1,
          renewedAt: time,
          endedAt: time,
          ended: "released",
        },
        { number: 2, fence: body.record.fence, claimedAt: body.record.claimedAt, ...UNENDED },
      ],
      dropped: 0,
    });
    const listed = await read("GET", "/v1/keys");
    expect(listed.body.records[0]).not.toHaveProperty("history");
  }
});

test("a parked saga is shown with its reason, and an operator lets it go on, or ends it", async () => {
  const { server, operator } = await scene();
  const guard = server.context.guard("default");
  let isBankOpen = false;
  const steps = [
    {
      name: "charge",
      run: () => "receipt-1",
      undo() {
        if (!isBankOpen) throw new Error("the bank is closed");
      },
    },
    { name: "ship", run: () => Promise.reject(new Error("sold out")) },
  ];
  const order = (key: string) =>
    saga(guard, { operation: "order", scope: "shop", key, undoRetry: { max: 0 } }, steps);
  for (const key of ["order-1", "order-2"]) await order(key);
  const { records } = (await operator("GET", "/v1/keys?state=lapsed")).body;
  const parked = { held: true, state: "lapsed", operation: "order" };
  expect(records).toEqual([expect.objectContaining(parked), expect.objectContaining(parked)]);
  const found = records.find(({ key }: { key: string }) => key === "order-1");
  const { record } = (await operator("GET", `/v1/keys/${found.id}`)).body;
  expect(record.steps.at(-1)).toMatchObject({
    name: "saga: parked 1: charge",
    outcome: { kind: "value", value: { message: "the bank is closed" } },
  });
  const resolve = ({ id, fence }: { id: string; fence: number }, decision: object) =>
    operator("POST", `/v1/keys/${id}/resolve`, { fence, ...decision });
  isBankOpen = true;
  expect((await resolve(found, { decision: "not-done" })).status).toBe(200);
  expect(await order("order-1")).toMatchObject({ status: "undone", step: "ship" });
  const other = records.find(({ key }: { key: string }) => key === "order-2");
  expect((await resolve(other, { decision: "done", value: { status: "undone" } })).status).toBe(200);
  expect(await order("order-2")).toMatchObject({ status: "undone" });
});
