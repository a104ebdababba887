/** Events over HTTP: seen before, or the first. */
import { expect, test } from "vitest";
import { callerOf, startServer } from "./api-client.ts";

const EVENT = { source: "stripe", id: "evt_1" };

async function scene() {
  const server = await startServer();
  return { server, mailer: await callerOf(server, "service", { name: "mailer" }) };
}

test("an event is the first once, and seen from then on", async () => {
  const { mailer } = await scene();
  expect((await mailer("POST", "/v1/events/seen", EVENT)).body).toEqual({ seen: false });
  expect(await mailer("POST", "/v1/events", EVENT)).toMatchObject({ status: 201, body: { first: true } });
  expect(await mailer("POST", "/v1/events", EVENT)).toMatchObject({ status: 200, body: { first: false } });
  expect((await mailer("POST", "/v1/events/seen", EVENT)).body).toEqual({ seen: true });
});

test("of twenty who mark an event at once, one is told that it was the first", async () => {
  const { mailer } = await scene();
  const answers = await Promise.all(Array.from({ length: 20 }, () => mailer("POST", "/v1/events", EVENT)));
  const firsts = answers.filter(({ status }) => status === 201);
  expect(firsts).toHaveLength(1);
  // The others were told that it was done, or that it is being done.
  for (const { status } of answers) expect([200, 201, 409]).toContain(status);
});

test("an event counts as seen for thirty days, or as long as the request says", async () => {
  const { server, mailer } = await scene();
  const keptFor = async (key: string, more: object) => {
    await mailer("POST", "/v1/events", { key, ...more });
    const record = await server.context.guard("default").read({ operation: "event", scope: "mailer", key });
    return (record?.keptUntil ?? 0) - (record?.completedAt ?? 0);
  };
  expect(await keptFor("a", {})).toBe(30 * 86_400_000);
  expect(await keptFor("b", { retentionMs: 5_000 })).toBe(5_000);
});

test("a mark that is taken back lets the event be handled again", async () => {
  const { mailer } = await scene();
  expect((await mailer("POST", "/v1/events/release", EVENT)).body).toEqual({ released: false });
  await mailer("POST", "/v1/events", EVENT);
  expect((await mailer("POST", "/v1/events/release", EVENT)).body).toEqual({ released: true });
  expect((await mailer("POST", "/v1/events", EVENT)).status).toBe(201);
});

test("consumers, scopes and senders have their own marks", async () => {
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

test("an event that is claimed and under way is pending for whoever marks it", async () => {
  const { mailer } = await scene();
  await mailer("POST", "/v1/claims", { operation: "event", key: "evt_2" });
  const answer = await mailer("POST", "/v1/events", { key: "evt_2" });
  expect(answer).toMatchObject({ status: 409, body: { code: "pending" } });
  expect(answer.headers["retry-after"]).toBe("1");
});

test.each([
  ["nothing to tell it by", {}],
  ["a source without an id", { source: "stripe" }],
  ["a key and an id", { key: "a", source: "stripe", id: "evt_1" }],
  ["a retention of no time", { ...EVENT, retentionMs: 0 }],
  ["a retention in words", { ...EVENT, retentionMs: "30d" }],
])("an event with %s is refused", async (_, body) => {
  const { mailer } = await scene();
  expect(await mailer("POST", "/v1/events", body)).toMatchObject({
    status: 400,
    body: { code: "request-invalid" },
  });
});
