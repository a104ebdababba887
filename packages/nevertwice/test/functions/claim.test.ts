/**
 * Tests claims that the caller holds: which caller has the key, what each way of settling does, and what a batch
 * returns.
 */
import { describe, expect, expectTypeOf, test } from "vitest";
import type { Engine } from "../../src/core/engine.ts";
import {
  type Claimed,
  createClaimMethods,
  type HeldRequest,
  type Refusal,
} from "../../src/functions/claim.ts";
import { createScene } from "../core/scene.ts";

const request = { operation: "bill", scope: "alice", key: "invoice-1" };
const many = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ ...request, key: `invoice-${i}` }));
const untyped = (value: unknown) => value as never;

function createClaims(options: Parameters<typeof createScene>[0] = {}) {
  const scene = createScene(options);
  return { ...scene, scene, ...createClaimMethods(scene.guard) };
}

/** Claims the key, and expects to get it. */
async function held(guard: Pick<Engine, "tryRun">, asked: HeldRequest = request): Promise<Claimed> {
  const claim = await createClaimMethods(guard).claim(asked);
  expect(claim).toMatchObject({ status: "claimed" });
  return claim as Claimed;
}

describe("a claim", () => {
  test("is granted to one caller, with the fields of an attempt, and the others get pending", async () => {
    const { claim, guard, scene } = createClaims();
    const first = (await claim(request)) as Claimed;
    expect(first).toMatchObject({ status: "claimed", number: 1, request });
    expect(first.fence).toBe((await guard.read(request))?.fence);
    expect(first.signal.aborted).toBe(false);
    expect(await claim(request)).toMatchObject({ status: "pending", leaseLeftMs: 30_000 });
    expect(await createClaimMethods(scene.another()).claim(request)).toMatchObject({ status: "pending" });
    const keys: string[] = [];
    await first.release();
    await guard.run(request, (attempt) => void keys.push(attempt.deriveKey("psp")));
    expect(first.deriveKey("psp")).toBe(keys[0]);
  });

  test("waits with onPending wait", async () => {
    const { claim, advance } = createClaims();
    const first = (await claim(request)) as Claimed;
    const second = claim({ ...request, onPending: "wait" });
    await advance(1_000);
    await first.complete("billed");
    expect(await second).toEqual({ status: "replayed", value: "billed" });
  });

  test("is refused with the reason as a value", async () => {
    const { claim, guard, store, settle } = createClaims({ onFailure: "remember", storeTimeoutMs: 50 });
    await guard.run({ ...request, fingerprint: 1 }, () => "billed");
    expect(await claim(request)).toEqual({ status: "replayed", value: "billed" });
    expect(await claim({ ...request, onCompleted: "reject" })).toEqual({ status: "already-done" });
    expect(await claim({ ...request, fingerprint: 2 })).toEqual({ status: "conflict", state: "completed" });
    await guard.forget(request);
    expect(await claim(request)).toEqual({ status: "not-kept", reason: "forgotten" });

    const declined = { ...request, key: "declined" };
    await guard.run(declined, () => Promise.reject(new RangeError("no money"))).catch(() => {});
    expect(await claim(declined)).toMatchObject({ status: "failed", error: { message: "no money" } });

    const lost = { ...request, key: "lost", onLapsed: "hold" } as const;
    const { fence } = await held(guard, { ...lost, onFailure: "unknown" }).then(async (claimed) => {
      await claimed.fail(new Error("cut off"));
      return claimed;
    });
    expect(await claim(lost)).toEqual({ status: "unknown", fence });

    store.setRates({ refuse: 1 });
    expect(await settle(claim({ ...request, key: "down" }))).toMatchObject({
      status: "unavailable",
      error: { code: "unavailable" },
    });
    store.setRates({});
    await settle(guard.close());
    expect(await claim(request)).toMatchObject({ status: "unavailable", error: { code: "guard-closed" } });
  });

  test("rejects if the request is invalid", async () => {
    const { claim, claimBatch } = createClaims();
    const invalid = (words: string) => ({ code: "options-invalid", message: expect.stringContaining(words) });
    await expect(claim({ ...request, key: "" })).rejects.toMatchObject({ code: "key-missing" });
    await expect(claim(untyped({ ...request, leaseSeconds: 3 }))).rejects.toMatchObject(
      invalid("leaseSeconds"),
    );
    await expect(claim(untyped(undefined))).rejects.toMatchObject(invalid("operation"));
    const { signal } = new AbortController();
    await expect(claim(untyped({ ...request, signal }))).rejects.toMatchObject(invalid("signal"));
    await expect(claimBatch(untyped(request))).rejects.toMatchObject(invalid("array"));
    await expect(claimBatch([], { concurrency: 0 })).rejects.toMatchObject(invalid("concurrency"));
  });

  test("has types that distinguish a claim from a refusal", async () => {
    const { claim } = createClaims();
    const answer = await claim<{ receipt: number }>(request);
    expectTypeOf(answer).toEqualTypeOf<Claimed<{ receipt: number }> | Refusal<{ receipt: number }>>();
    if (answer.status === "claimed") await answer.complete({ receipt: 1 });
    if (answer.status === "replayed") expectTypeOf(answer.value).toEqualTypeOf<{ receipt: number }>();
    // @ts-expect-error A claim takes no signal.
    void ({ ...request, signal: AbortSignal.abort() } satisfies HeldRequest);
  });
});

describe("settling", () => {
  test("complete stores the value, which every later call gets", async () => {
    const { guard, claim } = createClaims();
    const claimed = await held(guard);
    expect(await claimed.complete({ receipt: 1 })).toEqual({
      status: "ran",
      value: { receipt: 1 },
      recorded: true,
    });
    expect(await claim(request)).toEqual({ status: "replayed", value: { receipt: 1 } });
    expect(await guard.run(request, () => "not again")).toEqual({ receipt: 1 });
  });

  test("only the first settlement counts, and later ones return its result", async () => {
    const { guard, store } = createClaims();
    const claimed = await held(guard);
    const [first, second] = await Promise.all([claimed.complete(1), claimed.complete(2)]);
    expect(second).toEqual(first);
    await claimed.release();
    await claimed.fail(new Error("too late"));
    expect(await claimed.complete(3)).toEqual({ status: "ran", value: 1, recorded: true });
    expect(store.calls).toMatchObject({ complete: 1, abandon: 0 });

    const given = await held(guard, { ...request, key: "given back" });
    await given.release();
    expect(await given.complete(1)).toEqual({ status: "lease-lost", value: 1 });
    expect(store.calls).toMatchObject({ complete: 1, abandon: 1 });
  });

  test("release frees the key at once, whatever onFailure says", async () => {
    const { guard, kinds } = createClaims({ onFailure: "remember" });
    await (await held(guard)).release(new Error("out of paper"));
    expect(kinds()).toEqual(["claimed", "abandoned"]);
    expect(await held(guard)).toMatchObject({ number: 2 });
  });

  test.each([
    ["release", { status: "claimed", number: 2 }],
    ["remember", { status: "failed", error: { message: "declined" } }],
    ["unknown", { status: "unknown" }],
  ] as const)("fail under onFailure %s", async (onFailure, next) => {
    const { guard, claim } = createClaims();
    const claimed = await held(guard, { ...request, onFailure });
    expect(await claimed.fail(new Error("declined"))).toBeUndefined();
    expect(await claim({ ...request, onLapsed: "hold" })).toMatchObject(next);
  });

  test("complete returns lease-lost after another attempt took over the claim, and overwrites no outcome", async () => {
    const { guard, scene, store, advance } = createClaims({ leaseMs: 1_000 });
    const claimed = await held(guard);
    store.setRates({ hang: 1 });
    await advance(2_000);
    expect(claimed.signal.aborted).toBe(true);
    expect(() => claimed.deriveKey("psp")).toThrow("lease-lost");
    const successor = await held(scene.another());
    expect(successor.fence).toBeGreaterThan(claimed.fence);
    store.setRates({});
    expect(await claimed.complete("late")).toEqual({ status: "lease-lost", value: "late" });
    await successor.complete("in time");
    expect(await claimed.complete("later")).toEqual({ status: "lease-lost", value: "late" });
    expect(await guard.run(request, () => "no")).toBe("in time");
  });

  test("complete returns the stored outcome after another attempt has completed", async () => {
    const { guard, scene, store, advance } = createClaims({ leaseMs: 1_000 });
    const [kept, refused] = [await held(guard), await held(guard, { ...request, key: "declined" })];
    store.setRates({ hang: 1 });
    await advance(2_000);
    await (await held(scene.another())).complete("in time");
    const remembering = { ...request, key: "declined", onFailure: "remember" } as const;
    await (await held(scene.another(), remembering)).fail(new Error("declined"));
    store.setRates({});
    expect(await kept.complete("late")).toEqual({ status: "replayed", value: "in time" });
    expect(await refused.complete("late")).toMatchObject({
      status: "failed",
      error: { message: "declined" },
    });
  });
});

describe("a claim that is held", () => {
  test("is renewed until maxRunMs, then lapses if it is not settled", async () => {
    const { guard, scene, advance } = createClaims({ leaseMs: 1_000, maxRunMs: 5_000 });
    const claimed = await held(guard);
    await advance(4_500);
    expect(claimed.signal.aborted).toBe(false);
    expect(await createClaimMethods(scene.another()).claim(request)).toMatchObject({ status: "pending" });
    await advance(2_000);
    expect(claimed.signal.aborted).toBe(true);
    expect(await held(scene.another())).toMatchObject({ number: 2 });
  });

  test("is waited for when the guard closes, and is left to lapse after drainMs", async () => {
    const { guard, advance, settle } = createClaims({ drainMs: 1_000 });
    const [settled, dropped] = [await held(guard), await held(guard, { ...request, key: "dropped" })];
    const closing = guard.close();
    await advance(500);
    expect(await settled.complete(1)).toMatchObject({ status: "ran", recorded: true });
    expect(await settle(closing)).toEqual([expect.objectContaining({ fence: dropped.fence })]);
    expect(dropped.signal.aborted).toBe(true);
  });

  test("continues without a store under onUnavailable proceed, with fence 0", async () => {
    const { guard, store, settle, advance } = createClaims({ onUnavailable: "proceed", storeTimeoutMs: 50 });
    store.setRates({ refuse: 1 });
    const claimed = await settle(held(guard));
    expect(claimed.fence).toBe(0);
    expect(await settle(claimed.complete(1))).toEqual({ status: "ran", value: 1, recorded: false });
    store.setRates({});
    await advance(20_000);
    expect(await guard.run(request, () => 2)).toBe(1);
  });
});

describe("a batch", () => {
  test("returns its answers in order, one for each request", async () => {
    const { guard, claimBatch } = createClaims();
    const requests = many(600);
    await guard.run(requests[3] as HeldRequest, () => "done before");
    await held(guard, requests[5] as HeldRequest);
    const claims = await claimBatch(requests);
    expect(claims[3]).toEqual({ status: "replayed", value: "done before" });
    expect(claims[5]).toMatchObject({ status: "pending" });
    const had = claims.filter((claim) => claim.status === "claimed");
    expect(had.map((claim) => claim.request)).toEqual(requests.filter((_, i) => i !== 3 && i !== 5));
  });

  test("gives a key that is requested several times to one request", async () => {
    const { claimBatch } = createClaims();
    const claims = await claimBatch([request, request, request]);
    expect(claims.map(({ status }) => status).toSorted()).toEqual(["claimed", "pending", "pending"]);
  });

  test("from two guards at once gives each key to one of them", async () => {
    const { guard, scene } = createClaims();
    const requests = many(100);
    const workers = [createClaimMethods(guard), createClaimMethods(scene.another())];
    const batches = await Promise.all(workers.map(({ claimBatch }) => claimBatch(requests)));
    const had = batches.flat().filter((claim) => claim.status === "claimed");
    expect(new Set(had.map((claim) => claim.request.key)).size).toBe(100);
    expect(had.length).toBe(100);
  });

  test("gives back its claims if one of its requests is invalid", async () => {
    const { guard, claimBatch } = createClaims();
    const wrong = { ...request, key: "" };
    await expect(claimBatch([...many(3), wrong, ...many(5)])).rejects.toMatchObject({ code: "key-missing" });
    for (const one of many(5)) expect(await guard.read(one)).toMatchObject({ state: "released" });
  });

  test("does not call the store again after it did not answer", async () => {
    const { claimBatch, store, settle } = createClaims({ storeTimeoutMs: 50 });
    store.setRates({ hang: 1 });
    const claims = await settle(claimBatch(many(100), { concurrency: 4 }));
    expect(claims.map(({ status }) => status)).toEqual(claims.map(() => "unavailable"));
    expect(store.calls.claim).toBeLessThanOrEqual(8);
  });
});
