/** Tests guards whose store refuses, hangs, or applies a step and loses its reply, before the work and after it. */
import { expect, test } from "vitest";
import { NevertwiceError } from "../../src/core/errors.ts";
import type { Store } from "../../src/core/store.ts";
import { createScene } from "./scene.ts";

const request = { operation: "charge", key: "order-1" };

test("a store that refuses: does not run the work, and throws unavailable with the cause", async () => {
  const { guard, store, settle, kinds } = createScene();
  for (let i = 0; i < 3; i++) store.plan("claim", "refuse");
  let runs = 0;
  const error = await settle(guard.run(request, () => runs++)).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: "unavailable", status: 503, retryable: true });
  expect((error as Error).cause).toMatchObject({ message: "faulty store: claim was refused" });
  expect(runs).toBe(0);
  expect(store.calls.claim).toBe(3);
  expect(kinds()).toEqual(["unavailable"]);
});

test("a store that fails once: claims again with the same token", async () => {
  const { guard, store, settle } = createScene();
  store.plan("claim", "refuse");
  expect(await settle(guard.run(request, () => "ran"))).toBe("ran");
});

test("a store that hangs: claims twice within storeTimeoutMs, and never blocks the caller", async () => {
  const { guard, store, settle, world } = createScene({ storeTimeoutMs: 100 });
  for (let i = 0; i < 9; i++) store.plan("claim", "hang");
  expect(await settle(guard.tryRun(request, () => 1))).toMatchObject({ status: "unavailable" });
  expect(store.calls.claim).toBe(2);
  expect(world.now()).toBe(100);
});

test.each(["lose-reply", "break-reply"] as const)(
  "%s on claim: recognises the repeated claim as its own, and runs the work once",
  async (fault) => {
    const { guard, store, settle } = createScene({ storeTimeoutMs: 100 });
    store.plan("claim", fault);
    const seen: number[] = [];
    expect(await settle(guard.run(request, ({ number }) => seen.push(number)))).toBe(1);
    expect(seen).toEqual([1]);
    expect(store.calls).toMatchObject({ claim: 2, complete: 1 });
  },
);

test("abandons a claim that timed out as unrun in the background, so the key is free when the store is back", async () => {
  const { guard, another, store, settle, advance } = createScene({ storeTimeoutMs: 50, leaseMs: 60_000 });
  store.plan("claim", "lose-reply");
  store.plan("claim", "hang");
  store.plan("abandon", "refuse");
  store.plan("abandon", "hang");
  expect(await settle(guard.tryRun(request, () => 1))).toMatchObject({ status: "unavailable" });
  await advance(2_000);
  expect(store.calls.abandon).toBe(3);
  expect((await guard.read(request))?.state).toBe("released");
  expect(await another().run(request, ({ number }) => number)).toBe(2);
});

test("abandons a grant that arrives after the claim timed out", async () => {
  const { guard, store, settle, advance } = createScene({ storeTimeoutMs: 10, leaseMs: 60_000 });
  store.plan("claim", "delay");
  store.plan("claim", "refuse");
  expect(await settle(guard.tryRun(request, () => 1))).toMatchObject({ status: "unavailable" });
  // The delayed claim is applied only now, after the first abandon found no claim.
  await advance(200);
  expect(store.calls.abandon).toBeGreaterThanOrEqual(1);
  expect((await guard.read(request))?.state ?? "absent").not.toBe("pending");
});

test("a store that is full has answered: it is not called again, and proceed does not apply", async () => {
  const { another, inner, settle } = createScene();
  let claims = 0;
  const full = {
    ...inner,
    claim: () => {
      claims++;
      return Promise.reject(new NevertwiceError("store-full", "no room"));
    },
  };
  const guard = another({ store: full, onUnavailable: "proceed" });
  let runs = 0;
  await expect(settle(guard.run(request, () => runs++))).rejects.toMatchObject({ code: "store-full" });
  expect({ claims, runs }).toEqual({ claims: 1, runs: 0 });
});

test("a store that throws unavailable has not answered: it is called again, and proceed applies", async () => {
  const { another, inner, settle } = createScene();
  let claims = 0;
  const busy: Store = {
    ...inner,
    claim(claim) {
      claims++;
      return claims <= 3
        ? Promise.reject(new NevertwiceError("unavailable", "lost too many races"))
        : inner.claim(claim);
    },
  };
  const guard = another({ store: busy, onUnavailable: "proceed" });
  expect(await settle(guard.tryRun(request, () => "ran"))).toEqual({
    status: "ran",
    value: "ran",
    recorded: true,
  });
  expect(claims).toBe(4);
});

test.each(["lose-reply", "break-reply", "refuse", "hang"] as const)(
  "%s on complete: the caller gets its value, and the outcome is recorded in the background",
  async (fault) => {
    const { guard, store, settle, advance, kinds, world } = createScene({ completeWaitMs: 100 });
    store.plan("complete", fault);
    expect(await settle(guard.tryRun(request, () => "value"))).toEqual({
      status: "ran",
      value: "value",
      recorded: false,
    });
    expect(world.now()).toBeLessThanOrEqual(100);
    await advance(1_000);
    expect(await guard.tryRun(request, () => "again")).toEqual({ status: "replayed", value: "value" });
    expect(kinds()).toEqual(["claimed", "unavailable", "completed", "replayed"]);
  },
);

test("retries a completion after the lease's end, and it is accepted if no other attempt took over", async () => {
  const { guard, store, settle, advance } = createScene({ leaseMs: 100, completeWaitMs: 10 });
  for (let i = 0; i < 8; i++) store.plan("complete", "refuse");
  await settle(guard.run(request, () => "value"));
  await advance(20_000);
  expect(store.calls.complete).toBe(9);
  expect(await guard.run(request, () => "again")).toBe("value");
});

test("completeWaitMs 0 answers without waiting for the store", async () => {
  const { guard, settle, advance } = createScene({ completeWaitMs: 0 });
  expect(await settle(guard.tryRun(request, () => 1))).toMatchObject({ status: "ran", recorded: false });
  await advance(10);
  expect(await guard.tryRun(request, () => 2)).toEqual({ status: "replayed", value: 1 });
});

test("a failure whose release is lost is released in the background", async () => {
  const { guard, store, settle, advance } = createScene({ completeWaitMs: 50 });
  store.plan("abandon", "hang");
  await expect(settle(guard.run(request, () => Promise.reject(new Error("no"))))).rejects.toThrow("no");
  await advance(5_000);
  expect((await guard.read(request))?.state).toBe("released");
});

test("a store that lost the record: returns the value as unrecorded, and reports it to the observer", async () => {
  const { guard, inner, sleep, settle, events } = createScene({ leaseMs: 60_000 });
  const run = guard.tryRun(request, async () => {
    await sleep(10);
    await inner.close();
    return "value";
  });
  expect(await settle(run)).toEqual({ status: "ran", value: "value", recorded: false });
  expect(events).toContainEqual(expect.objectContaining({ kind: "lease-lost", reason: "forgotten" }));
});

test("proceed: runs the work without a claim and with fence 0, then claims and completes the key", async () => {
  const { guard, store, settle, kinds } = createScene({ onUnavailable: "proceed" });
  for (let i = 0; i < 3; i++) store.plan("claim", "refuse");
  const seen: number[] = [];
  expect(
    await settle(
      guard.tryRun(request, ({ fence }) => {
        seen.push(fence);
        return "value";
      }),
    ),
  ).toEqual({ status: "ran", value: "value", recorded: true });
  expect(seen).toEqual([0]);
  expect(await guard.tryRun(request, () => "again")).toEqual({ status: "replayed", value: "value" });
  expect(kinds()).toEqual(["unavailable", "proceeded", "completed", "replayed"]);
});

test("proceed: reports a possible duplicate to the observer if the key turns out to be completed", async () => {
  const { guard, another, store, settle, events } = createScene({ onUnavailable: "proceed" });
  await settle(another().run(request, () => "other"));
  for (let i = 0; i < 3; i++) store.plan("claim", "refuse");
  expect(await settle(guard.tryRun(request, () => "mine"))).toEqual({
    status: "ran",
    value: "mine",
    recorded: false,
  });
  expect(events).toContainEqual(
    expect.objectContaining({ kind: "possible-duplicate", reason: "the key was completed" }),
  );
  expect(await guard.run(request, () => "x")).toBe("other");
});

test.each(["lose-reply", "break-reply"] as const)(
  "proceed: %s on complete is not a possible duplicate: the stored outcome is its own",
  async (fault) => {
    const { guard, store, settle, advance, events } = createScene({
      onUnavailable: "proceed",
      completeWaitMs: 50,
    });
    for (let i = 0; i < 3; i++) store.plan("claim", "refuse");
    store.plan("complete", fault);
    expect(await settle(guard.run(request, () => "mine"))).toBe("mine");
    await advance(5_000);
    expect(events.map(({ kind }) => kind)).toEqual(["unavailable", "proceeded", "unavailable", "completed"]);
  },
);

test("proceed: a second attempt is also a possible duplicate", async () => {
  const { guard, another, store, settle, events } = createScene({ onUnavailable: "proceed" });
  await another()
    .run(request, () => Promise.reject(new Error("first")))
    .catch(() => {});
  for (let i = 0; i < 3; i++) store.plan("claim", "refuse");
  await settle(guard.run(request, () => "mine"));
  expect(events).toContainEqual(
    expect.objectContaining({ kind: "possible-duplicate", reason: "it was attempt 2" }),
  );
});

test("proceed: keeps a claim whose reply was lost while the work runs, and completes it with its own token", async () => {
  const { guard, another, store, settle, sleep, advance } = createScene({
    onUnavailable: "proceed",
    storeTimeoutMs: 20,
  });
  store.plan("claim", "lose-reply");
  store.plan("claim", "hang");
  const run = guard.tryRun(request, () => sleep(100).then(() => "mine"));
  await advance(120);
  expect(await another({ onPending: "reject" }).tryRun(request, () => "second")).toMatchObject({
    status: "pending",
  });
  expect(await settle(run)).toEqual({ status: "ran", value: "mine", recorded: true });
});

test("proceed: abandons again when a grant arrives while the abandon is in flight", async () => {
  const { another, inner, settle, sleep } = createScene();
  let claims = 0;
  let abandons = 0;
  const store: Store = {
    ...inner,
    // Times out at 120 ms; applied at 130 ms, after the abandon that found nothing, and answered before the abandon is.
    claim: (claim) =>
      claims++ === 0 ? sleep(130).then(() => inner.claim(claim)) : Promise.reject(new Error("away")),
    async abandon(abandon) {
      const answer = await inner.abandon(abandon);
      if (abandons++ === 0) await sleep(15);
      return answer;
    },
  };
  const guard = another({ store, onUnavailable: "proceed", storeTimeoutMs: 20, leaseMs: 60_000 });
  const run = guard.run(request, () => Promise.reject(new Error("failed")));
  await expect(settle(run)).rejects.toThrow("failed");
  await settle(sleep(500));
  expect((await guard.read(request))?.state).toBe("released");
});

test("sends no further claim when too many background calls wait for a store that is away", async () => {
  const { guard, store, settle } = createScene({ storeTimeoutMs: 10 });
  store.setRates({ hang: 1 });
  const calls = Array.from({ length: 10_000 }, (_, i) => guard.tryRun({ ...request, key: `k${i}` }, () => 1));
  await settle(Promise.all(calls));
  const claims = store.calls.claim;
  await expect(settle(guard.run({ ...request, key: "one more" }, () => 1))).rejects.toMatchObject({
    code: "unavailable",
  });
  expect(store.calls.claim).toBe(claims);
});

test("treats a store method that throws synchronously like one that rejects", async () => {
  const { another, inner, settle } = createScene();
  const broken = {
    ...inner,
    claim: () => {
      throw new Error("not even a promise");
    },
  };
  await expect(settle(another({ store: broken }).run(request, () => 1))).rejects.toMatchObject({
    code: "unavailable",
  });
});

test("passes a signal to a store with usesSignal, which fires when the engine stops waiting", async () => {
  const { another, inner, settle } = createScene({ storeTimeoutMs: 50 });
  const signals: (AbortSignal | undefined)[] = [];
  const hanging = {
    ...inner,
    usesSignal: true,
    claim: ({ signal }: { signal?: AbortSignal | undefined }) => {
      signals.push(signal);
      return new Promise<never>(() => {});
    },
  };
  await settle(another({ store: hanging }).tryRun(request, () => 1));
  expect(signals.map((signal) => signal?.aborted)).toEqual([true, true]);
});
