/** Tests marks of events over HTTP. */
import { expect, test } from "vitest";
import { SUBJECTS } from "../../nevertwice/test/scale/subjects.ts";
import type { ServerConfig } from "../src/config.ts";
import { callerOf, startServer } from "./api-client.ts";

const EVENT = { source: "stripe", id: "evt_1" };

async function scene(config: Partial<ServerConfig> = {}) {
  const server = await startServer(config);
  return { server, mailer: await callerOf(server, "service", { name: "mailer" }) };
}

test("an event is first once, and seen afterwards", async () => {
  const { mailer } = await scene();
  expect((await mailer("POST", "/v1/events/seen", EVENT)).body).toEqual({ seen: false });
  expect(await mailer("POST", "/v1/events", EVENT)).toMatchObject({ status: 201, body: { first: true } });
  expect(await mailer("POST", "/v1/events", EVENT)).toMatchObject({ status: 200, body: { first: false } });
  expect((await mailer("POST", "/v1/events/seen", EVENT)).body).toEqual({ seen: true });
});

test.each(["/v1/events", "/v1/events/seen", "/v1/events/release"])(
  "%s refuses an operation that is reserved for the library",
  async (path) => {
    const { mailer } = await scene();
    const refused = await mailer("POST", path, { ...EVENT, operation: "nevertwice:quota" });
    expect(refused).toMatchObject({
      status: 400,
      body: { code: "request-invalid", detail: expect.stringContaining("reserved for nevertwice itself") },
    });
  },
);

test.for([{ name: "memory", create: async () => "memory:" }, ...SUBJECTS])(
  "of sixty simultaneous marks of one event on $name, one is answered 201 and 59 are answered 200",
  async ({ create }, context) => {
    const { mailer } = await scene({ store: await create(context) });
    const answers = await Promise.all(Array.from({ length: 60 }, () => mailer("POST", "/v1/events", EVENT)));
    const statuses = answers.map(({ status }) => status).toSorted();
    expect(statuses).toEqual([...new Array(59).fill(200), 201]);
  },
);

test("a mark is stored for thirty days, or for the retention of the request", async () => {
  const { server, mailer } = await scene();
  const keptFor = async (key: string, more: object) => {
    await mailer("POST", "/v1/events", { key, ...more });
    const record = await server.context.guard("default").read({ operation: "event", scope: "mailer", key });
    return (record?.keptUntil ?? 0) - (record?.completedAt ?? 0);
  };
  expect(await keptFor("a", {})).toBe(30 * 86_400_000);
  expect(await keptFor("b", { retentionMs: 5_000 })).toBe(5_000);
});

test("an event can be handled again after its mark was removed", async () => {
  const { mailer } = await scene();
  expect((await mailer("POST", "/v1/events/release", EVENT)).body).toEqual({ released: false });
  await mailer("POST", "/v1/events", EVENT);
  expect((await mailer("POST", "/v1/events/release", EVENT)).body).toEqual({ released: true });
  expect((await mailer("POST", "/v1/events", EVENT)).status).toBe(201);
});

test("the token that made a mark is first again, within its own scope", async () => {
  const { server, mailer } = await scene();
  const other = await callerOf(server, "service", { name: "other" });
  const token = "11111111-2222-3333-4444-555555555555";
  const statuses = [
    await mailer("POST", "/v1/events", { ...EVENT, token }),
    await mailer("POST", "/v1/events", { ...EVENT, token }),
    await mailer("POST", "/v1/events", EVENT),
    await other("POST", "/v1/events", { ...EVENT, token }),
  ].map(({ status }) => status);
  expect(statuses).toEqual([201, 201, 200, 201]);
  await mailer("POST", "/v1/events/release", EVENT);
  expect(await mailer("POST", "/v1/events", { ...EVENT, token })).toMatchObject({
    status: 409,
    body: { code: "token-spent" },
  });
});

test("each consumer, scope and sender has its own marks", async () => {
  const { server, mailer } = await scene();
  const other = await callerOf(server, "service", { name: "other" });
  await mailer("POST", "/v1/events", EVENT);
  for (const answer of [
    await mailer("POST", "/v1/events", { ...EVENT, operation: "invoice" }),
    await mailer("POST", "/v1/events", { ...EVENT, scope: "tenant-1" }),
    await mailer("POST", "/v1/events", { ...EVENT, source: "adyen" }),
    await other("POST", "/v1/events", EVENT),
  ])
    expect(answer.status).toBe(201);
});

test("a mark of an event that stays claimed waits and then gets 409", async () => {
  const { server, mailer } = await scene();
  server.context.guard("default").retune({ waitMs: 50 });
  await mailer("POST", "/v1/claims", { operation: "event", key: "evt_2" });
  const answer = await mailer("POST", "/v1/events", { key: "evt_2" });
  expect(answer).toMatchObject({ status: 409, body: { code: "pending" } });
  const { elapsedMs } = answer.body as { elapsedMs: number };
  expect(elapsedMs).toBeGreaterThan(0);
  expect(answer.headers["retry-after"]).toBe(String(Math.min(Math.max(Math.ceil(elapsedMs / 1_000), 1), 30)));
});

test("a mark of a claimed event waits for the claim and is then not first", async () => {
  const { mailer } = await scene();
  const { body: claim } = await mailer("POST", "/v1/claims", { operation: "event", key: "evt_3" });
  const marked = mailer("POST", "/v1/events", { key: "evt_3" });
  await mailer("POST", `/v1/claims/${claim.id}/complete`, { token: claim.token, value: "handled" });
  expect(await marked).toMatchObject({ status: 200, body: { first: false } });
});

test.each([
  ["neither a key nor an id", {}],
  ["a source without an id", { source: "stripe" }],
  ["a key and an id", { key: "a", source: "stripe", id: "evt_1" }],
  ["a retention of zero", { ...EVENT, retentionMs: 0 }],
  ["a retention that is text", { ...EVENT, retentionMs: "30d" }],
])("an event with %s is refused", async (_, body) => {
  const { mailer } = await scene();
  expect(await mailer("POST", "/v1/events", body)).toMatchObject({
    status: 400,
    body: { code: "request-invalid" },
  });
});
