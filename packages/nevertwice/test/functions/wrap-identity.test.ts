/**
 * Tests what makes two pieces of guarded work the same: operation, domain, scope and key, whichever function is
 * called.
 */
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ErrorCode } from "../../src/core/errors.ts";
import { compositeKey, type KeyPart } from "../../src/core/key.ts";
import { checkedSubject, type Subject } from "../../src/core/request.ts";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import type { WrapOptions } from "../../src/functions/wrap.ts";
import { withIdempotency } from "../../src/http/fetch.ts";
import { memoryStore } from "../../src/stores/memory.ts";

const failure = (code: ErrorCode) => expect.objectContaining({ code });

let guard: Guard;
let charges: string[];
beforeEach(() => {
  guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
  charges = [];
});
afterEach(() => guard.close());

interface Order {
  readonly id: string;
  readonly customer: string;
}

/** The values that identify one record. */
interface Named {
  readonly domain: string;
  readonly operation: string;
  readonly parts: readonly KeyPart[];
}

interface Receipt {
  readonly receipt: string;
}

const ORDER: Order = { id: "order-42", customer: "customer-7" };
const SUBJECT = { operation: "charge", scope: ORDER.customer, key: ORDER.id };

/** How the worker charges an order. */
function worker(options: Partial<WrapOptions<[Order]>> = {}) {
  const work = async (order: Order): Promise<Receipt> => {
    charges.push(`worker: ${order.id}`);
    return { receipt: "from the worker" };
  };
  return guard.wrap(work, {
    operation: "charge",
    scope: (order) => order.customer,
    keyFrom: ["0.id"],
    ...options,
  });
}

/** How the HTTP handler charges the same order. */
function handler(options: { operation?: string; onCompleted?: "reject" } = { operation: "charge" }) {
  const handle = withIdempotency(guard, { scope: () => ORDER.customer, ...options }, async (request) => {
    const { id } = (await request.json()) as Order;
    charges.push(`handler: ${id}`);
    return Response.json({ receipt: "from the handler" }, { status: 201 });
  });
  return async (order: Order) => {
    const response = await handle(
      new Request("https://shop.example/charges", {
        method: "POST",
        headers: { "content-type": "application/json", "idempotency-key": `"${order.id}"` },
        body: JSON.stringify(order),
      }),
    );
    return { status: response.status, body: await response.json() };
  };
}

describe("an HTTP handler and a worker with the same operation share one record", () => {
  test("handler first: a worker with onCompleted reject gets already-done, and charges nothing", async () => {
    expect(await handler()(ORDER)).toEqual({ status: 201, body: { receipt: "from the handler" } });
    await expect(worker({ onCompleted: "reject" })(ORDER)).rejects.toEqual(failure("already-done"));
    expect(charges).toEqual(["handler: order-42"]);
  });

  test("handler first: a worker that replays gets the stored response, not a receipt", async () => {
    await handler()(ORDER);
    expect(await worker()(ORDER)).toEqual([
      201,
      ["content-type", "application/json"],
      '{"receipt":"from the handler"}',
    ]);
    expect(charges).toEqual(["handler: order-42"]);
  });

  test("worker first: the handler answers that the work is done, and charges nothing", async () => {
    expect(await worker()(ORDER)).toEqual({ receipt: "from the worker" });
    expect(await handler()(ORDER)).toMatchObject({ status: 500, body: { code: "not-kept" } });
    const rejecting = handler({ operation: "charge", onCompleted: "reject" });
    expect(await rejecting(ORDER)).toMatchObject({ status: 409, body: { code: "already-done" } });
    expect(charges).toEqual(["worker: order-42"]);
  });

  test.each<[what: string, value: unknown]>([
    ["nothing", undefined],
    ["text", "charged"],
    ["a list", [201, "created"]],
    ["a list that resembles a stored response", [201, ["set-cookie", "a=b"], ""]],
    ["a number", 7],
  ])("worker first, returning %s: the handler answers the same", async (_, value) => {
    await guard.run(SUBJECT, () => value);
    expect(await handler()(ORDER)).toMatchObject({ status: 500, body: { code: "not-kept" } });
    expect(charges).toEqual([]);
  });

  test("a remembered error of the worker reaches the handler's caller, and nothing is charged", async () => {
    const failed = guard.run({ ...SUBJECT, onFailure: "remember" }, () =>
      Promise.reject(new Error("declined")),
    );
    await expect(failed).rejects.toThrow("declined");
    await expect(handler()(ORDER)).rejects.toThrow("declined");
    expect(charges).toEqual([]);
  });

  test("while the worker runs, the handler answers 409 pending", async () => {
    const answer = await guard.run(SUBJECT, () => handler()(ORDER));
    expect(answer).toMatchObject({ status: 409, body: { code: "pending" } });
    expect(charges).toEqual([]);
  });

  test("while the handler runs, the worker waits for it, and charges nothing", async () => {
    let late: Promise<unknown> = Promise.resolve();
    const handle = withIdempotency(guard, { scope: () => ORDER.customer, operation: "charge" }, async () => {
      late = worker({ onCompleted: "reject" })(ORDER);
      late.catch(() => {});
      return new Response("charged");
    });
    const headers = { "idempotency-key": `"${ORDER.id}"` };
    await handle(new Request("https://shop.example/charges", { method: "POST", headers }));
    await expect(late).rejects.toEqual(failure("already-done"));
    expect(charges).toEqual([]);
  });

  test("a guarded function behind both returns its own value to both, which is the recommended way", async () => {
    const charge = worker();
    const handle = withIdempotency(guard, { scope: () => ORDER.customer }, async (request) =>
      Response.json(await charge((await request.json()) as Order), { status: 201 }),
    );
    const send = async () => {
      const headers = { "content-type": "application/json", "idempotency-key": '"k"' };
      const body = JSON.stringify(ORDER);
      const response = await handle(
        new Request("https://shop.example/charges", { method: "POST", headers, body }),
      );
      return [response.status, await response.json()];
    };
    const receipt = { receipt: "from the worker" };
    expect(await charge(ORDER)).toEqual(receipt);
    expect([await send(), await send(), await charge(ORDER)]).toEqual([
      [201, receipt],
      [201, receipt],
      receipt,
    ]);
    expect(charges).toEqual(["worker: order-42"]);
  });

  test("a domain is part of the operation's name in every function", async () => {
    const charge = worker({ domain: "billing" });
    await charge(ORDER);
    expect(await handler({ operation: "billing:charge" })(ORDER)).toMatchObject({
      body: { code: "not-kept" },
    });
    expect(await guard.run({ ...SUBJECT, domain: "billing" }, () => "again")).toEqual({
      receipt: "from the worker",
    });
    expect(charges).toEqual(["worker: order-42"]);
  });
});

describe("the same key is kept apart", () => {
  test.each<[what: string, one: object, other: object]>([
    ["in two operations", { operation: "charge" }, { operation: "ship" }],
    ["in two domains", { domain: "billing" }, { domain: "events" }],
    ["with and without a domain", { domain: "billing" }, {}],
    ["in two scopes", { scope: "a" }, { scope: "b" }],
    ["with and without a scope", { scope: "a" }, { scope: undefined }],
  ])("%s", async (_, one, other) => {
    await worker(one)(ORDER);
    await worker(other)(ORDER);
    expect(charges).toHaveLength(2);
  });
});

test("no two combinations of domain, operation and key parts name the same record", () => {
  // A few characters, among them those that separate or escape, so that texts which are nearly the same come up
  // often.
  const textOf = (characters: string, minLength: number) =>
    fc.string({ unit: fc.constantFrom(...characters), minLength, maxLength: 4 });
  const part: fc.Arbitrary<KeyPart> = fc.oneof(
    textOf("ab1|\\#?~:n", 0),
    fc.integer({ min: -1, max: 2 }),
    fc.bigInt({ min: -1n, max: 2n }),
    fc.boolean(),
    fc.constant(null),
  );
  const named = fc.record({
    domain: textOf("ab|\\#", 1),
    operation: textOf("ab:|\\", 1),
    parts: fc.array(part, { minLength: 1, maxLength: 3 }).filter((parts) => parts.join("") !== ""),
  });
  const idOf = ({ domain, operation, parts }: Named) => {
    const subject: Subject = { domain, operation, key: compositeKey(...parts) };
    return checkedSubject(subject, "shop").id;
  };
  const shown = ({ domain, operation, parts }: Named) =>
    JSON.stringify([domain, operation, parts.map((value) => `${typeof value} ${String(value)}`)]);
  const names = new Map<string, string>();
  fc.assert(
    fc.property(named, (name) => {
      const id = idOf(name);
      expect(idOf({ ...name, parts: [...name.parts] })).toBe(id);
      expect(names.get(id) ?? shown(name)).toBe(shown(name));
      names.set(id, shown(name));
    }),
    { numRuns: 3_000 },
  );
  expect(names.size).toBeGreaterThan(1_000);
});
