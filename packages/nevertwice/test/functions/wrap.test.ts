/**
 * Tests wrapped functions: how key, scope and fingerprint follow from the arguments, once and before anything else
 * happens.
 */
import { afterEach, beforeEach, describe, expect, expectTypeOf, test } from "vitest";
import type { Engine } from "../../src/core/engine.ts";
import type { ErrorCode } from "../../src/core/errors.ts";
import { compositeKey } from "../../src/core/key.ts";
import type { RunRequest } from "../../src/core/request.ts";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { type WrapOptions, wrap } from "../../src/functions/wrap.ts";
import { memoryStore } from "../../src/stores/memory.ts";

interface Order {
  id: string;
  amount: number;
  customer?: { id?: string | null } | null;
}

const failure = (code: ErrorCode, words = "") =>
  expect.objectContaining({ code, message: expect.stringContaining(words) });
const untyped = (options: unknown) => options as never;

let guard: Guard;
beforeEach(() => {
  guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
});
afterEach(() => guard.close());

/** A guard that only records its requests. */
function noting(): { guard: Pick<Engine, "run">; requests: RunRequest[] } {
  const requests: RunRequest[] = [];
  return {
    requests,
    guard: {
      run: async (request, work) => {
        requests.push(request);
        return work(undefined as never);
      },
    },
  };
}

/** Returns the text of the key that a call with these arguments has. */
async function keyFor(options: object, ...args: unknown[]): Promise<string> {
  const { guard: notes, requests } = noting();
  const wrapped = wrap(notes, (..._: unknown[]) => 1, untyped({ operation: "charge", ...options }));
  await wrapped(...args);
  return String(requests[0]?.key);
}

class Ticket {
  get id() {
    return "42";
  }
}

describe("the key", () => {
  test("is the result of the key function: the same key runs once", async () => {
    let charged = 0;
    const charge = guard.wrap(
      async (order: Order, note: string) => {
        charged++;
        return `${note} ${order.id}`;
      },
      { operation: "charge", key: (order, note) => `${order.id}/${note}` },
    );
    expect(await charge({ id: "42", amount: 1 }, "first")).toBe("first 42");
    expect(await charge({ id: "42", amount: 9 }, "first")).toBe("first 42");
    expect(await charge({ id: "42", amount: 1 }, "other")).toBe("other 42");
    expect(await charge({ id: "43", amount: 1 }, "first")).toBe("first 43");
    expect(charged).toBe(3);
  });

  test("may be a composite key", async () => {
    expect(await keyFor({ key: (id: number) => compositeKey("order", id) }, 42)).toBe("order|#42");
  });

  test.each<[paths: unknown[], args: unknown[], key: string]>([
    [[0], ["order-42"], "order-42"],
    [["0"], ["order-42"], "order-42"],
    [[0], [42], "#42"],
    [[0], [42n], "#42n"],
    [[0], [false], "?false"],
    [[0], [""], ""],
    [[1], ["ignored", "order-42"], "order-42"],
    [[1, 0], ["a", "b"], "b|a"],
    [["1.orderId"], [{}, { orderId: "42" }], "42"],
    [[0, "1.orderId"], ["shop", { orderId: 42 }], "shop|#42"],
    [["0.customer.id"], [{ customer: { id: "c|7" } }], "c\\|7"],
    [["0.lines.1.sku"], [{ lines: [{ sku: "a" }, { sku: "b" }] }], "b"],
    [["0.order id"], [{ "order id": "42" }], "42"],
    [["0.id"], [new Ticket()], "42"],
    [["10"], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, "tenth"], "tenth"],
  ])("at %j of %o is %j", async (keyFrom, args, key) => {
    expect(await keyFor({ keyFrom }, ...args)).toBe(key);
  });

  test.each<[what: string, path: string | number, args: unknown[]]>([
    ["an argument that is not passed", 1, ["a"]],
    ["undefined", 0, [undefined]],
    ["null", 0, [null]],
    ["a member that does not exist", "0.id", [{}]],
    ["a member of undefined", "0.customer.id", [{}]],
    ["a member of null", "0.customer.id", [{ customer: null }]],
    ["a member that is null", "0.customer.id", [{ customer: { id: null } }]],
    ["a member of a string", "0.length", ["order"]],
    ["an inherited member", "0.toString", [{}]],
    ["the prototype", "0.__proto__", [{}]],
  ])("is missing at %s, and the call is refused", async (_, path, args) => {
    const charge = guard.wrap((..._: unknown[]) => "not run", {
      operation: "charge",
      keyFrom: [path] as never,
    });
    await expect(charge(...args)).rejects.toEqual(
      failure("key-missing", `the call has no value at ${JSON.stringify(path)}`),
    );
  });

  test.each<[what: string, value: unknown]>([
    ["an object", {}],
    ["an array", ["a"]],
    ["an invalid Date", new Date(Number.NaN)],
    ["a boxed string", new Object("a")],
    ["a function", () => "a"],
    ["a symbol", Symbol("a")],
    ["NaN", Number.NaN],
    ["Infinity", Number.POSITIVE_INFINITY],
    ["a lone surrogate", "\ud800"],
  ])("cannot be made from %s, and the error names its path", async (_, value) => {
    const charge = guard.wrap((id: unknown, order: { id: unknown }) => [id, order], {
      operation: "charge",
      keyFrom: [0, "1.id"],
    });
    const words = (path: string) => `the value at ${path} cannot be part of a key`;
    await expect(charge(value, { id: 1 })).rejects.toEqual(failure("key-invalid", words("0")));
    await expect(charge(1, { id: value })).rejects.toEqual(failure("key-invalid", words('"1.id"')));
  });

  test("is missing if all its parts are empty strings", async () => {
    const charge = guard.wrap((id: string) => id, { operation: "charge", keyFrom: [0] });
    await expect(charge("")).rejects.toEqual(failure("key-missing"));
  });

  test("is refused if it is longer than 1,024 bytes", async () => {
    const charge = guard.wrap((id: string) => id, { operation: "charge", keyFrom: [0] });
    await expect(charge("k".repeat(1_025))).rejects.toEqual(failure("key-invalid", "1025 bytes"));
  });

  test.each([undefined, null, ""])("is missing if its function returns %o", async (nothing) => {
    const charge = guard.wrap(() => "not run", {
      operation: "charge",
      key: () => nothing as unknown as string,
    });
    await expect(charge()).rejects.toEqual(failure("key-missing"));
  });

  test.each<[what: string, key: unknown, words: string]>([
    ["a number", 42, "key is a number"],
    ["an object that is not a key", { id: "42" }, "key is an object"],
    ["an object with a text member", { text: "42" }, "key is an object"],
    ["a list", ["42"], "key is an object"],
    ["a promise", Promise.resolve("42"), "key is an object"],
  ])("is refused if its function returns %s", async (_, key, words) => {
    const charge = guard.wrap(() => "not run", { operation: "charge", key: () => key as string });
    await expect(charge()).rejects.toEqual(failure("key-invalid", words));
  });

  test("function that throws rejects the call, and nothing runs", async () => {
    let runs = 0;
    const charge = guard.wrap((order: Order) => runs++ + order.amount, {
      operation: "charge",
      key: (order) => (order.customer as { id: string }).id,
    });
    await expect(charge({ id: "42", amount: 1 })).rejects.toThrow(TypeError);
    expect(runs).toBe(0);
  });
});

describe("the scope", () => {
  const charge = (scope: WrapOptions<[tenant: string]>["scope"]) =>
    guard.wrap((tenant: string) => `charged ${tenant}`, { operation: "charge", key: () => "42", scope });

  test("may be a constant, or a function of the arguments", async () => {
    expect(await charge((tenant) => tenant)("a")).toBe("charged a");
    expect(await charge((tenant) => tenant)("b")).toBe("charged b");
    expect(await charge("a")("z")).toBe("charged a");
    expect(await charge(undefined)("c")).toBe("charged c");
  });

  test.each([undefined, null, ""])(
    "is refused as missing if its function returns %o, never shared",
    async (nothing) => {
      await expect(charge(() => nothing as unknown as string)("a")).rejects.toEqual(failure("scope-missing"));
    },
  );

  test("is refused if its function returns no string", async () => {
    await expect(charge(() => 7 as unknown as string)("a")).rejects.toEqual(
      failure("options-invalid", "scope is a number"),
    );
  });
});

describe("the fingerprint", () => {
  const charge = (fingerprint?: (order: Order) => unknown) =>
    guard.wrap((order: Order) => order.amount, { operation: "charge", keyFrom: ["0.id"], fingerprint });

  test("refuses another meaning under the same key", async () => {
    const guarded = charge((order) => ({ amount: order.amount }));
    expect(await guarded({ id: "42", amount: 1 })).toBe(1);
    expect(await guarded({ id: "42", amount: 1, customer: null })).toBe(1);
    await expect(guarded({ id: "42", amount: 2 })).rejects.toEqual(failure("conflict"));
  });

  test("is not taken from the arguments by default", async () => {
    expect(await charge()({ id: "42", amount: 1 })).toBe(1);
    expect(await charge()({ id: "42", amount: 2 })).toBe(1);
  });

  test.each([undefined, null])("is refused if its function returns %o", async (nothing) => {
    await expect(charge(() => nothing)({ id: "42", amount: 1 })).rejects.toEqual(
      failure("fingerprint-invalid", `the fingerprint function returned ${nothing}`),
    );
  });

  test("is refused if it is not JSON", async () => {
    await expect(charge(() => ({ at: new Date(0) }))({ id: "42", amount: 1 })).rejects.toEqual(
      failure("fingerprint-invalid", "fingerprint.at"),
    );
  });
});

describe("options are refused at once", () => {
  test.each<[what: string, options: object, words: string]>([
    ["without an operation", { keyFrom: [0] }, "operation is missing"],
    ["with an empty operation", { operation: "", keyFrom: [0] }, "operation is empty"],
    [
      "with a number as operation",
      { operation: 7, keyFrom: [0] },
      "operation is a number; it must be a string",
    ],
    ["with neither key nor keyFrom", { operation: "charge" }, "exactly one of key"],
    [
      "with both key and keyFrom",
      { operation: "charge", key: () => "a", keyFrom: [0] },
      "exactly one of key",
    ],
    ["with a string as key", { operation: "charge", key: "42" }, 'key is "42"; it must be a function'],
    ["with an empty scope", { operation: "charge", keyFrom: [0], scope: "" }, "scope is empty"],
    [
      "with a number as scope",
      { operation: "charge", keyFrom: [0], scope: 7 },
      "scope is a number; it must be a string",
    ],
    [
      "with a fingerprint that is not a function",
      { operation: "charge", keyFrom: [0], fingerprint: { a: 1 } },
      "fingerprint is an object",
    ],
    ["with an invalid policy", { operation: "charge", keyFrom: [0], waitMs: "1s" }, 'waitMs is "1s"'],
    ...["leaseMs", "maxRunMs", "retentionMs", "storeTimeoutMs", "waitMs"].flatMap((name) =>
      [-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, "1s", null].map((value): [string, object, string] => [
        `with ${JSON.stringify(value)} as ${name}`,
        { operation: "charge", keyFrom: [0], [name]: value },
        `${name} is `,
      ]),
    ),
    ["with no lease", { operation: "charge", keyFrom: [0], leaseMs: 0 }, "leaseMs is 0"],
    ["with no retention", { operation: "charge", keyFrom: [0], retentionMs: 0 }, "retentionMs is 0"],
    ["with an unknown option", { operation: "charge", keyFrom: [0], ttl: 1 }, '"ttl"'],
    ["with an empty domain", { operation: "charge", domain: "", keyFrom: [0] }, "domain must be a string"],
    [
      "with a colon in its domain",
      { operation: "charge", domain: "a:b", keyFrom: [0] },
      "domain must be a string without a colon",
    ],
    ["with a number as domain", { operation: "charge", domain: 7, keyFrom: [0] }, "domain must be a string"],
    [
      "with a domain and an operation of 1,025 bytes together",
      { operation: "o".repeat(1_000), domain: "d".repeat(24), keyFrom: [0] },
      "operation with its domain has 1025 bytes",
    ],
    ["with a domain and no operation", { domain: "billing", keyFrom: [0] }, "operation is missing"],
    [
      "with an operation of 1,025 bytes",
      { operation: "o".repeat(1_025), keyFrom: [0] },
      "operation has 1025 bytes",
    ],
    [
      "with a scope that is not well-formed",
      { operation: "charge", keyFrom: [0], scope: "\ud800" },
      "scope contains a lone surrogate",
    ],
  ])("%s", (_, options, words) => {
    expect(() => guard.wrap(() => 1, untyped(options))).toThrow(failure("options-invalid", words));
  });

  test.each([undefined, null])("with %o as options", (options) => {
    expect(() => guard.wrap(() => 1, untyped(options))).toThrow(failure("options-invalid"));
  });

  test.each<[what: string, keyFrom: unknown]>([
    ["no array", "0"],
    ["no paths", []],
    ["a negative position", [-1]],
    ["a negative position as a string", ["-1"]],
    ["a name without a position", ["orderId"]],
    ["an empty path", [""]],
    ["an empty member", ["0."]],
    ["an empty member inside", ["0..id"]],
    ["a leading dot", [".id"]],
    ["a space", [" 0"]],
    ["brackets", ["0[id]"]],
    ["NaN", [Number.NaN]],
    ["Infinity", [Number.POSITIVE_INFINITY]],
    ["null", [null]],
    ["undefined", [undefined]],
    ["a list", [["0"]]],
    ["an object", [{}]],
    ["an invalid path after a valid one", [0, "id"]],
    ["a fraction", [1.5]],
  ])("with a keyFrom that has %s", (_, keyFrom) => {
    expect(() => guard.wrap(() => 1, untyped({ operation: "charge", keyFrom }))).toThrow(
      failure("options-invalid", 'keyFrom must list argument positions and paths, e.g. [0, "1.orderId"].'),
    );
  });

  const bound = function (this: unknown, a: string, b: string) {
    return a + b;
  }.bind(undefined);

  test.each<[what: string, work: (...args: never[]) => unknown, count: string]>([
    ["an arrow", (a: unknown) => a, "1 parameter"],
    ["an arrow with two parameters", new Function("return (a, b) => a")(), "2 parameters"],
    ["a bare arrow", new Function("return a => a")(), "1 parameter"],
    ["a bare async arrow", new Function("return async a=>a")(), "1 parameter"],
    ["an async arrow", async (a: unknown) => a, "1 parameter"],
    [
      "a function",
      function charge(a: unknown) {
        return a;
      },
      "1 parameter",
    ],
    ["an async function", new Function("return async function charge(a,) {}")(), "1 parameter"],
    ["a method", { charge: (a: unknown) => a }.charge, "1 parameter"],
    ["an async method", new Function("return { async charge($a) {} }.charge")(), "1 parameter"],
    ["a generated function", new Function("a", "return a") as never, "1 parameter"],
  ])("with a position for which %s has no parameter", (_, work, count) => {
    for (const path of [2, "2", "2.id", "12.id", ...(count === "1 parameter" ? [1, "1.id"] : [])])
      expect(() => wrap(guard, work, untyped({ operation: "charge", keyFrom: [path] }))).toThrow(
        failure("options-invalid", `keyFrom has ${JSON.stringify(path)}, but the function has ${count}`),
      );
    wrap(guard, work, untyped({ operation: "charge", keyFrom: [0, "0.id"] }));
  });

  test.each<[what: string, work: (...args: never[]) => unknown]>([
    ["no parameters", () => 1],
    ["a default", (a: string, b = "b") => a + b],
    ["a default that is a list of names", new Function("return (a, b = (c, d)) => a")()],
    ["a rest parameter", (a: string, ...more: string[]) => a + more],
    ["a destructured parameter", ({ id }: Order) => id],
    ["a destructured parameter with a default", new Function("return ({ id } = { id: 1 }) => id")()],
    ["use of arguments", new Function("return function (a) { return arguments[1] }")()],
    ["a comment", new Function("return (a /* , b) */, b = 1) => a")()],
    ["a computed name", new Function('return { ["f(a)"](a, b = 1) {} }["f(a)"]')()],
    ["a quoted name", new Function('return { "f(a)"(a, b = 1) {} }["f(a)"]')()],
    ["letters beyond ASCII", new Function("return (é, b = 1) => é")()],
    ["no source, since it is bound", bound],
    ["no source, since it is native", Math.max],
    ["no source, since it is a proxy", new Proxy((a: string) => a, {})],
  ])("but not with a position that may exist: %s", (_, work) => {
    wrap(guard, work, untyped({ operation: "charge", keyFrom: [1, "9.id"] }));
  });

  test.each([undefined, null, "fn", {}])("and so is %o as the function", (work) => {
    expect(() => guard.wrap(untyped(work), { operation: "charge", key: () => "42" })).toThrow(
      failure("options-invalid", "the function to wrap is "),
    );
  });
});

describe("a wrapped function", () => {
  test("has its own policies", async () => {
    const options = { operation: "charge", key: () => "42" } as const;
    const replaying = guard.wrap(() => 1, options);
    const rejecting = guard.wrap(() => 2, { ...options, onCompleted: "reject" });
    expect(await replaying()).toBe(1);
    await expect(rejecting()).rejects.toEqual(failure("already-done"));
    expect(await replaying()).toBe(1);
  });

  test("shares its keys with every other function with the same operation, and with run", async () => {
    const first = guard.wrap((id: string) => `first ${id}`, { operation: "charge", keyFrom: [0] });
    const second = guard.wrap((id: string) => `second ${id}`, { operation: "charge", keyFrom: [0] });
    const other = guard.wrap((id: string) => `other ${id}`, { operation: "refund", keyFrom: [0] });
    expect(await first("42")).toBe("first 42");
    expect(await second("42")).toBe("first 42");
    expect(await guard.run({ operation: "charge", key: "42" }, () => "run")).toBe("first 42");
    expect(await other("42")).toBe("other 42");
  });

  test("runs once for concurrent calls", async () => {
    let runs = 0;
    const charge = guard.wrap(async (id: string) => `${id} ${++runs}`, { operation: "charge", keyFrom: [0] });
    expect(await Promise.all([charge("42"), charge("42"), charge("42")])).toEqual(["42 1", "42 1", "42 1"]);
  });

  test("needs no this", async () => {
    const { wrap: detached } = guard;
    const work = function (this: unknown, id: string) {
      return [this === undefined, id];
    };
    const charge = detached(work, { operation: "charge", keyFrom: [0] });
    expect(await Reflect.apply(charge, { some: "object" }, ["42"])).toEqual([true, "42"]);
  });

  test("receives all its arguments unchanged", async () => {
    const order = { id: "42", amount: 1 };
    let seen: unknown[] = [];
    const charge = guard.wrap(
      (...args: unknown[]) => {
        seen = args;
      },
      { operation: "charge", key: () => "42" },
    );
    await charge(order, undefined, "more");
    expect(seen).toEqual([order, undefined, "more"]);
    expect(seen[0]).toBe(order);
  });

  test("computes key, scope and fingerprint once, before the work: work that mutates its arguments changes nothing", async () => {
    const computed: string[] = [];
    const noted = <T>(what: string, value: T): T => {
      computed.push(what);
      return value;
    };
    const options: WrapOptions<[Order]> = {
      operation: "charge",
      key: (order) => noted("key", order.id),
      scope: () => noted("scope", "customer-7"),
      fingerprint: (order) => noted("fingerprint", { amount: order.amount }),
    };
    const charge = guard.wrap(async (order: Order) => {
      computed.push("work");
      order.id = "changed";
      order.amount = 0;
      return "charged";
    }, options);
    expect(await charge({ id: "42", amount: 1 })).toBe("charged");
    expect(computed).toEqual(["key", "scope", "fingerprint", "work"]);
    expect(await charge({ id: "42", amount: 1 })).toBe("charged");
    await expect(charge({ id: "42", amount: 2 })).rejects.toEqual(failure("conflict"));
    expect(await guard.read({ operation: "charge", scope: "customer-7", key: "changed" })).toBeUndefined();
  });

  test("always returns a promise, even if it throws at once", async () => {
    const charge = guard.wrap(
      (): number => {
        throw new Error("declined");
      },
      { operation: "charge", key: () => "42" },
    );
    const answer = charge();
    expect(answer).toBeInstanceOf(Promise);
    await expect(answer).rejects.toThrow("declined");
  });

  test("is typed by its arguments and by what it resolves to", () => {
    const sync = guard.wrap((id: string, times: number) => id.repeat(times), {
      operation: "a",
      key: (id, times) => `${id}${times}`,
    });
    expectTypeOf(sync).toEqualTypeOf<(id: string, times: number) => Promise<string>>();
    const async = guard.wrap(async (order: Order) => order.amount, { operation: "a", keyFrom: ["0.id"] });
    expectTypeOf(async).toEqualTypeOf<(order: Order) => Promise<number>>();
    expectTypeOf<WrapOptions<[Order]>["key"]>().toExtend<((order: Order) => unknown) | undefined>();
    // @ts-expect-error the key function receives the arguments unchanged.
    guard.wrap((id: string) => id, { operation: "a", key: (id: number) => String(id) });
    // @ts-expect-error a path starts with a position.
    expect(() => guard.wrap((order: Order) => order, { operation: "a", keyFrom: ["id"] })).toThrow();
    // @ts-expect-error an operation is required.
    expect(() => guard.wrap((order: Order) => order, { keyFrom: [0] })).toThrow();
  });
});
