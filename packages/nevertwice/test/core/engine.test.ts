/** Tests what callers see of the engine when nothing goes wrong, and when work fails. */
import { expect, test } from "vitest";
import { createGuard } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { createScene } from "./scene.ts";

const request = { operation: "charge", scope: "alice", key: "order-1" };

test("runs the work once and returns its value to every later call", async () => {
  const { guard } = createScene();
  let runs = 0;
  const work = async () => ({ receipt: ++runs });
  expect(await guard.run(request, work)).toEqual({ receipt: 1 });
  expect(await guard.run(request, work)).toEqual({ receipt: 1 });
  expect(await guard.tryRun(request, work)).toEqual({ status: "replayed", value: { receipt: 1 } });
  expect(runs).toBe(1);
});

test("makes two round trips for a first call and one for a replay", async () => {
  const { guard, store } = createScene();
  await guard.run(request, () => 1);
  expect(store.calls).toMatchObject({ claim: 1, complete: 1, read: 0, renew: 0, abandon: 0, watch: 0 });
  await guard.run(request, () => 1);
  expect(store.calls).toMatchObject({ claim: 2, complete: 1, read: 0, renew: 0, abandon: 0, watch: 0 });
});

test("runs the work once for ten thousand concurrent calls with one key, and all get the same value", async () => {
  const guard = createGuard({ store: memoryStore() });
  let runs = 0;
  const work = async () => {
    runs++;
    await new Promise((resolve) => setTimeout(resolve, 10));
    return { run: runs };
  };
  const values = await Promise.all(Array.from({ length: 10_000 }, () => guard.run(request, work)));
  expect(runs).toBe(1);
  expect(values).toHaveLength(10_000);
  for (const value of values) expect(value).toEqual({ run: 1 });
  await guard.close();
});

test("keeps two keys, two scopes, two operations and two namespaces apart", async () => {
  const { guard, another } = createScene();
  let runs = 0;
  const work = () => ++runs;
  expect(await guard.run(request, work)).toBe(1);
  expect(await guard.run({ ...request, key: "order-2" }, work)).toBe(2);
  expect(await guard.run({ ...request, scope: "bob" }, work)).toBe(3);
  expect(await guard.run({ ...request, operation: "refund" }, work)).toBe(4);
  expect(await another({ namespace: "other" }).run(request, work)).toBe(5);
  expect(await another().run(request, work)).toBe(1);
});

test("refuses the same key with another fingerprint as a conflict, even while the work runs, and changes nothing", async () => {
  const { guard, sleep, advance, settle } = createScene();
  const first = guard.run({ ...request, fingerprint: { amount: 1 } }, async () => {
    await sleep(100);
    return "one";
  });
  await advance(10);
  const other = { ...request, fingerprint: { amount: 2 } };
  expect(await guard.tryRun(other, () => "two")).toEqual({ status: "conflict", state: "pending" });
  expect(await settle(first)).toBe("one");
  expect(await guard.tryRun(other, () => "two")).toEqual({ status: "conflict", state: "completed" });
  await expect(guard.run(other, () => "two")).rejects.toMatchObject({ code: "conflict", status: 422 });
  expect(await guard.run({ ...request, fingerprint: { amount: 1 } }, () => "again")).toBe("one");
});

test("computes key and fingerprint once, before the work: work that mutates its input changes neither", async () => {
  const { guard } = createScene();
  const order = { id: "o-1", amount: 5 };
  const call = { operation: "charge", key: order.id, fingerprint: order };
  await guard.run(call, () => {
    order.id = "o-2";
    order.amount = 9;
    return "done";
  });
  expect(
    await guard.run(
      { operation: "charge", key: "o-1", fingerprint: { id: "o-1", amount: 5 } },
      () => "again",
    ),
  ).toBe("done");
});

test("treats a guarded call inside a guarded call as two separate calls", async () => {
  const { guard } = createScene();
  let inner = 0;
  const outer = (failing: boolean) =>
    guard.run({ ...request, key: "outer" }, async () => {
      const value = await guard.run({ ...request, key: "inner" }, () => ++inner);
      if (failing) throw new Error("outer failed");
      return value;
    });
  await expect(outer(true)).rejects.toThrow("outer failed");
  expect(await outer(false)).toBe(1);
  expect(inner).toBe(1);
});

test("an inner attempt's notDone does not release the outer attempt", async () => {
  const { guard, inner } = createScene();
  await expect(
    guard.run({ ...request, key: "outer", onFailure: "unknown" }, () =>
      guard.run({ ...request, key: "inner" }, (attempt) => {
        throw attempt.notDone(new Error("declined"));
      }),
    ),
  ).rejects.toThrow("declined");
  const page = await inner.list?.({ namespace: "scene", limit: 10 });
  expect(page?.records.map(({ parts, state }) => [parts?.key, state]).sort()).toEqual([
    ["inner", "released"],
    ["outer", "lapsed"],
  ]);
});

test("onCompleted reject refuses a duplicate instead of replaying", async () => {
  const { guard } = createScene({ onCompleted: "reject" });
  expect(await guard.tryRun(request, () => 1)).toEqual({ status: "ran", value: 1, recorded: true });
  expect(await guard.tryRun(request, () => 2)).toEqual({ status: "already-done" });
  await expect(guard.run(request, () => 2)).rejects.toMatchObject({ code: "already-done" });
});

test("onPending reject returns at once with the remaining lease", async () => {
  const { guard, sleep, advance, settle } = createScene({ onPending: "reject", leaseMs: 1_000 });
  const first = guard.run(request, () => sleep(200));
  await advance(50);
  expect(await guard.tryRun(request, () => 2)).toEqual({
    status: "pending",
    leaseLeftMs: 950,
    elapsedMs: 50,
  });
  await settle(first);
});

test("returns pending to a waiter that runs out of time, and does not disturb the owner", async () => {
  const { guard, sleep, settle, world, kinds } = createScene({ waitMs: 100 });
  const first = guard.run(request, async () => {
    await sleep(500);
    return "mine";
  });
  await expect(settle(guard.run(request, () => "never"))).rejects.toMatchObject({
    code: "pending",
    retryable: true,
  });
  expect(world.now()).toBe(100);
  expect(await settle(first)).toBe("mine");
  expect(kinds()).toEqual(["claimed", "waited", "pending", "completed"]);
});

test("onFailure release: frees the key, throws the same error to the caller, and numbers the next attempt 2", async () => {
  const { guard, kinds } = createScene();
  const error = new TypeError("card declined");
  await expect(guard.run(request, () => Promise.reject(error))).rejects.toBe(error);
  const numbers: number[] = [];
  await guard.run(request, ({ number }) => numbers.push(number));
  expect(numbers).toEqual([2]);
  expect(kinds()).toEqual(["claimed", "abandoned", "claimed", "completed"]);
});

test("onFailure remember: replays the error with name, message and code, to the first caller too", async () => {
  const { guard } = createScene({ onFailure: "remember" });
  class Declined extends Error {
    override readonly name = "Declined";
    readonly code = "card_declined";
  }
  let runs = 0;
  const call = () =>
    guard.run(request, () => {
      runs++;
      throw new Declined("no funds", { cause: new Error("bank said no") });
    });
  for (let i = 0; i < 2; i++) {
    const error = await call().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Error);
    expect(error).not.toBeInstanceOf(Declined);
    expect(error).toMatchObject({
      name: "Declined",
      message: "no funds",
      code: "card_declined",
      cause: { message: "bank said no" },
    });
  }
  expect(runs).toBe(1);
});

test("the first caller's copy of a remembered error shows where it was thrown", async () => {
  const { guard } = createScene({ onFailure: "remember" });
  const original = new Error("here");
  const error = await guard.run(request, () => Promise.reject(original)).catch((thrown: Error) => thrown);
  expect(error).not.toBe(original);
  expect((error as Error).stack).toBe(original.stack);
});

test("onFailure unknown: the key lapses at once, and is taken over with a higher fence", async () => {
  const { guard, kinds } = createScene({ onFailure: "unknown" });
  const fences: number[] = [];
  await expect(
    guard.run(request, ({ fence }) => {
      fences.push(fence);
      throw new Error("timeout talking to the bank");
    }),
  ).rejects.toThrow("timeout talking to the bank");
  await guard.run(request, ({ fence }) => fences.push(fence));
  expect(fences[1]).toBeGreaterThan(fences[0] as number);
  expect(kinds()).toEqual(["claimed", "abandoned", "lapsed", "taken-over", "completed"]);
});

test("onFailure as a function decides for each error; if it throws, the outcome is unknown", async () => {
  const { guard } = createScene({
    onFailure: (error) => {
      if ((error as Error).message === "judge fails") throw new Error("broken judge");
      return (error as Error).message === "final" ? "remember" : "release";
    },
  });
  const fail = (key: string, message: string) =>
    guard
      .run({ ...request, key }, () => Promise.reject(new Error(message)))
      .catch((error: Error) => error.message);
  expect(await fail("a", "final")).toBe("final");
  expect((await guard.read({ ...request, key: "a" }))?.state).toBe("completed");
  expect(await fail("b", "later")).toBe("later");
  expect((await guard.read({ ...request, key: "b" }))?.state).toBe("released");
  expect(await fail("c", "judge fails")).toBe("judge fails");
  expect((await guard.read({ ...request, key: "c" }))?.state).toBe("lapsed");
});

test("notDone releases the key whatever onFailure says, and the caller gets the cause", async () => {
  const { guard } = createScene({ onFailure: "remember" });
  const cause = new Error("refused before anything happened");
  await expect(
    guard.run(request, (attempt) => {
      throw attempt.notDone(cause);
    }),
  ).rejects.toBe(cause);
  expect(await guard.run(request, () => "second")).toBe("second");
});

test("work whose outcome cannot be stored counts as done: the first caller gets the value, later ones get not-kept", async () => {
  const { guard, events } = createScene();
  class Session {}
  const session = new Session();
  let runs = 0;
  const work = () => {
    runs++;
    return session;
  };
  expect(await guard.run(request, work)).toBe(session);
  expect(await guard.tryRun(request, work)).toEqual({ status: "not-kept", reason: "not-encodable" });
  await expect(guard.run(request, work)).rejects.toMatchObject({ code: "not-kept" });
  expect(runs).toBe(1);
  expect(events).toContainEqual(
    expect.objectContaining({ kind: "not-kept", detail: expect.stringContaining("Session") }),
  );
});

test("a value over maxOutcomeBytes is neither stored nor run again; the store's own limit applies too", async () => {
  const { guard, inner, another } = createScene();
  const large = "x".repeat(200);
  expect(await guard.run({ ...request, maxOutcomeBytes: 100 }, () => large)).toBe(large);
  expect(await guard.tryRun(request, () => large)).toEqual({ status: "not-kept", reason: "too-large" });
  const limited = another({ store: { ...inner, maxOutcomeBytes: 64 } });
  const other = { ...request, key: "limited" };
  expect(await limited.run(other, () => large)).toBe(large);
  expect(await limited.tryRun(other, () => large)).toEqual({ status: "not-kept", reason: "too-large" });
});

test("work whose value has a getter that throws counts as done, not as failed", async () => {
  const { guard } = createScene();
  const odd = {
    get broken(): never {
      throw new Error("do not look");
    },
  };
  expect(await guard.run(request, () => odd)).toBe(odd);
  expect(await guard.tryRun(request, () => odd)).toEqual({ status: "not-kept", reason: "not-encodable" });
});

test("returns to the first caller what a replay returns: the value after its codec", async () => {
  const { guard } = createScene();
  const value = {
    bytes: Buffer.from([1, 2]),
    when: new Date(5),
    big: 10n,
    map: new Map([[{ a: 1 }, new Set([undefined])]]),
  };
  const first = await guard.run(request, () => value);
  const replayed = await guard.run(request, () => value);
  expect(first).not.toBe(value);
  expect(first.bytes.constructor).toBe(Uint8Array);
  expect(replayed).toEqual(first);
});

test("counts retention from completion by default, and from the claim if so configured", async () => {
  for (const [retentionFrom, isKeptAt] of [
    ["completion", true],
    ["claim", false],
  ] as const) {
    const { guard, sleep, settle, advance } = createScene({ retentionFrom, retentionMs: 1_000 });
    await settle(guard.run(request, () => sleep(600)));
    await advance(500);
    expect((await guard.read(request)) !== undefined).toBe(isKeptAt);
  }
});

test("replays an outcome until its retention ends, purged or not, and then starts the key afresh", async () => {
  const { guard, advance } = createScene({ retentionMs: 400 * 86_400_000 });
  await guard.run(request, () => "first");
  await advance(400 * 86_400_000 - 1);
  expect(await guard.run(request, () => "second")).toBe("first");
  await advance(1);
  const numbers: number[] = [];
  expect(
    await guard.run({ ...request, fingerprint: "other now" }, ({ number }) => {
      numbers.push(number);
      return "second";
    }),
  ).toBe("second");
  expect(numbers).toEqual([1]);
});

test("deriveKey returns the same key on every attempt, and a different key for a different name", async () => {
  const { guard } = createScene();
  const keys: string[] = [];
  await guard
    .run(request, (attempt) => {
      keys.push(attempt.deriveKey("psp"), attempt.deriveKey("mail"));
      throw new Error("once more");
    })
    .catch(() => {});
  await guard.run(request, (attempt) => keys.push(attempt.deriveKey("psp")));
  expect(keys[0]).toBe(keys[2]);
  expect(keys[1]).not.toBe(keys[0]);
});
