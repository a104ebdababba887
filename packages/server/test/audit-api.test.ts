/** Tests the audit over HTTP. */
import { expect, test } from "vitest";
import { type Scene, sceneOf } from "./calling.ts";

const LONG_KEY = "order-4711-of-ann";

/** A confirmed hold, and a second one of the same requester under another key. */
async function history({ call }: Scene, token: string): Promise<string> {
  await call("POST /v1/resources", { token, key: "d", body: { resource: "room-7", capacity: 2 } });
  const hold = { resource: "room-7", requester: "ann", durationMs: 60_000 };
  const { id } = (await call("POST /v1/holds", { token, key: LONG_KEY, body: hold })).body;
  await call(`POST /v1/holds/${id}/confirm`, { token, key: "c" });
  await call("POST /v1/holds", { token, key: "again", body: hold });
  return id;
}

async function audited(): Promise<Scene & { auditor: string; operator: string; id: string }> {
  const scene = await sceneOf();
  const service = await scene.token({});
  const id = await history(scene, service);
  const auditor = await scene.token({ name: "regulator", role: "auditor" });
  const operator = await scene.token({ name: "desk", role: "operator" });
  return { ...scene, auditor, operator, id };
}

test("the audit returns a verdict as data for programs and as a page for display", async () => {
  const { call, auditor } = await audited();
  const { status, body } = await call("GET /v1/audit", { token: auditor });
  expect(status).toBe(200);
  expect(body.data).toMatchObject({
    ok: true,
    namespace: "default",
    counts: { commitments: 2, resources: 1, keys: 4, events: 4 },
  });
  expect(body.data.invariants.length).toBeGreaterThan(10);
  expect(body.page).toMatchObject({ status: "holds", sections: expect.any(Array) });
});

test("the audit is also available as text", async () => {
  const { call, auditor } = await audited();
  const { headers, text } = await call("GET /v1/audit?format=text", { token: auditor });
  expect(headers["content-type"]).toBe("text/plain; charset=utf-8");
  expect(text).toMatch(/^Audit of default, .*: all invariants hold\n {2}read: 2 commitments/);
});

test("counts of an earlier report reveal missing records", async () => {
  const { call, auditor } = await audited();
  const query = "previousCommitments=3&previousEvents=4&previousCheckpoints=4";
  const { body } = await call(`GET /v1/audit?${query}`, { token: auditor });
  expect(body.data.ok).toBe(false);
  const half = await call("GET /v1/audit?previousEvents=4", { token: auditor });
  expect([half.status, half.body.code]).toEqual([400, "request-invalid"]);
});

test("the trace of a hold has its keys, whole only for operators", async () => {
  const { call, auditor, operator, id } = await audited();
  const seen = await call(`GET /v1/audit/holds/${id}`, { token: auditor });
  expect(seen.body).toMatchObject({
    commitment: { id, state: "confirmed" },
    placedBy: { keyId: expect.any(String), record: { key: "orde…", action: "placeHold" } },
    endedBy: { record: { action: "confirm" } },
    events: [{ kind: "placed" }, { kind: "confirmed" }],
  });
  expect(seen.text).not.toContain(LONG_KEY);
  const whole = await call(`GET /v1/audit/holds/${id}`, { token: operator });
  expect(whole.body.placedBy.record.key).toBe(LONG_KEY);
  const unknown = await call("GET /v1/audit/holds/00000000-0000-4000-8000-000000000000", { token: auditor });
  expect(unknown.status).toBe(404);
});

test("doubles are pairs of one resource and requester, each with a verdict", async () => {
  const { call, auditor } = await audited();
  const { body, text } = await call("GET /v1/audit/doubles?withinMs=60000", { token: auditor });
  expect(body).toMatchObject({
    looked: 2,
    count: 1,
    violations: 0,
    pairs: [{ resource: "room-7", requester: "ann", verdict: "two-operations" }],
  });
  expect(text).not.toContain(LONG_KEY);
  expect((await call("GET /v1/audit/doubles", { token: auditor })).status).toBe(400);
});

test("the configuration contains the settings of holds", async () => {
  const { call, auditor } = await audited();
  const { body } = await call("GET /v1/audit/configuration", { token: auditor });
  expect(body).toMatchObject({
    namespace: "default",
    windowMs: 600_000,
    store: { survives: expect.any(Object) },
  });
});

test("an audit covers only its namespace", async () => {
  const scene = await audited();
  const other = await scene.token({ role: "auditor", namespace: "other" });
  const { body } = await scene.call("GET /v1/audit", { token: other });
  expect(body.data).toMatchObject({ namespace: "other", counts: { commitments: 0 } });
  expect((await scene.call(`GET /v1/audit/holds/${scene.id}`, { token: other })).status).toBe(404);
});
