/** Tests the options of `protect`: invalid ones are refused before anything runs, and types follow from the policy. */
import {
  ConsecutiveBreaker,
  circuitBreaker,
  fallback,
  handleAll,
  type IRetryContext,
  retry,
  TimeoutStrategy,
  timeout,
  wrap,
} from "cockatiel";
import { afterEach, beforeEach, describe, expect, expectTypeOf, test } from "vitest";
import { compositeKey } from "../../src/core/key.ts";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { type Protected, protect, tryProtect } from "../../src/functions/protect.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { type FaultyStore, faultyStore } from "../../src/testing/faulty-store.ts";
import { failure } from "./protect-scene.ts";

let store: FaultyStore;
let guard: Guard;
beforeEach(() => {
  store = faultyStore(memoryStore());
  guard = createGuard({ store, purgeEveryMs: 0 });
});
afterEach(() => guard.close());

const untyped = (options: unknown) => options as { operation: string; key: () => string };

/** Expects both functions to reject, without a call to the store or to the work. */
async function refuses(options: unknown, expected: unknown): Promise<void> {
  let runs = 0;
  const work = () => runs++;
  await expect(protect(guard, untyped(options), work)).rejects.toEqual(expected);
  await expect(tryProtect(guard, untyped(options), work)).rejects.toEqual(expected);
  expect([runs, store.calls.claim]).toEqual([0, 0]);
}

class Order {
  get id() {
    return "42";
  }
}

describe("the key", () => {
  test.each<[what: string, options: object, key: string]>([
    ["a field", { key: "orderId", context: { orderId: "42" } }, "42"],
    ["a number, which differs from its digits", { key: "orderId", context: { orderId: 42 } }, "#42"],
    ["false", { key: "on", context: { on: false } }, "?false"],
    ["a getter of a class", { key: "id", context: new Order() }, "42"],
    ["several fields", { key: ["tenant", "id"], context: { tenant: "a|b", id: 7n } }, "a\\|b|#7n"],
    ["a list of one", { key: ["id"], context: { id: "42" } }, "42"],
    [
      "the unchanged result of a function",
      { key: ({ id }: Order) => `o|${id}`, context: new Order() },
      "o|42",
    ],
    ["a composite key from a function", { key: () => compositeKey("order", 7) }, "order|#7"],
    ["paths into the arguments", { keyFrom: [0, "1.id"], args: ["a", { id: 7 }] }, "a|#7"],
  ])("is made from %s", async (_, options, key) => {
    await protect(guard, untyped({ operation: "charge", ...options }), () => "done");
    expect((await guard.read({ operation: "charge", key }))?.state).toBe("completed");
  });

  test.each<[what: string, options: object, named: string]>([
    ["a field that does not exist", { key: "orderId", context: {} }, '"orderId"'],
    ["a field that is null", { key: "orderId", context: { orderId: null } }, '"orderId"'],
    ["a field that is undefined", { key: "orderId", context: { orderId: undefined } }, '"orderId"'],
    ["a field that is empty", { key: "orderId", context: { orderId: "" } }, '"orderId"'],
    ["one field of several", { key: ["a", "b"], context: { a: 1 } }, '"b"'],
    ["a member that every object inherits", { key: "constructor", context: {} }, '"constructor"'],
    ["the prototype", { key: "__proto__", context: {} }, '"__proto__"'],
    ["an argument that does not exist", { keyFrom: ["0.id"], args: [{}] }, '"0.id"'],
    ["a function that returns undefined", { key: () => undefined }, "the request has no key"],
  ])("is missing: %s", async (_, options, named) => {
    await refuses({ operation: "charge", ...options }, failure("key-missing", named));
  });

  test.each<[what: string, value: unknown]>([
    ["an object", { id: 1 }],
    ["a list", ["a"]],
    ["an invalid date", new Date(Number.NaN)],
    ["a function", () => "a"],
    ["a symbol", Symbol("a")],
    ["NaN", Number.NaN],
    ["a lone surrogate", "\ud800"],
  ])("cannot be made from %s, and the field is named", async (_, orderId) => {
    const expected = failure("key-invalid", '"orderId"');
    await refuses({ operation: "charge", key: ["orderId"], context: { orderId } }, expected);
    const path = failure("key-invalid", '"0.orderId"');
    await refuses({ operation: "charge", keyFrom: ["0.orderId"], args: [{ orderId }] }, path);
  });

  test("is refused if its function returns no string, and an error of the function is thrown", async () => {
    await refuses({ operation: "charge", key: () => 42 }, failure("key-invalid", "key is a number"));
    const broken = new TypeError("no order");
    const key = () => {
      throw broken;
    };
    await refuses({ operation: "charge", key }, broken);
  });
});

describe("options are refused before anything runs", () => {
  const good = { operation: "charge", key: "id", context: { id: "42" } } as const;

  test.each<[what: string, options: unknown, words: string]>([
    ["no options", undefined, "the options are undefined"],
    ["both key sources", { ...good, keyFrom: [0], args: ["a"] }, "exactly one of key"],
    ["no key source", { operation: "charge", context: {} }, "exactly one of key"],
    ["a field without a context", { operation: "charge", key: "id" }, "context is missing"],
    ["paths without arguments", { operation: "charge", keyFrom: [0] }, "keyFrom needs args"],
    ["an invalid path", { operation: "charge", keyFrom: ["id"], args: [] }, "keyFrom must list"],
    ["a key without fields", { ...good, key: [] }, "key must name a field"],
    ["a number as key", { ...good, key: 7 }, "key must name a field"],
    ["a string as context", { ...good, context: "42" }, "context must be an object"],
    ["an object as arguments", { operation: "c", keyFrom: [0], args: {} }, "args must be a list"],
    ["a policy without execute", { ...good, policy: { run() {} } }, "policy must be an object with execute"],
    ["a fallback that is not a function", { ...good, fallback: "queued" }, "fallback is"],
    ["dead letters that are not a function", { ...good, deadLetters: [] }, "deadLetters is"],
    ["no operation", { ...good, operation: undefined }, "operation is missing"],
    ["an invalid policy option", { ...good, waitMs: "1s" }, 'waitMs is "1s"'],
    ["an unknown option", { ...good, retries: 3 }, 'no option called "retries"'],
  ])("%s", async (_, options, words) => {
    await refuses(options, failure("options-invalid", words));
  });

  test("and so are missing work and a missing guard", async () => {
    await expect(protect(guard, good, undefined as never)).rejects.toEqual(
      failure("options-invalid", "the work"),
    );
    await expect(protect({} as never, good, () => 1)).rejects.toEqual(
      failure("options-invalid", "the guard is missing"),
    );
  });
});

test("passes every option of the guard through", async () => {
  const options = { operation: "charge", domain: "billing", scope: "tenant", key: () => "42" };
  const kept = { ...options, shorten: () => "short", maxOutcomeBytes: 100 };
  expect(await protect(guard, kept, () => "long".repeat(100))).toBe("long".repeat(100));
  expect(await protect(guard, kept, () => "not run")).toBe("short");
  expect(await guard.read({ ...options, key: "42" })).toMatchObject({ state: "completed" });
});

test("types: the work receives what the policy passes, and the answer has every possible type", () => {
  const context = { orderId: "42", amount: 7 };
  const base = { operation: "charge", key: "orderId", context } as const;
  const retrying = retry(handleAll, { maxAttempts: 1 });
  const queued = fallback(handleAll, { queued: true });
  const breaker = circuitBreaker(handleAll, { halfOpenAfter: 1, breaker: new ConsecutiveBreaker(1) });
  const all = wrap(queued, retrying, breaker, timeout(1, TimeoutStrategy.Cooperative));
  const typed = {
    plain: () => protect(guard, base, () => 1),
    retried: () =>
      protect(guard, { ...base, policy: retrying }, async (_, execution) => {
        expectTypeOf(execution).toEqualTypeOf<IRetryContext>();
        return execution.attempt;
      }),
    fallen: () => protect(guard, { ...base, policy: queued }, () => 1),
    all: () =>
      tryProtect(guard, { ...base, policy: all, fallback: () => null }, (_, { attempt }) => String(attempt)),
    keyed: () => protect(guard, { ...base, key: ({ amount }: typeof context) => String(amount) }, () => 1),
    // @ts-expect-error: the context has no such field.
    misspelt: () => protect(guard, { operation: "charge", key: "orderID", context }, () => 1),
  };
  expectTypeOf(typed.plain).returns.resolves.toEqualTypeOf<number>();
  expectTypeOf(typed.retried).returns.resolves.toEqualTypeOf<number>();
  expectTypeOf(typed.fallen).returns.resolves.toEqualTypeOf<number | { queued: boolean }>();
  expectTypeOf(typed.all).returns.resolves.toEqualTypeOf<Protected<string, { queued: boolean } | null>>();
  expectTypeOf(typed.keyed).returns.resolves.toEqualTypeOf<number>();
});
