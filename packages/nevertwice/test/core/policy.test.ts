/**
 * Tests every option and every part of a request: what is accepted, what is refused, and that no invalid value
 * reaches a store.
 */
import { describe, expect, test } from "vitest";
import { GUARD_DEFAULTS, type GuardOptions } from "../../src/core/engine.ts";
import type { ErrorCode } from "../../src/core/errors.ts";
import { compositeKey } from "../../src/core/key.ts";
import { mergePolicy, POLICY_CHECKS, POLICY_DEFAULTS, type PolicyOptions } from "../../src/core/policy.ts";
import type { RunRequest } from "../../src/core/request.ts";
import type { Store } from "../../src/core/store.ts";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { type MemoryStoreOptions, memoryStore } from "../../src/stores/memory.ts";

const REQUEST = { operation: "charge", key: "order-42" } as const;
/** Options as JavaScript passes them, without a type check. */
const untyped = (options: object) => options as never;
const guardWith = (options: object): Guard =>
  createGuard({ store: memoryStore(), purgeEveryMs: 0, ...options } as GuardOptions);
const failure = (code: ErrorCode, words = "") =>
  expect.objectContaining({ code, message: expect.stringContaining(words) });

describe("the defaults", () => {
  test("of the policies", () => {
    expect(POLICY_DEFAULTS).toEqual({
      onCompleted: "replay",
      onPending: "wait",
      waitMs: 10_000,
      onFailure: "release",
      onUnavailable: "refuse",
      onLapsed: "takeover",
      reconcile: undefined,
      retentionFrom: "completion",
      retentionMs: 24 * 60 * 60 * 1_000,
      markRetentionMs: 60_000,
      leaseMs: 30_000,
      maxRunMs: 15 * 60 * 1_000,
      transactionMs: 30_000,
      storeTimeoutMs: 5_000,
      completeWaitMs: 1_000,
      maxOutcomeBytes: 1_024 * 1_024,
      maxSteps: 100,
    });
  });

  test("of a guard", () => {
    expect(GUARD_DEFAULTS).toEqual({ namespace: "default", purgeEveryMs: 60_000, drainMs: 30_000 });
  });

  test("have one check each, and every check has a default", () => {
    expect(Object.keys(POLICY_CHECKS).sort()).toEqual(Object.keys(POLICY_DEFAULTS).sort());
  });
});

const WORDS: readonly [name: string, allowed: readonly string[], message: string][] = [
  ["onCompleted", ["replay", "reject"], 'it must be "replay" or "reject".'],
  ["onPending", ["wait", "reject"], 'it must be "wait" or "reject".'],
  ["onFailure", ["release", "remember", "unknown"], 'it must be "release" or "remember" or "unknown".'],
  ["onUnavailable", ["refuse", "proceed"], 'it must be "refuse" or "proceed".'],
  ["onLapsed", ["takeover", "hold"], 'it must be "takeover" or "hold".'],
  ["retentionFrom", ["completion", "claim"], 'it must be "completion" or "claim".'],
];
const WHOLE: readonly [name: string, least: number][] = [
  ["waitMs", 0],
  ["retentionMs", 1],
  ["markRetentionMs", 1],
  ["leaseMs", 10],
  ["maxRunMs", 1],
  ["transactionMs", 100],
  ["storeTimeoutMs", 1],
  ["completeWaitMs", 0],
  ["maxOutcomeBytes", 64],
  ["maxSteps", 1],
];
const GUARD_WHOLE: readonly [name: string, least: number][] = [...WHOLE, ["purgeEveryMs", 0], ["drainMs", 0]];
const HUNDRED_YEARS_MS = 3_155_760_000_000;
const NO_WORDS = ["", "REPLAY", " replay", "always", 0, 1, true, null, Number.NaN, [], {}];
const NO_NUMBERS: readonly [value: unknown, shown: string][] = [
  [Number.NaN, "NaN"],
  [Number.POSITIVE_INFINITY, "Infinity"],
  ["1000", '"1000"'],
  ["", '""'],
  [null, "null"],
  [true, "true"],
  [1_000n, "1000"],
  [[1_000], "an object"],
  [{}, "an object"],
  [new Date(1_000), "an object"],
  [-1_000, "-1000"],
  [1_000.5, "1000.5"],
  [HUNDRED_YEARS_MS + 1, "3155760000001"],
  [Number.MAX_VALUE, "1.7976931348623157e+308"],
];

/** Expects every way of passing a policy to refuse this value, at once or with the call. */
async function expectRefused(name: string, value: unknown, message: string): Promise<void> {
  const refused = failure("options-invalid", message);
  const options = { [name]: value };
  const guard = guardWith({});
  expect(() => guardWith(options)).toThrow(refused);
  expect(() => guard.wrap(() => 1, untyped({ operation: "charge", keyFrom: [0], ...options }))).toThrow(
    refused,
  );
  await expect(guard.run({ ...REQUEST, ...options }, () => 1)).rejects.toEqual(refused);
}

describe("an option with a fixed set of values", () => {
  test.each(WORDS)("%s accepts %j", (name, allowed) => {
    for (const word of allowed) {
      expect(mergePolicy(POLICY_DEFAULTS, { [name]: word })).toEqual({ ...POLICY_DEFAULTS, [name]: word });
      guardWith({ [name]: word });
    }
  });

  test.each(WORDS)("%s accepts nothing else", async (name, allowed, message) => {
    for (const value of [...NO_WORDS, `${allowed[0]}s`]) await expectRefused(name, value, message);
    await expectRefused(name, "always", `${name} is "always"; ${message}`);
    await expectRefused(name, null, `${name} is null; ${message}`);
  });

  test("onFailure may be a function instead", async () => {
    const guard = guardWith({ onFailure: () => "remember" });
    const failing = () => guard.run(REQUEST, () => Promise.reject(new Error("declined")));
    await expect(failing()).rejects.toThrow("declined");
    await expect(guard.run(REQUEST, () => "not run")).rejects.toThrow("declined");
  });
});

describe("an option that is a whole number", () => {
  test.each(GUARD_WHOLE)("%s accepts whole numbers from %i to a hundred years", (name, least) => {
    for (const value of [least, least + 1, HUNDRED_YEARS_MS]) {
      void guardWith({ purgeEveryMs: 0, [name]: value }).close();
    }
  });

  test.each(WHOLE)(
    "%s refuses numbers below %i, fractions, strings and more than a hundred years",
    async (name, least) => {
      const message = `it must be a whole number from ${least} to 3155760000000.`;
      await expectRefused(name, least - 1, `${name} is ${least - 1}; ${message}`);
      for (const [value, shown] of NO_NUMBERS)
        await expectRefused(name, value, `${name} is ${shown}; ${message}`);
    },
  );

  test.each([
    ["purgeEveryMs", 0],
    ["drainMs", 0],
  ])("%s refuses the same values below %i, and is an option of a guard only", async (name, least) => {
    for (const [value, shown] of [[least - 1, "-1"], ...NO_NUMBERS]) {
      expect(() => guardWith({ [name]: value })).toThrow(failure("options-invalid", `${name} is ${shown};`));
    }
    await expect(guardWith({}).run({ ...REQUEST, [name]: 1_000 }, () => 1)).rejects.toEqual(
      failure("options-invalid", `there is no option called "${name}".`),
    );
  });
});

describe("an option that is a function", () => {
  test.each(["yes", null, {}, 7, true])("reconcile refuses %o", async (value) => {
    await expectRefused("reconcile", value, "reconcile is ");
  });

  test.each(["yes", null, {}, 7, true])("observer refuses %o", (value) => {
    expect(() => guardWith({ observer: value })).toThrow(failure("options-invalid", "observer is "));
  });
});

describe("createGuard", () => {
  test.each<[what: string, options: unknown]>([
    ["no options", undefined],
    ["null", null],
    ["text", "memory"],
    ["options without a store", {}],
    ["an undefined store", { store: undefined }],
  ])("refuses a missing store: %s", (_, options) => {
    expect(() => createGuard(options as GuardOptions)).toThrow(
      failure("options-invalid", "store is missing"),
    );
  });

  test("refuses a store without every method, and names the missing ones", () => {
    const { renew: _, purge: __, ...partial } = memoryStore();
    expect(() => guardWith({ store: partial })).toThrow(
      failure("options-invalid", "store is not a store: it lacks renew, purge."),
    );
    for (const store of [null, {}, 7]) {
      expect(() => guardWith({ store })).toThrow(
        failure("options-invalid", "it lacks claim, complete, abandon, renew, read, purge, close."),
      );
    }
  });

  test.each<[what: string, namespace: unknown]>([
    ["a number", 7],
    ["null", null],
    ["1,025 bytes", "n".repeat(1_025)],
    ["a lone surrogate", "\ud800"],
    ["an empty string", ""],
  ])("refuses a namespace that is %s", (_, namespace) => {
    expect(() => guardWith({ namespace })).toThrow(failure("options-invalid", "namespace "));
  });
});

describe("the memory store", () => {
  test.each([[0, "0"], ...NO_NUMBERS])("refuses a maxRecords of %o", (maxRecords, shown) => {
    expect(() => memoryStore(untyped({ maxRecords }))).toThrow(
      failure(
        "options-invalid",
        `maxRecords is ${shown}; it must be a whole number from 1 to 3155760000000.`,
      ),
    );
  });

  test.each([null, {}, 7, "clock", { now: 7 }, Date.now])("refuses a clock that is %o", (clock) => {
    expect(() => memoryStore({ clock } as unknown as MemoryStoreOptions)).toThrow(
      failure("options-invalid", "clock must be an object with a now()"),
    );
  });

  test("treats undefined as not given", () => {
    expect(() => memoryStore(untyped({ clock: undefined, maxRecords: undefined }))).not.toThrow();
  });
});

describe("an unknown option is refused", () => {
  test.each(["leaseMS", "timeoutMs", "constructor", "hasOwnProperty", "fingerprint"])(
    "by createGuard: %s",
    (name) => {
      expect(() => guardWith({ [name]: 1 })).toThrow(
        failure("options-invalid", `there is no option called "${name}".`),
      );
    },
  );

  test.each(["leaseMS", "store", "namespace", "observer", "toString"])("by run: %s", async (name) => {
    await expect(guardWith({}).run({ ...REQUEST, [name]: 1 }, () => 1)).rejects.toEqual(
      failure("options-invalid", `there is no option called "${name}".`),
    );
  });

  test.each(["leaseMS", "store", "signal", "keys"])("by wrap: %s", (name) => {
    const options = untyped({ operation: "charge", keyFrom: [0], [name]: 1 });
    expect(() => guardWith({}).wrap(() => 1, options)).toThrow(
      failure("options-invalid", `there is no option called "${name}".`),
    );
  });

  test.each(["maxRecord", "leaseMs"])("by memoryStore: %s", (name) => {
    expect(() => memoryStore(untyped({ [name]: 1 }))).toThrow(
      failure("options-invalid", `there is no option called "${name}".`),
    );
  });

  test("even if it is inherited; known options may be inherited", async () => {
    expect(() => createGuard(Object.create({ store: memoryStore(), leaseMS: 1 }))).toThrow(
      failure("options-invalid", 'there is no option called "leaseMS".'),
    );
    const guard = createGuard(
      Object.create({ store: memoryStore(), purgeEveryMs: 0, onCompleted: "reject" }),
    );
    await guard.run(REQUEST, () => 1);
    expect(await guard.tryRun(REQUEST, () => 2)).toEqual({ status: "already-done" });
  });
});

describe("an option that is undefined counts as not given", () => {
  const nothing: PolicyOptions = Object.fromEntries(
    Object.keys(POLICY_DEFAULTS).map((name) => [name, undefined]),
  );

  test("by the policies", () => {
    expect(mergePolicy(POLICY_DEFAULTS, nothing)).toBe(POLICY_DEFAULTS);
  });

  test("by a guard, which uses its default, and by a call, which uses its guard's value", async () => {
    const guard = guardWith({
      ...nothing,
      namespace: undefined,
      observer: undefined,
      drainMs: undefined,
      onCompleted: "reject",
    });
    await guard.run(
      { ...REQUEST, ...nothing, scope: undefined, fingerprint: undefined, signal: undefined },
      () => 1,
    );
    expect(await guard.tryRun({ ...REQUEST, ...nothing }, () => 2)).toEqual({ status: "already-done" });
  });

  test("even under an unknown name", () => {
    expect(() => guardWith({ leaseMS: undefined })).not.toThrow();
  });
});

test("a call's policy applies to that call only", async () => {
  const guard = guardWith({ onCompleted: "reject" });
  await guard.run(REQUEST, () => 1);
  expect(await guard.run({ ...REQUEST, onCompleted: "replay" }, () => 2)).toBe(1);
  expect(await guard.tryRun(REQUEST, () => 3)).toEqual({ status: "already-done" });
});

describe("options that contradict each other are refused", () => {
  const reconcile = async () => ({ status: "not-done" }) as const;
  const together = failure(
    "options-invalid",
    'onUnavailable: "proceed" and onLapsed: "hold" contradict each other.',
  );
  const needsHold = failure(
    "options-invalid",
    'reconcile is only called for held claims: it needs onLapsed: "hold".',
  );

  test("by a guard", () => {
    expect(() => guardWith({ onLapsed: "hold", onUnavailable: "proceed" })).toThrow(together);
    expect(() => guardWith({ reconcile })).toThrow(needsHold);
    expect(() => guardWith({ reconcile, onLapsed: "takeover" })).toThrow(needsHold);
    expect(() => guardWith({ reconcile, onLapsed: "hold" })).not.toThrow();
  });

  test.each<[what: string, guard: PolicyOptions, call: PolicyOptions, refusal: unknown]>([
    [
      "a call that proceeds on a guard that holds",
      { onLapsed: "hold" },
      { onUnavailable: "proceed" },
      together,
    ],
    [
      "a call that holds on a guard that proceeds",
      { onUnavailable: "proceed" },
      { onLapsed: "hold" },
      together,
    ],
    ["a call that does both", {}, { onLapsed: "hold", onUnavailable: "proceed" }, together],
    ["a call that reconciles without holding", {}, { reconcile }, needsHold],
    [
      "a call that takes over and reconciles",
      { onLapsed: "hold" },
      { onLapsed: "takeover", reconcile },
      needsHold,
    ],
  ])("by the call: %s", async (_, options, call, refusal) => {
    await expect(guardWith(options).run({ ...REQUEST, ...call }, () => 1)).rejects.toEqual(refusal);
  });

  test("but a call may override the guard's option that would contradict", async () => {
    expect(await guardWith({ onLapsed: "hold" }).run({ ...REQUEST, reconcile }, () => 1)).toBe(1);
    const asking = guardWith({ onLapsed: "hold", reconcile });
    expect(await asking.run({ ...REQUEST, onLapsed: "takeover" }, () => 1)).toBe(1);
    const proceeding = guardWith({ onUnavailable: "proceed" });
    expect(await proceeding.run({ ...REQUEST, onUnavailable: "refuse", onLapsed: "hold" }, () => 1)).toBe(1);
  });

  test("by wrap, at once, if its own options contradict each other", () => {
    const options = {
      operation: "charge",
      keyFrom: [0],
      onLapsed: "hold",
      onUnavailable: "proceed",
    } as const;
    expect(() => guardWith({}).wrap((id: string) => id, options)).toThrow(together);
  });
});

/** A memory store that counts its calls. */
function countingStore(): { store: Store; calls: () => number } {
  let calls = 0;
  const store = new Proxy(memoryStore(), {
    get(target, name) {
      const member = Reflect.get(target, name);
      if (typeof member !== "function") return member;
      return (...args: unknown[]) => {
        calls++;
        return Reflect.apply(member, target, args);
      };
    },
  });
  return { store, calls: () => calls };
}

const BAD_REQUESTS: readonly [what: string, request: unknown, code: ErrorCode, words: string][] = [
  ["no request", undefined, "options-invalid", "must be an object"],
  ["null", null, "options-invalid", "must be an object"],
  ["text", "order-42", "options-invalid", "must be an object"],
  ["no key", { operation: "charge" }, "key-missing", "no key"],
  ["an undefined key", { ...REQUEST, key: undefined }, "key-missing", "no key"],
  ["a null key", { ...REQUEST, key: null }, "key-missing", "no key"],
  ["an empty key", { ...REQUEST, key: "" }, "key-missing", "no key"],
  ["a key object with empty text", { ...REQUEST, key: compositeKey("") }, "key-missing", "no key"],
  [
    "an object with a text member that is not a key",
    { ...REQUEST, key: { text: "order-42" } },
    "key-invalid",
    "key is an object",
  ],
  ["a number as key", { ...REQUEST, key: 42 }, "key-invalid", "key is a number"],
  ["zero as key", { ...REQUEST, key: 0 }, "key-invalid", "key is a number"],
  ["NaN as key", { ...REQUEST, key: Number.NaN }, "key-invalid", "key is a number"],
  ["false as key", { ...REQUEST, key: false }, "key-invalid", "key is a boolean"],
  ["a bigint as key", { ...REQUEST, key: 42n }, "key-invalid", "key is a bigint"],
  ["a symbol as key", { ...REQUEST, key: Symbol("k") }, "key-invalid", "key is a symbol"],
  ["an object as key", { ...REQUEST, key: {} }, "key-invalid", "key is an object"],
  ["an array as key", { ...REQUEST, key: ["order-42"] }, "key-invalid", "key is an object"],
  ["a key of 1,025 bytes", { ...REQUEST, key: "k".repeat(1_025) }, "key-invalid", "key has 1025 bytes"],
  [
    "a key with a lone surrogate",
    { ...REQUEST, key: "\ud800" },
    "key-invalid",
    "key contains a lone surrogate",
  ],
  ["an empty scope", { ...REQUEST, scope: "" }, "scope-missing", "scope is empty"],
  ["a null scope", { ...REQUEST, scope: null }, "scope-missing", "scope is empty"],
  ["a number as scope", { ...REQUEST, scope: 7 }, "options-invalid", "scope is a number"],
  [
    "a scope of 1,025 bytes",
    { ...REQUEST, scope: "s".repeat(1_025) },
    "options-invalid",
    "scope has 1025 bytes",
  ],
  ["no operation", { key: "order-42" }, "options-invalid", "operation is missing"],
  ["an empty operation", { ...REQUEST, operation: "" }, "options-invalid", "operation is missing"],
  ["a null operation", { ...REQUEST, operation: null }, "options-invalid", "operation is null"],
  ["a number as operation", { ...REQUEST, operation: 7 }, "options-invalid", "operation is a number"],
  [
    "an operation of 1,025 bytes",
    { ...REQUEST, operation: "o".repeat(1_025) },
    "options-invalid",
    "operation has 1025",
  ],
  [
    "a fingerprint that is not JSON",
    { ...REQUEST, fingerprint: { at: new Date(0) } },
    "fingerprint-invalid",
    "fingerprint.at",
  ],
  [
    "a signal that is not an AbortSignal",
    { ...REQUEST, signal: { aborted: false } },
    "options-invalid",
    "signal must be an AbortSignal",
  ],
  ["a null signal", { ...REQUEST, signal: null }, "options-invalid", "signal must be an AbortSignal"],
  ["an invalid policy", { ...REQUEST, waitMs: -1 }, "options-invalid", "waitMs is -1"],
  ["an unknown option", { ...REQUEST, tenant: "x" }, "options-invalid", '"tenant"'],
];

describe("a bad request is rejected before it reaches the store or the work", () => {
  test.each(BAD_REQUESTS)("%s", async (_, request, code, words) => {
    const { store, calls } = countingStore();
    const guard = guardWith({ store });
    let runs = 0;
    for (const ask of [guard.run, guard.tryRun]) {
      await expect(ask(request as RunRequest, () => runs++)).rejects.toEqual(failure(code, words));
    }
    expect([calls(), runs]).toEqual([0, 0]);
  });

  test.each([undefined, null, "work", {}, Promise.resolve(1)])("%o as the work", async (work) => {
    const { store, calls } = countingStore();
    await expect(guardWith({ store }).run(REQUEST, untyped(work as object))).rejects.toEqual(
      failure("options-invalid", "the work is "),
    );
    expect(calls()).toBe(0);
  });

  test("and so are the subjects of read, resolve and forget", async () => {
    const { store, calls } = countingStore();
    const guard = guardWith({ store });
    const subject = { operation: "charge", key: "" };
    await expect(guard.read(subject)).rejects.toEqual(failure("key-missing"));
    await expect(guard.forget(subject)).rejects.toEqual(failure("key-missing"));
    await expect(guard.forget({ scope: "" })).rejects.toEqual(failure("scope-missing"));
    await expect(guard.resolve({ ...subject, fence: 1 }, { status: "not-done" })).rejects.toEqual(
      failure("key-missing"),
    );
    await expect(guard.read({ ...REQUEST, scope: "" })).rejects.toEqual(failure("scope-missing"));
    expect(calls()).toBe(0);
  });

  test("while a valid one makes two round trips: a claim and a completion", async () => {
    const { store, calls } = countingStore();
    await guardWith({ store }).run(REQUEST, () => 1);
    expect(calls()).toBe(2);
  });
});

test("a fingerprint of null differs from every other fingerprint", async () => {
  const guard = guardWith({});
  await guard.run({ ...REQUEST, fingerprint: null }, () => 1);
  expect(await guard.run({ ...REQUEST, fingerprint: null }, () => 2)).toBe(1);
  expect(await guard.tryRun({ ...REQUEST, fingerprint: 0 }, () => 3)).toEqual({
    status: "conflict",
    state: "completed",
  });
});
