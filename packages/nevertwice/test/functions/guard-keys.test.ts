/** Tests the keys and identities of guarded work. */
import { expect, test, vi } from "vitest";
import { actionKey, compositeKey, eventKey, operationKey } from "../../src/core/key.ts";
import { protect } from "../../src/functions/protect.ts";
import { withIdempotency } from "../../src/http/fetch.ts";
import { page } from "../documents.ts";
import { crash, createScene, failure, REFUSE } from "./guard-scene.ts";

interface Order {
  readonly id: string;
  readonly line?: number;
}

test("Baldur: caller-supplied key: the same key runs once, another key runs too", async () => {
  const { guard } = createScene();
  const charge = vi.fn(async () => "charged");
  for (const key of ["order-1", "order-1", "order-2"]) await guard.run({ operation: "charge", key }, charge);
  expect(charge).toHaveBeenCalledTimes(2);
});

test("Baldur: key from named field/argument: a field of a context, or of an argument of the call", async () => {
  const { guard } = createScene();
  const charge = vi.fn(async (_: Order) => "charged");
  const wrapped = guard.wrap(charge, { operation: "charge", keyFrom: ["0.id"] });
  const context = { orderId: "order-1", note: "first" };
  await wrapped({ id: "order-1", line: 1 });
  await wrapped({ id: "order-1", line: 2 });
  const composed = { operation: "ship", key: "orderId", context } as const;
  await protect(guard, composed, () => charge({ id: "ship" }));
  await protect(guard, { ...composed, context: { ...context, note: "again" } }, () => charge({ id: "ship" }));
  expect(charge).toHaveBeenCalledTimes(2);
});

test("Baldur: key from function: from the arguments, or from the context", async () => {
  const { guard } = createScene();
  const charge = vi.fn(async (order: Order) => order.id);
  const wrapped = guard.wrap(charge, { operation: "charge", key: ({ id }) => id.toLowerCase() });
  await wrapped({ id: "ORDER-1" });
  expect(await wrapped({ id: "order-1" })).toBe("ORDER-1");
  const request = { operation: "charge", context: { order: "Order-1" } };
  expect(
    await protect(guard, { ...request, key: ({ order }) => order.toLowerCase() }, () => charge({ id: "?" })),
  ).toBe("ORDER-1");
  expect(charge).toHaveBeenCalledTimes(1);
});

test("Baldur: composite key, injective joining: two lists that look the same when joined are two keys", async () => {
  const { guard } = createScene();
  const work = vi.fn(async () => "done");
  const lists = [["a|b", "c"], ["a", "b|c"], ["a", "b", "c"], ["a\\", "b"], ["a\\|b"], [1], ["1"], ["#1"]];
  for (const parts of [...lists, ...lists])
    await guard.run({ operation: "x", key: compositeKey(...parts) }, work);
  expect(work).toHaveBeenCalledTimes(lists.length);
});

const DOMAINS = [
  "external_service",
  "internal_process",
  "async_task",
  "event",
  "custom",
  "chaos_experiment",
  "chaos_zombie_hunter",
  "config_change",
  "l2_sync",
  "wal_recovery",
  "auto_adjustment",
  "recovery_action",
];

test("Baldur: namespace by domain: the same key and operation in twelve domains run twelve times", async () => {
  const { guard } = createScene();
  const work = vi.fn(async () => "done");
  for (const domain of [...DOMAINS, ...DOMAINS])
    await guard.run({ domain, operation: "order", key: "1" }, work);
  expect(work).toHaveBeenCalledTimes(DOMAINS.length);
  const misread = { domain: "a:b", operation: "c", key: "1" };
  await expect(guard.run(misread, work)).rejects.toEqual(failure("options-invalid"));
});

test("Baldur: namespace by operation, rename-proof label: charging order 1 never blocks shipping it, and a renamed function keeps its records", async () => {
  const { guard, another } = createScene();
  const chargeCard = vi.fn(async (order: Order) => `charged ${order.id}`);
  const options = { operation: "charge", keyFrom: ["0.id"] } as const;
  await guard.wrap(chargeCard, options)({ id: "1" });
  const ship = guard.wrap(async (order: Order) => `shipped ${order.id}`, { ...options, operation: "ship" });
  expect(await ship({ id: "1" })).toBe("shipped 1");
  const takePayment = async (order: Order) => chargeCard(order);
  expect(await another().wrap(takePayment, options)({ id: "1" })).toBe("charged 1");
  expect(chargeCard).toHaveBeenCalledTimes(1);
});

test("Baldur: shared label across entry points: a handler and a worker that charge share one operation", async () => {
  const { guard, another } = createScene();
  const charge = vi.fn(async (order: Order) => order.id);
  const serve = withIdempotency(guard, { scope: "anyone", operation: "charge" }, async () =>
    Response.json(await charge({ id: "order-1" })),
  );
  const headers = { "idempotency-key": '"order-1"' };
  expect((await serve(new Request("https://shop.example/pay", { method: "POST", headers }))).status).toBe(
    200,
  );
  const worker = another(REFUSE).wrap(charge, { operation: "charge", keyFrom: ["0.id"] });
  await expect(worker({ id: "order-1" })).rejects.toEqual(failure("already-done"));
  expect(charge).toHaveBeenCalledTimes(1);
});

test("Baldur: key factories / builders: for events, for actions on a resource, for operations", () => {
  const keys = [
    eventKey({ source: "psp", id: "evt-1" }),
    actionKey({ resource: "payment", id: 17, action: "refund" }),
    actionKey({ resource: "payment", id: 17, action: "refund", detail: 500 }),
    operationKey({ operation: "breaker-reset", arguments: ["billing"] }),
    compositeKey("dlq-replay", "entry-1", 2),
  ];
  expect(keys.map(String)).toEqual([
    "event|psp|evt-1",
    "action|payment|#17|refund",
    "action|payment|#17|refund|#500",
    "operation|breaker-reset|billing",
    "dlq-replay|entry-1|#2",
  ]);
});

test("Baldur: key required → error: a missing field, context or key is refused before anything runs", async () => {
  const { guard, store } = createScene();
  const work = vi.fn(async (_: Partial<Order>) => "done");
  const wrapped = guard.wrap(work, { operation: "charge", keyFrom: ["0.id"] });
  await expect(wrapped({})).rejects.toEqual(failure("key-missing"));
  await expect(guard.run({ operation: "charge", key: "" }, () => work({}))).rejects.toEqual(
    failure("key-missing"),
  );
  const nameless = { operation: "charge", key: "id", context: { id: null } } as const;
  await expect(protect(guard, nameless, () => work({}))).rejects.toEqual(failure("key-missing"));
  const { context: _, ...contextless } = nameless;
  await expect(protect(guard, contextless as never, () => work({}))).rejects.toThrow();
  expect([work.mock.calls.length, store.calls.claim]).toEqual([0, 0]);
});

test("Baldur: missing key → pass through: where a key is optional and missing, every request is served", async () => {
  const { guard, store } = createScene();
  const handler = vi.fn(async () => new Response("ok"));
  const serve = withIdempotency(guard, { scope: "anyone" }, handler);
  const request = () => new Request("https://shop.example/charges", { method: "POST" });
  for (const answer of [await serve(request()), await serve(request())]) expect(answer.status).toBe(200);
  expect(handler).toHaveBeenCalledTimes(2);
  expect(store.calls.claim).toBe(0);
});

test("Baldur: opaque byte-exact comparison: a key is never trimmed, folded or normalized", async () => {
  const { guard } = createScene();
  const work = vi.fn(async () => "done");
  const keys = ["order", "Order", "order ", " order", "caf\u00e9", "cafe\u0301", "1", "01", "order:1|2"];
  for (const key of [...keys, ...keys]) await guard.run({ operation: "x", key }, work);
  expect(work).toHaveBeenCalledTimes(keys.length);
});

test("Baldur: primitive-only key values: an object, a list or NaN is refused by name", async () => {
  const { guard } = createScene();
  const work = vi.fn(async (_: unknown) => "done");
  const wrapped = guard.wrap(work, { operation: "x", keyFrom: ["0.id"] });
  for (const id of [{}, ["a"], () => {}, Symbol("s"), Number.NaN, Number.POSITIVE_INFINITY]) {
    await expect(wrapped({ id })).rejects.toEqual(failure("key-invalid"));
    expect(() => compositeKey("order", id as never)).toThrow(failure("key-invalid"));
  }
  expect(work).not.toHaveBeenCalled();
  for (const id of ["a", 1, 1n, true]) await wrapped({ id });
  expect(work).toHaveBeenCalledTimes(4);
});

test("Baldur: entropy guidance: a key derived from the order is the same on a retry, a random key is not", async () => {
  const { guard } = createScene();
  const charge = vi.fn(async () => "charged");
  const fromOrder = () => compositeKey("order", 17).text;
  const madeUp = () => crypto.randomUUID();
  for (const keyOf of [fromOrder, fromOrder]) await guard.run({ operation: "charge", key: keyOf() }, charge);
  expect(charge).toHaveBeenCalledTimes(1);
  for (const keyOf of [madeUp, madeUp]) await guard.run({ operation: "charge", key: keyOf() }, charge);
  expect(charge).toHaveBeenCalledTimes(3);
  expect(await page("docs/moving-from-baldur.md")).toContain("never of something made up for each try");
});

test("Baldur: key hash / components for debugging: a key shows its parts, and a log line its hash", async () => {
  const { guard, events } = createScene();
  const key = compositeKey("order", 17, true);
  expect(key).toMatchObject({ text: "order|#17|?true", parts: ["order", 17, true] });
  expect(key.hash).toMatch(/^[0-9a-f]{16}$/);
  await guard.run({ operation: "charge", key }, async () => "charged");
  const record = await guard.read({ operation: "charge", key });
  expect(events[0]).toMatchObject({ kind: "claimed", keyHash: record?.keyHash });
  expect(record).toMatchObject({ key: "order|#17|?true", operation: "charge", number: 1 });
});

test("Baldur: provider's own key derived deterministically: the same after a crash, and different for each use", async () => {
  const scene = createScene();
  const sent: string[] = [];
  const request = { operation: "charge", key: "order-1" };
  await crash(scene, request, (attempt) => void sent.push(attempt.deriveKey("psp")));
  await scene.guard.run(
    request,
    (attempt) => void sent.push(attempt.deriveKey("psp"), attempt.deriveKey("mail")),
  );
  await scene.guard.run(
    { ...request, key: "order-2" },
    (attempt) => void sent.push(attempt.deriveKey("psp")),
  );
  expect(sent[0]).toMatch(/^[\w-]{43}$/);
  expect(sent[1]).toBe(sent[0]);
  expect(new Set(sent).size).toBe(3);
});
