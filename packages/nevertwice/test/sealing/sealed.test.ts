/**
 * Tests that a sealed store seals every outcome when it is written, opens it when it is read, and otherwise behaves
 * like the inner store.
 */
import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { Attempt } from "../../src/core/attempt.ts";
import { createEngine, type GuardOptions } from "../../src/core/engine.ts";
import type { Store, StoreRecord } from "../../src/core/store.ts";
import { type SealingOptions, sealed } from "../../src/sealing/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { faultyStore } from "../../src/testing/faulty-store.ts";
import { createScene } from "../core/scene.ts";

const A = randomBytes(32);
const B = randomBytes(32);
const ONLY_A: SealingOptions = { keys: { a: A }, current: "a" };
const ONLY_B: SealingOptions = { keys: { b: B }, current: "b" };
const BOTH: SealingOptions = { keys: { a: A, b: B }, current: "b" };

const REQUEST = { operation: "charge", scope: "ann", key: "order-1" };

function guardOn(store: Store, options: Partial<GuardOptions> = {}) {
  return createEngine({ store, purgeEveryMs: 0, ...options });
}

async function recordsOf(store: Store): Promise<readonly StoreRecord[]> {
  const page = await store.list?.({ namespace: "default", limit: 100 });
  return page?.records ?? [];
}

async function onlyRecordOf(store: Store): Promise<StoreRecord> {
  const [record] = await recordsOf(store);
  return record as StoreRecord;
}

function deferred<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve = (_value: T) => {};
  const promise = new Promise<T>((end) => {
    resolve = end;
  });
  return { promise, resolve: (value) => resolve(value) };
}

/** Replaces the outcome that a memory store returns, as an attacker with write access to the database could. */
function tampering(inner: Store, outcomeOf: (id: string) => string | undefined): Store {
  const changed = (record: StoreRecord): StoreRecord => ({
    ...record,
    outcome: outcomeOf(record.id) ?? record.outcome,
  });
  return {
    ...inner,
    async claim(request) {
      const answer = await inner.claim(request);
      if (answer.status !== "completed") return answer;
      return { ...answer, outcome: outcomeOf(request.id) ?? answer.outcome };
    },
    async read(id) {
      const record = await inner.read(id);
      return record && changed(record);
    },
  };
}

describe("an outcome", () => {
  test("is sealed in the store, and is replayed, read and listed unsealed", async () => {
    const inner = memoryStore();
    const store = sealed(inner, ONLY_A);
    const guard = guardOn(store);
    const work = async () => ({ report: "the medical report of Ann", pages: 3n });
    const first = await guard.run(REQUEST, work);
    const kept = await onlyRecordOf(inner);
    expect(kept.outcome).toMatch(/^sealed\.1\.a\.[A-Za-z0-9_-]+$/);
    expect(Buffer.from(kept.outcome?.slice(11) ?? "", "base64url").toString("latin1")).not.toContain("Ann");
    expect(await guard.tryRun(REQUEST, work)).toEqual({ status: "replayed", value: first });
    const outcome = { kind: "value", value: { report: "the medical report of Ann", pages: 3n } };
    expect(await guard.read(REQUEST)).toMatchObject({ state: "completed", outcome });
    expect((await onlyRecordOf(store)).outcome).toContain("the medical report of Ann");
  });

  test("is sealed if it is a remembered error, or a marker for a value that cannot be stored", async () => {
    const inner = memoryStore();
    const guard = guardOn(sealed(inner, ONLY_A), { onFailure: "remember", maxOutcomeBytes: 300 });
    const declined = guard.run(REQUEST, async () => {
      throw new Error("card of Ann declined");
    });
    await expect(declined).rejects.toThrow("card of Ann declined");
    await expect(guard.run(REQUEST, async () => 1)).rejects.toThrow("card of Ann declined");
    const large = { ...REQUEST, key: "order-2" };
    await guard.run(large, async () => "x".repeat(1_000));
    expect(await guard.tryRun(large, async () => "again")).toEqual({
      status: "not-kept",
      reason: "too-large",
    });
    const kept = (await recordsOf(inner)).map(({ outcome }) => outcome?.slice(0, 11));
    expect(kept).toEqual(["sealed.1.a.", "sealed.1.a."]);
  });

  test("sealed with an old key opens as long as that key is configured, while new ones use the current key", async () => {
    const inner = memoryStore();
    await guardOn(sealed(inner, ONLY_A)).run(REQUEST, async () => "first");
    const guard = guardOn(sealed(inner, BOTH));
    expect(await guard.run(REQUEST, async () => "again")).toBe("first");
    await guard.run({ ...REQUEST, key: "order-2" }, async () => "second");
    const ids = (await recordsOf(inner)).map(({ outcome }) => outcome?.split(".")[2]);
    expect(ids.sort()).toEqual(["a", "b"]);
  });

  test("may be sealed with a key that was added while the guard was in use", async () => {
    let options = ONLY_A;
    const inner = memoryStore();
    const guard = guardOn(sealed(inner, () => options));
    await guard.run(REQUEST, async () => "first");
    options = BOTH;
    await guard.run({ ...REQUEST, key: "order-2" }, async () => "second");
    expect(await guard.run(REQUEST, async () => "again")).toBe("first");
    const ids = (await recordsOf(inner)).map(({ outcome }) => outcome?.split(".")[2]);
    expect(ids.sort()).toEqual(["a", "b"]);
  });

  test("that was forgotten reads as forgotten, although the store wrote the marker unsealed", async () => {
    const inner = memoryStore();
    const guard = guardOn(sealed(inner, ONLY_A));
    await guard.run(REQUEST, async () => "first");
    expect(await guard.forget(REQUEST)).toBe(true);
    expect((await guard.read(REQUEST))?.outcome).toEqual({ kind: "not-kept", reason: "forgotten" });
    expect(await guard.tryRun(REQUEST, async () => "again")).toEqual({
      status: "not-kept",
      reason: "forgotten",
    });
  });

  test("from before sealing is refused, and is replayed under acceptUnsealed", async () => {
    const inner = memoryStore();
    await guardOn(inner).run(REQUEST, async () => "first");
    const strict = guardOn(sealed(inner, ONLY_A));
    await expect(strict.run(REQUEST, async () => "again")).rejects.toMatchObject({ code: "sealing-failed" });
    const lenient = guardOn(sealed(inner, { ...ONLY_A, acceptUnsealed: true }));
    expect(await lenient.run(REQUEST, async () => "again")).toBe("first");
    await lenient.run({ ...REQUEST, key: "order-2" }, async () => "second");
    const kept = (await recordsOf(inner)).map(({ outcome }) => outcome?.startsWith("sealed."));
    expect(kept.sort()).toEqual([false, true]);
  });
});

describe("an outcome that does not open", () => {
  const elsewhere = async (): Promise<string> => {
    const inner = memoryStore();
    await guardOn(sealed(inner, ONLY_A)).run({ ...REQUEST, scope: "bob" }, async () => "the report of Bob");
    return (await onlyRecordOf(inner)).outcome as string;
  };

  const WAYS: readonly [string, (inner: Store) => Promise<Store> | Store][] = [
    ["its key is missing", (inner) => sealed(inner, ONLY_B)],
    ["its key has changed", (inner) => sealed(inner, { keys: { a: B }, current: "a" })],
    [
      "it was copied from another record",
      async (inner) => {
        const copied = await elsewhere();
        return sealed(
          tampering(inner, () => copied),
          ONLY_A,
        );
      },
    ],
    [
      "it was written without a key",
      (inner) =>
        sealed(
          tampering(inner, () => '["1vp","free"]'),
          ONLY_A,
        ),
    ],
    [
      "its keys cannot be read",
      (inner) => {
        let asked = 0;
        return sealed(inner, () => {
          if (asked++ > 0) throw new Error("the vault is closed");
          return ONLY_A;
        });
      },
    ],
  ];

  for (const onUnavailable of ["refuse", "proceed"] as const)
    test.each(WAYS)(
      `because %s throws sealing-failed and never runs the work again, under onUnavailable "${onUnavailable}"`,
      async (_why, wrong) => {
        const inner = memoryStore();
        await guardOn(sealed(inner, ONLY_A)).run(REQUEST, async () => "first");
        const before = await onlyRecordOf(inner);
        let runs = 0;
        const again = async () => ++runs;
        const guard = guardOn(await wrong(inner), { onUnavailable });
        await expect(guard.run(REQUEST, again)).rejects.toMatchObject({ code: "sealing-failed" });
        expect(await guard.tryRun(REQUEST, again)).toMatchObject({
          status: "unavailable",
          error: { code: "sealing-failed", status: 500, retryable: false },
        });
        await guard.close();
        expect(runs).toBe(0);
        expect(await onlyRecordOf(inner)).toEqual(before);
        expect(await guardOn(sealed(inner, ONLY_A)).tryRun(REQUEST, again)).toEqual({
          status: "replayed",
          value: "first",
        });
      },
    );

  test("reads as unreadable for an operator, and can be reopened or forgotten", async () => {
    const inner = memoryStore();
    await guardOn(sealed(inner, ONLY_A)).run(REQUEST, async () => "first");
    const guard = guardOn(sealed(inner, ONLY_B));
    expect(await guard.read(REQUEST)).toMatchObject({
      state: "completed",
      key: "order-1",
      outcome: { kind: "not-kept", reason: "unreadable" },
    });
    expect(await guard.reopen(REQUEST)).toBe(true);
    expect(await guard.run(REQUEST, async () => "second")).toBe("second");
    const lost = guardOn(sealed(inner, ONLY_A));
    expect(await lost.forget(REQUEST)).toBe(true);
    expect(await guard.tryRun(REQUEST, async () => "again")).toEqual({
      status: "not-kept",
      reason: "forgotten",
    });
  });

  test("does not prevent listing the rest of its page, nor forgetting its scope", async () => {
    const inner = memoryStore();
    await guardOn(sealed(inner, ONLY_A)).run(REQUEST, async () => "old");
    const store = sealed(inner, ONLY_B);
    const guard = guardOn(store);
    await guard.run({ ...REQUEST, key: "order-2" }, async () => "new");
    const outcomes = (await recordsOf(store)).map(({ outcome }) => outcome);
    expect(outcomes.sort()).toEqual(['["1np",{"reason":"unreadable"}]', '["1vp","new"]']);
    expect(await guard.forget({ scope: "ann" })).toEqual({ forgotten: 2, inFlight: 0 });
  });

  test("wakes its waiters at once, and they get the error", async () => {
    const inner = memoryStore();
    const waiting = guardOn(sealed(inner, ONLY_A));
    const { promise, resolve } = deferred<string>();
    const running = guardOn(sealed(inner, BOTH)).run(REQUEST, () => promise);
    await expect.poll(() => recordsOf(inner)).toHaveLength(1);
    const waiter = waiting.run({ ...REQUEST, waitMs: 60_000 }, async () => "again");
    resolve("first");
    expect(await running).toBe("first");
    await expect(waiter).rejects.toMatchObject({ code: "sealing-failed" });
  });
});

describe("work that was overtaken", () => {
  test("by an attempt whose outcome does not open here gets not-kept once, and nothing is retried for ever", async () => {
    const scene = createScene();
    const faulty = faultyStore(scene.inner, { timer: scene.world });
    const slow = scene.another({ store: sealed(faulty, ONLY_A), leaseMs: 1_000 });
    const other = scene.another({ store: sealed(scene.inner, BOTH) });
    const first = slow.tryRun(REQUEST, async () => {
      scene.jump(60_000);
      await other.run(REQUEST, async () => "of the other");
      return "of the slow one";
    });
    expect(await scene.settle(first)).toEqual({ status: "not-kept", reason: "unreadable" });
    const { complete, read } = faulty.calls;
    expect([complete, read]).toEqual([1, 1]);
    expect(scene.events.filter(({ kind }) => kind === "lease-lost")).toMatchObject([{ reason: "overtaken" }]);
    expect(scene.kinds()).not.toContain("unavailable");
    await scene.advance(600_000);
    expect(faulty.calls).toMatchObject({ complete: 1, read: 1 });
  });

  test("while it proceeded without a claim is reported as a possible duplicate, and nothing is retried for ever", async () => {
    const scene = createScene();
    const faulty = faultyStore(scene.inner, { timer: scene.world });
    for (let tries = 0; tries < 3; tries++) faulty.plan("claim", "refuse");
    const one = scene.another({ store: sealed(faulty, ONLY_A), onUnavailable: "proceed" });
    const other = scene.another({ store: sealed(scene.inner, BOTH) });
    const ran = one.tryRun(REQUEST, async () => {
      await other.run(REQUEST, async () => "of the other");
      return "mine";
    });
    expect(await scene.settle(ran)).toEqual({ status: "ran", value: "mine", recorded: false });
    expect(scene.kinds()).toContain("possible-duplicate");
    await scene.advance(600_000);
    expect(faulty.calls).toMatchObject({ claim: 4, complete: 1, read: 1 });
  });
});

describe("keys that cannot be read for a while", () => {
  test("refuse new work before it runs, and earlier work is recorded once they are back", async () => {
    const scene = createScene();
    let isVaultOpen = true;
    const guard = scene.another({
      store: sealed(scene.inner, () => {
        if (!isVaultOpen) throw new Error("the vault is closed");
        return ONLY_A;
      }),
    });
    const ran = guard.tryRun(REQUEST, async () => {
      isVaultOpen = false;
      return "first";
    });
    expect(await scene.settle(ran)).toEqual({ status: "ran", value: "first", recorded: false });
    let runs = 0;
    const refused = guard.tryRun({ ...REQUEST, key: "order-2" }, async () => ++runs);
    expect(await scene.settle(refused)).toMatchObject({ error: { code: "sealing-failed" } });
    expect(runs).toBe(0);
    isVaultOpen = true;
    await scene.advance(10_000);
    const again = guard.tryRun(REQUEST, async () => "again");
    expect(await scene.settle(again)).toEqual({ status: "replayed", value: "first" });
  });
});

describe("everything else", () => {
  /** A store as an application might write it: a class with private state and a getter. */
  class ClassStore implements Store {
    readonly #inner: Store = memoryStore();
    #limit: number | undefined = 1_000;
    readonly collectsItself = true;
    isMigrated = false;
    get maxOutcomeBytes(): number {
      return this.#limit as number;
    }
    setLimit(limit: number | undefined): void {
      this.#limit = limit;
    }
    async migrate(): Promise<void> {
      this.isMigrated = true;
    }
    claim: Store["claim"] = (request) => this.#inner.claim(request);
    complete(request: Parameters<Store["complete"]>[0]): Promise<boolean> {
      return this.#inner.complete(request);
    }
    abandon(request: Parameters<Store["abandon"]>[0]): Promise<boolean> {
      return this.#inner.abandon(request);
    }
    renew(request: Parameters<Store["renew"]>[0]): Promise<boolean> {
      return this.#inner.renew(request);
    }
    read(id: string): Promise<StoreRecord | undefined> {
      return this.#inner.read(id);
    }
    purge(limit: number): ReturnType<Store["purge"]> {
      return this.#inner.purge(limit);
    }
    close(): Promise<void> {
      return this.#inner.close();
    }
  }

  test("of a store passes through, also from its class, and what it lacks stays absent", async () => {
    const inner = new ClassStore();
    const store = sealed(inner, ONLY_A);
    await store.migrate();
    expect([inner.isMigrated, store.isMigrated, store.collectsItself]).toEqual([true, true, true]);
    for (const name of ["usesSignal", "watch", "list", "forget", "settings"])
      expect(name in store).toBe(false);
    const guard = guardOn(store);
    await guard.run(REQUEST, async () => "first");
    expect(await guard.run(REQUEST, async () => "again")).toBe("first");
  });

  test("of the memory store is passed through unchanged", async () => {
    const inner = memoryStore();
    const store = sealed(inner, ONLY_A);
    expect(Object.keys(store).sort()).toEqual(Object.keys(inner).sort());
    expect(await store.settings?.()).toEqual(await inner.settings?.());
  });

  test("is sealed in a copy of the store as well", async () => {
    const inner = memoryStore();
    const store = sealed(inner, ONLY_A);
    const copies = [
      { ...store },
      Object.defineProperties({} as Store, Object.getOwnPropertyDescriptors(store)),
    ];
    for (const [index, copy] of copies.entries())
      await guardOn(copy).run({ ...REQUEST, key: `order-${index}` }, async () => "secret");
    for (const { outcome } of await recordsOf(inner)) expect(outcome).toMatch(/^sealed\./);
  });

  test("leaves room for the seal within the store's current limit", async () => {
    const inner = new ClassStore();
    const store = sealed(inner, ONLY_A);
    const before = store.maxOutcomeBytes;
    expect(before).toBe(690);
    inner.setLimit(100_000);
    expect(store.maxOutcomeBytes).toBe(74_940);
    inner.setLimit(undefined);
    expect(store.maxOutcomeBytes).toBeUndefined();
    expect("maxOutcomeBytes" in sealed(memoryStore(), ONLY_A)).toBe(false);
    inner.setLimit(1_000);
    const guard = guardOn(store);
    expect(guard.policy.maxOutcomeBytes).toBe(690);
    await guard.run(REQUEST, async () => "x".repeat(900));
    expect(await guard.tryRun(REQUEST, async () => 1)).toEqual({ status: "not-kept", reason: "too-large" });
  });

  test("applies the policy's own limit to the plain text", async () => {
    const inner = memoryStore();
    const guard = guardOn(sealed(inner, ONLY_A), { maxOutcomeBytes: 100 });
    const text = "x".repeat(100 - '["1vp",""]'.length);
    await guard.run(REQUEST, async () => text);
    expect(await guard.run(REQUEST, async () => "again")).toBe(text);
  });
});

describe("sealed", () => {
  test("refuses a store that is already sealed, or a copy of one", () => {
    const store = sealed(memoryStore(), ONLY_A);
    for (const each of [store, { ...store }])
      expect(() => sealed(each, ONLY_B)).toThrow(expect.objectContaining({ code: "options-invalid" }));
  });

  test("refuses a value that is not a store, and invalid options", () => {
    for (const wrong of [undefined, null, {}, "memory:"])
      expect(() => sealed(wrong as unknown as Store, ONLY_A)).toThrow(
        expect.objectContaining({ code: "options-invalid" }),
      );
    expect(() => sealed(memoryStore(), { keys: { a: A }, current: "b" })).toThrow(
      expect.objectContaining({ code: "options-invalid" }),
    );
  });
});

describe("the outcomes of steps", () => {
  const failing = async (attempt: Attempt) => {
    await attempt.step("charge", () => "paid by card 4711");
    await attempt.step("ship", () => "sent");
    throw new Error("failed");
  };

  test("are sealed in the record, and opened for the next attempt and for read", async () => {
    const inner = memoryStore();
    const guard = guardOn(sealed(inner, ONLY_A));
    await expect(guard.run(REQUEST, failing)).rejects.toThrow("failed");
    expect(JSON.stringify(await onlyRecordOf(inner))).not.toContain("4711");
    const [step] = (await guard.read(REQUEST))?.steps ?? [];
    expect(step).toMatchObject({ name: "charge", outcome: { value: "paid by card 4711" } });
    const work = (attempt: Attempt) => attempt.step("charge", () => "again");
    expect(await guardOn(sealed(inner, BOTH)).run(REQUEST, work)).toBe("paid by card 4711");
  });

  test("that cannot be opened are not repeated", async () => {
    const inner = memoryStore();
    await expect(guardOn(sealed(inner, ONLY_A)).run(REQUEST, failing)).rejects.toThrow("failed");
    let isRun = false;
    const work = (attempt: Attempt) =>
      attempt.step("charge", () => {
        isRun = true;
      });
    await expect(guardOn(sealed(inner, ONLY_B)).run(REQUEST, work)).rejects.toMatchObject({
      code: "not-kept",
    });
    expect(isRun).toBe(false);
  });

  test("cannot be moved to another step", async () => {
    const inner = memoryStore();
    await expect(guardOn(sealed(inner, ONLY_A)).run(REQUEST, failing)).rejects.toThrow("failed");
    const swapped: Store = {
      ...inner,
      async claim(request) {
        const answer = await inner.claim(request);
        const [charge, ship] = (answer.status === "new" && answer.steps) || [];
        if (charge === undefined || ship === undefined) return answer;
        const steps = [
          { ...charge, outcome: ship.outcome },
          { ...ship, outcome: charge.outcome },
        ];
        return { ...answer, steps } as typeof answer;
      },
    };
    const work = (attempt: Attempt) => attempt.step("charge", () => "again");
    const run = guardOn(sealed(swapped, ONLY_A)).run(REQUEST, work);
    await expect(run).rejects.toMatchObject({ code: "not-kept" });
  });

  test("need a store that can keep steps", () => {
    const { keepStep: _, ...bare } = memoryStore();
    expect(sealed(bare as Store, ONLY_A).keepStep).toBeUndefined();
    expect(sealed(memoryStore(), ONLY_A).keepStep).toBeDefined();
  });
});
