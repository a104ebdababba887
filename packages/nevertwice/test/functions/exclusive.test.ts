/**
 * Tests locks in virtual time: which caller holds one, for how long, and what the holder learns when the lock is
 * lost.
 */
import { describe, expect, expectTypeOf, test } from "vitest";
import { type ErrorCode, isNevertwiceError, NevertwiceError } from "../../src/core/errors.ts";
import { compositeKey } from "../../src/core/key.ts";
import { reserved } from "../../src/core/reserved.ts";
import { type ExclusiveOptions, exclusive, type Lock } from "../../src/functions/exclusive.ts";
import { createScene, type Scene } from "../core/scene.ts";
import { deferred } from "../deferred.ts";

const LEASE_MS = 30_000;
const SUBJECT = { ...reserved("exclusive"), key: "report" };

const failure = (code: ErrorCode, words = "") =>
  expect.objectContaining({ code, message: expect.stringContaining(words) });

/** A section that lasts until the test ends it; `entered` resolves with its lock. */
function holding(scene: Scene, options: ExclusiveOptions = {}, engine = scene.guard) {
  const { promise: entered, resolve: enter } = deferred<Lock>();
  const { promise: work, resolve: leave, reject: fail } = deferred<unknown>();
  const ended = exclusive(
    engine,
    "report",
    (lock) => {
      enter(lock);
      return work;
    },
    options,
  );
  ended.catch(() => {});
  work.catch(() => {});
  return { entered: scene.settle(entered), ended, leave: (value?: unknown) => leave(value), fail };
}

class Connection {
  readonly #open = true;
  isOpen = () => this.#open;
}

describe("the work", () => {
  test("receives the lock, and its value is returned unchanged, whatever it is", async () => {
    const scene = createScene();
    const connection = new Connection();
    const seen: unknown[] = [];
    const got = await scene.settle(
      exclusive(scene.guard, "report", (lock) => {
        seen.push(lock.name, lock.fence > 0, lock.owned(), lock.signal.aborted);
        return connection;
      }),
    );
    expect(got).toBe(connection);
    expect(seen).toEqual(["report", true, true, false]);
    const close = () => "closed";
    expect(await scene.settle(exclusive(scene.guard, "report", () => close))).toBe(close);
    expect(await scene.settle(exclusive(scene.guard, "report", async () => undefined))).toBeUndefined();
  });

  test("runs again each time: no outcome is stored, and each fence is higher than the one before", async () => {
    const scene = createScene();
    const fences: number[] = [];
    for (let i = 0; i < 5; i++)
      await scene.settle(exclusive(scene.guard, "report", ({ fence }) => fences.push(fence)));
    expect(fences).toHaveLength(5);
    expect(fences).toEqual([...new Set(fences)].sort((a, b) => a - b));
    expect(await scene.guard.read(SUBJECT)).toMatchObject({ state: "released" });
    expect(scene.kinds()).not.toContain("completed");
  });

  test("that throws rejects with the same error, and frees the lock at once", async () => {
    const scene = createScene();
    const error = new RangeError("no paper");
    const failing = exclusive(scene.guard, "report", () => Promise.reject(error));
    await expect(scene.settle(failing)).rejects.toBe(error);
    const nothing = exclusive(scene.guard, "report", () => Promise.reject());
    await expect(scene.settle(nothing)).rejects.toBeUndefined();
    expect(await scene.settle(exclusive(scene.guard, "report", () => "next", { waitMs: 0 }))).toBe("next");
  });

  test("that throws frees the lock even if the guard remembers failures or treats them as unknown", async () => {
    for (const onFailure of ["remember", "unknown"] as const) {
      const scene = createScene({ onFailure, onLapsed: "hold" });
      const failing = exclusive(scene.guard, "report", () => Promise.reject(new Error("no paper")));
      await expect(scene.settle(failing)).rejects.toThrow("no paper");
      expect(await scene.settle(exclusive(scene.guard, "report", () => "next", { waitMs: 0 }))).toBe("next");
    }
  });
});

describe("a second caller", () => {
  test("enters as soon as the first has left, and never before", async () => {
    const scene = createScene();
    const first = holding(scene);
    const { fence } = await first.entered;
    const second = holding(scene, {}, scene.another());
    let isIn = false;
    void second.entered.then(() => {
      isIn = true;
    });
    await scene.advance(5_000);
    expect(isIn).toBe(false);
    const leftAt = scene.world.now();
    first.leave("first");
    expect((await second.entered).fence).toBeGreaterThan(fence);
    // The release woke the waiter: a poll would have come seconds later.
    expect(scene.world.now() - leftAt).toBeLessThan(1_000);
    second.leave("second");
    expect(await scene.settle(Promise.all([first.ended, second.ended]))).toEqual(["first", "second"]);
  });

  test("gets pending, with the lock's name, if it did not enter within waitMs", async () => {
    const scene = createScene();
    const first = holding(scene);
    await first.entered;
    const startedAt = scene.world.now();
    const second = exclusive(scene.another(), "report", () => "never", { waitMs: 2_000 });
    await expect(scene.settle(second)).rejects.toEqual(failure("pending", 'the lock "report" is held'));
    await expect(second).rejects.toMatchObject({ retryable: true });
    expect(scene.world.now() - startedAt).toBeGreaterThanOrEqual(2_000);
  });

  test("does not wait with waitMs 0, and the guard's onPending does not apply", async () => {
    const scene = createScene({ onPending: "reject", waitMs: 5_000 });
    const first = holding(scene);
    await first.entered;
    const startedAt = scene.world.now();
    const second = exclusive(scene.guard, "report", () => "never", { waitMs: 0 });
    await expect(scene.settle(second)).rejects.toEqual(failure("pending"));
    expect(scene.world.now()).toBe(startedAt);
    // Without its own waitMs it waits as long as the guard's policy says.
    const third = exclusive(scene.guard, "report", () => "never");
    await expect(scene.settle(third)).rejects.toEqual(failure("pending"));
    expect(scene.world.now() - startedAt).toBeGreaterThanOrEqual(5_000);
  });

  test("inside the first also waits: a lock is not re-entrant", async () => {
    const scene = createScene();
    const nested = exclusive(scene.guard, "report", () =>
      exclusive(scene.guard, "report", () => "never", { waitMs: 100 }),
    );
    await expect(scene.settle(nested)).rejects.toEqual(failure("pending"));
    expect(await scene.settle(exclusive(scene.guard, "report", () => "free", { waitMs: 0 }))).toBe("free");
  });

  test("with another name, scope or namespace is not blocked; with the same composite name it is", async () => {
    const scene = createScene();
    const order = compositeKey("order", 7);
    const inside = (lock: Lock) => {
      const others = [
        exclusive(scene.guard, compositeKey("order", "7"), () => "other name", { waitMs: 0 }),
        exclusive(scene.guard, order, () => "other scope", { waitMs: 0, scope: "tenant" }),
        exclusive(scene.another({ namespace: "other" }), order, () => "other namespace", { waitMs: 0 }),
        exclusive(scene.guard, lock.name, () => "same", { waitMs: 0 }).catch((error) => error.code),
      ];
      return Promise.all(others);
    };
    expect(await scene.settle(exclusive(scene.guard, order, inside))).toEqual([
      "other name",
      "other scope",
      "other namespace",
      "pending",
    ]);
  });

  test("is independent of work with the same name that run guards", async () => {
    const scene = createScene();
    const done = { operation: "exclusive", key: "report" };
    await scene.settle(scene.guard.run(done, () => "kept"));
    expect(await scene.settle(exclusive(scene.guard, "report", () => "ran", { waitMs: 0 }))).toBe("ran");
    expect(await scene.settle(scene.guard.run(done, () => "again"))).toBe("kept");
  });

  test("does not run if something else was recorded under the lock's own name, and the error says how to free it", async () => {
    const scene = createScene();
    const failed = { ...SUBJECT, key: "failed", onFailure: "remember" } as const;
    await scene.settle(scene.guard.run(SUBJECT, () => "done"));
    await scene.settle(scene.guard.run(failed, () => Promise.reject(new Error("failed"))).catch(() => {}));
    for (const { key } of [SUBJECT, failed]) {
      const locked = () => scene.settle(exclusive(scene.guard, key, () => "ran", { waitMs: 0 }));
      await expect(locked()).rejects.toEqual(failure("conflict", "reopen { operation:"));
      await scene.settle(scene.guard.reopen({ ...SUBJECT, key }));
      expect(await locked()).toBe("ran");
    }
    const held = { ...SUBJECT, key: "held", onLapsed: "hold", onFailure: "unknown" } as const;
    await scene.settle(scene.guard.run(held, () => Promise.reject(new Error("cut off"))).catch(() => {}));
    const locked = () => scene.settle(exclusive(scene.guard, "held", () => "ran", { waitMs: 0 }));
    await expect(locked()).rejects.toEqual(failure("conflict", "forget { operation:"));
    await scene.settle(scene.guard.forget({ ...SUBJECT, key: "held" }));
    expect(await locked()).toBe("ran");
  });
});

describe("a holder that keeps its lock", () => {
  test("keeps it beyond its lease, which is renewed while the work runs", async () => {
    const scene = createScene();
    const first = holding(scene);
    const lock = await first.entered;
    await scene.advance(10 * LEASE_MS);
    expect(lock.owned()).toBe(true);
    const second = exclusive(scene.another(), "report", () => "never", { waitMs: 0 });
    await expect(scene.settle(second)).rejects.toEqual(failure("pending"));
    first.leave("long");
    expect(await scene.settle(first.ended)).toBe("long");
  });

  test("may extend it: the lease counts from then on", async () => {
    const scene = createScene();
    const first = holding(scene);
    const lock = await first.entered;
    // The automatic renewals fail; the one that the holder requests succeeds.
    scene.store.plan("renew", "refuse");
    await scene.advance(LEASE_MS / 3 + 1);
    expect(await scene.settle(lock.extend())).toBe(true);
    for (let i = 0; i < 20; i++) scene.store.plan("renew", "refuse");
    await scene.advance(LEASE_MS * 0.89);
    expect(lock.owned()).toBe(true);
    await scene.advance(LEASE_MS * 0.02);
    expect(lock.owned()).toBe(false);
  });

  test("gets unavailable from extend if the store does not answer, and still owns the lock", async () => {
    const scene = createScene();
    const first = holding(scene, { storeTimeoutMs: 500 });
    const lock = await first.entered;
    scene.store.plan("renew", "hang");
    await expect(scene.settle(lock.extend())).rejects.toEqual(failure("unavailable", 'the lock "report"'));
    expect(lock.owned()).toBe(true);
    first.leave("fine");
    expect(await scene.settle(first.ended)).toBe("fine");
  });

  test("gets the store's own error from extend if no retry can help", async () => {
    const scene = createScene();
    const first = holding(scene);
    const lock = await first.entered;
    const refused = new NevertwiceError("options-invalid", "the worker's file is missing.");
    Object.assign(scene.store, { renew: () => Promise.reject(refused) });
    await expect(scene.settle(lock.extend())).rejects.toBe(refused);
    first.leave("fine");
    expect(await scene.settle(first.ended)).toBe("fine");
  });

  test("gets its value even if the store does not answer at the end: by its own clock it was alone", async () => {
    const scene = createScene();
    const first = holding(scene, { storeTimeoutMs: 500 });
    await first.entered;
    scene.store.plan("renew", "hang");
    scene.store.plan("abandon", "refuse");
    first.leave("fine");
    expect(await scene.settle(first.ended)).toBe("fine");
    // The release continues in the background.
    const next = exclusive(scene.another(), "report", () => "next", { waitMs: 5_000 });
    expect(await scene.settle(next)).toBe("next");
  });

  test("no longer owns it once its work has ended", async () => {
    const scene = createScene();
    const first = holding(scene);
    const lock = await first.entered;
    first.leave("done");
    await scene.settle(first.ended);
    expect(lock.owned()).toBe(false);
    const before = scene.store.calls.renew;
    expect(await scene.settle(lock.extend())).toBe(false);
    expect(scene.store.calls.renew).toBe(before);
  });

  test("gets false from extend if its work ended in the meantime", async () => {
    const scene = createScene();
    const first = holding(scene);
    const lock = await first.entered;
    scene.store.plan("renew", "delay-reply");
    const extended = lock.extend();
    first.leave("done");
    expect(await scene.settle(Promise.all([first.ended, extended]))).toEqual(["done", false]);
  });

  test("calls owned without a store call", async () => {
    const scene = createScene();
    const first = holding(scene);
    const lock = await first.entered;
    const before = { ...scene.store.calls };
    for (let i = 0; i < 10; i++) lock.owned();
    expect(scene.store.calls).toEqual(before);
  });
});

/** Loses all renewals until the lease has ended, as when a process is paused or cut off. */
async function loseLease(scene: Scene): Promise<void> {
  for (let i = 0; i < 20; i++) scene.store.plan("renew", "hang");
  await scene.advance(LEASE_MS + 1);
}

describe("a holder that lost its lock", () => {
  test("is notified: its signal has fired, owned is false, and extend returns false without a store call", async () => {
    const scene = createScene();
    const lock = await holding(scene).entered;
    expect(lock.signal.aborted).toBe(false);
    await loseLease(scene);
    expect(lock.signal.aborted).toBe(true);
    expect(lock.owned()).toBe(false);
    const before = scene.store.calls.renew;
    expect(await scene.settle(lock.extend())).toBe(false);
    expect(scene.store.calls.renew).toBe(before);
  });

  test("does not own it from the moment its lease ends, before any timer could fire", async () => {
    const scene = createScene();
    let startedAt = 0;
    const now = scene.world.now;
    const ended = exclusive(scene.guard, "report", (lock) => {
      startedAt = now();
      // A blocked event loop: time passes, and nothing else happens.
      scene.world.now = () => startedAt + LEASE_MS;
      const isOwned = lock.owned();
      scene.world.now = now;
      return isOwned;
    });
    expect(await scene.settle(ended)).toBe(false);
  });

  test("gets lease-lost whatever its work did, with the work's own error as the cause", async () => {
    const scene = createScene();
    const returned = holding(scene);
    await returned.entered;
    await loseLease(scene);
    returned.leave("too late");
    await expect(scene.settle(returned.ended)).rejects.toEqual(
      failure("lease-lost", 'the lock "report" was lost before its work ended'),
    );

    const other = createScene();
    const threw = holding(other);
    await threw.entered;
    await loseLease(other);
    const error = new RangeError("no paper");
    threw.fail(error);
    const lost = await other.settle(threw.ended).catch((thrown: unknown) => thrown);
    expect(isNevertwiceError(lost, "lease-lost")).toBe(true);
    expect((lost as Error).cause).toBe(error);
  });

  test("frees it when its work ends, if no other caller took it in the meantime", async () => {
    for (const end of ["leave", "fail"] as const) {
      const scene = createScene();
      const first = holding(scene);
      await first.entered;
      await loseLease(scene);
      first[end](new Error("late"));
      await expect(scene.settle(first.ended)).rejects.toEqual(failure("lease-lost"));
      expect(await scene.guard.read(SUBJECT)).toMatchObject({ state: "released" });
    }
  });

  test("does not free the lock of the guard that took it over", async () => {
    const scene = createScene();
    const first = holding(scene);
    await first.entered;
    await loseLease(scene);
    const second = holding(scene, {}, scene.another());
    await second.entered;
    first.leave("too late");
    await expect(scene.settle(first.ended)).rejects.toEqual(failure("lease-lost"));
    const third = exclusive(scene.another(), "report", () => "never", { waitMs: 0 });
    await expect(scene.settle(third)).rejects.toEqual(failure("pending"));
    second.leave("fine");
    expect(await scene.settle(second.ended)).toBe("fine");
  });

  test("gets lease-lost from the store at its end, even if its own clock did not notice", async () => {
    const scene = createScene();
    const first = holding(scene);
    const lock = await first.entered;
    scene.jump(LEASE_MS + 1);
    const second = holding(scene, {}, scene.another());
    await second.entered;
    expect(lock.owned()).toBe(true);
    first.leave("too late");
    await expect(scene.settle(first.ended)).rejects.toEqual(failure("lease-lost"));
  });

  test("gets false from extend, which then fires the signal", async () => {
    const scene = createScene();
    const lock = await holding(scene).entered;
    scene.jump(LEASE_MS + 1);
    await holding(scene, {}, scene.another()).entered;
    expect(await scene.settle(lock.extend())).toBe(false);
    expect([lock.owned(), lock.signal.aborted]).toEqual([false, true]);
  });

  test("loses it after maxRunMs, so that work that hangs does not hold it for ever", async () => {
    const scene = createScene();
    const first = holding(scene, { maxRunMs: 60_000, leaseMs: 10_000 });
    const lock = await first.entered;
    await scene.advance(60_001);
    expect([lock.owned(), lock.signal.aborted]).toEqual([false, true]);
    const next = exclusive(scene.another(), "report", () => "next", { waitMs: 15_000 });
    expect(await scene.settle(next)).toBe("next");
    first.leave("hung");
    await expect(scene.settle(first.ended)).rejects.toEqual(failure("lease-lost"));
  });
});

test("late-writer: only the fence stops an old holder that wakes up after its lease", async () => {
  const scene = createScene();
  /** Accepts a line only if its fence is not lower than the highest fence so far. */
  const ledger = {
    highest: 0,
    lines: [] as string[],
    write(line: string, fence: number) {
      if (fence < this.highest) throw new Error(`fence ${fence} is lower than ${this.highest}`);
      this.highest = fence;
      this.lines.push(line);
    },
  };
  const old = holding(scene);
  const paused = await old.entered;
  ledger.write("old, in time", paused.fence);
  // The old holder's process is paused: it still believes that it holds the lock.
  scene.jump(LEASE_MS + 1);
  await scene.settle(
    exclusive(scene.another(), "report", ({ fence }) => {
      ledger.write("new", fence);
    }),
  );
  expect(paused.owned()).toBe(true);
  expect(() => ledger.write("old, late", paused.fence)).toThrow("is lower than");
  expect(ledger.lines).toEqual(["old, in time", "new"]);
});

describe("a holder that dies", () => {
  test("keeps the others out until its lease has ended, and not longer, even on a guard with onLapsed hold", async () => {
    const scene = createScene({ onLapsed: "hold", reconcile: async () => ({ status: "unknown" }) });
    // Its claim is neither renewed nor given up.
    for (let i = 0; i < 20; i++) scene.store.plan("renew", "hang");
    const first = holding(scene, { leaseMs: 10_000 });
    const { fence } = await first.entered;
    const claimedAt = scene.world.now();
    const next = exclusive(scene.another(), "report", (lock) => lock.fence, { waitMs: 60_000 });
    expect(await scene.settle(next)).toBeGreaterThan(fence);
    const takenAfterMs = scene.world.now() - claimedAt;
    expect(takenAfterMs).toBeGreaterThanOrEqual(10_000);
    expect(takenAfterMs).toBeLessThan(12_000);
  });
});

describe("a store that cannot answer", () => {
  test("means no lock and no work, even with onUnavailable proceed", async () => {
    const scene = createScene({ onUnavailable: "proceed", storeTimeoutMs: 500 });
    for (let i = 0; i < 3; i++) scene.store.plan("claim", "refuse");
    let runs = 0;
    const locked = exclusive(scene.guard, "report", () => ++runs);
    await expect(scene.settle(locked)).rejects.toEqual(failure("unavailable"));
    expect(runs).toBe(0);
  });

  test("is waited for as long as storeTimeoutMs says", async () => {
    const scene = createScene();
    scene.store.plan("claim", "hang");
    scene.store.plan("claim", "hang");
    const startedAt = scene.world.now();
    const locked = exclusive(scene.guard, "report", () => "never", { storeTimeoutMs: 100 });
    await expect(scene.settle(locked)).rejects.toEqual(failure("unavailable"));
    expect(scene.world.now() - startedAt).toBeLessThan(1_000);
  });
});

describe("a caller that cancels", () => {
  test("while it waits gets its own reason, and no lock", async () => {
    const scene = createScene();
    const first = holding(scene);
    await first.entered;
    const caller = new AbortController();
    let runs = 0;
    const waiting = exclusive(scene.another(), "report", () => ++runs, { signal: caller.signal });
    waiting.catch(() => {});
    await scene.advance(100);
    const reason = new Error("gone home");
    caller.abort(reason);
    await expect(scene.settle(waiting)).rejects.toBe(reason);
    first.leave();
    await scene.settle(first.ended);
    await scene.advance(10_000);
    expect(runs).toBe(0);
  });

  test("while its work runs gets its own reason, and the lock is held until the work ends", async () => {
    const scene = createScene();
    const caller = new AbortController();
    const first = holding(scene, { signal: caller.signal });
    const lock = await first.entered;
    caller.abort(new Error("gone home"));
    await expect(scene.settle(first.ended)).rejects.toThrow("gone home");
    expect([lock.owned(), lock.signal.aborted]).toEqual([true, false]);
    const locked = () => exclusive(scene.another(), "report", () => "next", { waitMs: 0 });
    await expect(scene.settle(locked())).rejects.toEqual(failure("pending"));
    first.leave();
    await scene.advance(100);
    expect(await scene.settle(locked())).toBe("next");
  });
});

test("a guard that closes waits for the work, then fires its signal", async () => {
  const scene = createScene({ drainMs: 1_000 });
  const first = holding(scene);
  const lock = await first.entered;
  const closed = scene.guard.close();
  expect(await scene.settle(closed)).toEqual([
    expect.objectContaining({ operation: "nevertwice:exclusive", fence: lock.fence }),
  ]);
  expect([lock.owned(), lock.signal.aborted]).toEqual([false, true]);
  first.leave();
  await expect(scene.settle(first.ended)).rejects.toEqual(failure("lease-lost"));
  await expect(scene.settle(exclusive(scene.guard, "report", () => 1))).rejects.toEqual(
    failure("guard-closed"),
  );
});

describe("invalid arguments are refused before anything is claimed", () => {
  test.each<[what: string, options: unknown, words: string]>([
    ["a wait of -1", { waitMs: -1 }, "waitMs is -1"],
    ["a wait of NaN", { waitMs: Number.NaN }, "waitMs is NaN"],
    ["a lease of 0", { leaseMs: 0 }, "leaseMs is 0"],
    ["a lease of 10.5", { leaseMs: 10.5 }, "leaseMs is 10.5"],
    ["a run of 0", { maxRunMs: 0 }, "maxRunMs is 0"],
    ["a string as duration", { storeTimeoutMs: "5s" }, 'storeTimeoutMs is "5s"'],
    ["a signal that is not an AbortSignal", { signal: {} }, "signal must be an AbortSignal"],
    ["a policy that a lock does not have", { onUnavailable: "proceed" }, '"onUnavailable"'],
    ["a fingerprint", { fingerprint: 1 }, '"fingerprint"'],
    ["a retention", { retentionMs: 1_000 }, '"retentionMs"'],
    ["an unknown option", { ttl: 5 }, '"ttl"'],
    ["null as options", null, "the options are null"],
  ])("%s", async (_, options, words) => {
    const scene = createScene();
    const locked = exclusive(scene.guard, "report", () => 1, options as ExclusiveOptions);
    await expect(locked).rejects.toEqual(failure("options-invalid", words));
    expect(scene.store.calls.claim).toBe(0);
  });

  test.each<[what: string, name: unknown, code: ErrorCode]>([
    ["no name", undefined, "key-missing"],
    ["an empty name", "", "key-missing"],
    ["null", null, "key-missing"],
    ["a number", 7, "key-invalid"],
    ["an object that is not a key", { text: 7 }, "key-invalid"],
    ["a name of 1,025 bytes", "n".repeat(1_025), "key-invalid"],
  ])("%s", async (_, name, code) => {
    const scene = createScene();
    await expect(exclusive(scene.guard, name as string, () => 1)).rejects.toEqual(failure(code, "lock"));
  });

  test("work that is not a function, and an empty scope", async () => {
    const scene = createScene();
    await expect(exclusive(scene.guard, "report", "work" as never)).rejects.toEqual(
      failure("options-invalid", "the work is "),
    );
    await expect(exclusive(scene.guard, "report", () => 1, { scope: "" })).rejects.toEqual(
      failure("scope-missing"),
    );
  });
});

test("exclusive is typed by what the work resolves to", () => {
  const scene = createScene();
  expectTypeOf(exclusive(scene.guard, "report", async (lock) => lock.fence)).resolves.toEqualTypeOf<number>();
  expectTypeOf(exclusive(scene.guard, "report", ({ name }) => name)).resolves.toEqualTypeOf<string>();
});
