/** Fears: the store refuses, hangs, or applies a step and loses its reply; before the work, and after it. */
import { expect, test } from "vitest";
import { NevertwiceError } from "../../src/core/errors.ts";
import type { Store } from "../../src/core/store.ts";
import { createScene } from "./scene.ts";

const request = { operation: "charge", key: "order-1" };

test("a store that refuses: the work is not run, the caller is told unavailable with the cause", async () => {
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

test("a store that fails once is asked again with the same token", async () => {
  const { guard, store, settle } = createScene();
  store.plan("claim", "refuse");
  expect(await settle(guard.run(request, () => "ran"))).toBe("ran");
});

test("a store that hangs is given storeTimeoutMs twice, and never hangs the caller", async () => {
  const { guard, store, settle, world } = createScene({ storeTimeoutMs: 100 });
  for (let i = 0; i < 9; i++) store.plan("claim", "hang");
  expect(await settle(guard.tryRun(request, () => 1))).toMatchObject({ status: "unavailable" });
  expect(store.calls.claim).toBe(2);
  expect(world.now()).toBeLessThan(400);
});

test.each(["lose-reply", "break-reply"] as const)(
  "%s on claim: the repeated claim is recognised as our own, and runs once",
  async (fault) => {
    const { guard, store, settle } = createScene({ storeTimeoutMs: 100 });
    store.plan("claim", fault);
    const seen: number[] = [];
    expect(await settle(guard.run(request, ({ number }) => seen.push(number)))).toBe(1);
    expect(seen).toEqual([1]);
    expect(store.calls).toMatchObject({ claim: 2, complete: 1 });
  },
);

test("a claim given up on is abandoned as unrun in the background, so the key is free when the store is back", async () => {
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

test("a new that arrives after the claim was given up on is abandoned again", async () => {
  const { guard, store, settle, advance } = createScene({ storeTimeoutMs: 10, leaseMs: 60_000 });
  store.plan("claim", "delay");
  store.plan("claim", "refuse");
  expect(await settle(guard.tryRun(request, () => 1))).toMatchObject({ status: "unavailable" });
  // The delayed claim is applied only now, after the first abandon found nothing to give up.
  await advance(200);
  expect(store.calls.abandon).toBeGreaterThanOrEqual(1);
  expect((await guard.read(request))?.state ?? "absent").not.toBe("pending");
});

test("a store that is full or unsafe has answered: it is not asked again, and proceed does not apply", async () => {
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

test("a store that itself says unavailable has not answered: it is asked again, and proceed applies", async () => {
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

test("completion is tried past the lease's end, and is accepted if nobody took over", async () => {
  const { guard, store, settle, advance } = createScene({ leaseMs: 100, completeWaitMs: 10 });
  for (let i = 0; i < 8; i++) store.plan("complete", "refuse");
  await settle(guard.run(request, () => "value"));
  await advance(20_000);
  expect(store.calls.complete).toBe(9);
  expect(await guard.run(request, () => "again")).toBe("value");
});

test("completeWaitMs 0 answers without waiting for the store at all", async () => {
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

test("a store that lost the record: the value is returned, called unrecorded, and the observer is told", async () => {
  const { guard, inner, sleep, settle, events } = createScene({ leaseMs: 60_000 });
  const run = guard.tryRun(request, async () => {
    await sleep(10);
    await inner.close();
    return "value";
  });
  expect(await settle(run)).toEqual({ status: "ran", value: "value", recorded: false });
  expect(events).toContainEqual(expect.objectContaining({ kind: "lease-lost", reason: "forgotten" }));
});

test("proceed: the work runs without a claim and with fence 0, and is claimed and completed afterwards", async () => {
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

test("proceed: if the key turns out to be done or taken, the observer is told of a possible duplicate", async () => {
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
  "proceed: %s on complete is no possible duplicate: the outcome that is found is our own",
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

test("proceed: a later attempt than the first is a possible duplicate too", async () => {
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

test("proceed: a claim that was made unknown to us is kept while the work runs, and completed with its own token", async () => {
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

test("proceed: a grant that arrives while the end is being told is told the end again", async () => {
  const { another, inner, settle, sleep } = createScene();
  let claims = 0;
  let abandons = 0;
  const store: Store = {
    ...inner,
    // Given up on at 120 ms; applied at 130 ms, after the abandon that found nothing, and answered before the abandon is.
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

test("when too much waits to be told to a store that is away, no further claim is sent", async () => {
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

test("a store method that throws at once, instead of rejecting, is a failure like any other", async () => {
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

test("a store that says usesSignal is handed one, which fires when the engine stops waiting", async () => {
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
