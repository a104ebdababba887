/** Tests `protect`: the guard outside, and retry, timeout, breaker, fallback and dead letters inside. */
import {
  ConsecutiveBreaker,
  ConstantBackoff,
  circuitBreaker,
  DelegateBackoff,
  ExponentialBackoff,
  fallback as fallbackPolicy,
  handleAll,
  handleWhen,
  IterableBackoff,
  retry,
  TimeoutStrategy,
  timeout,
  wrap,
} from "cockatiel";
import { expect, test, vi } from "vitest";
import { ERROR_CODES } from "../../src/core/errors.ts";
import { compositeKey, eventKey } from "../../src/core/key.ts";
import { createFlapping } from "../../src/functions/flapping.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { type DeadLetter, protect, replay, tryProtect } from "../../src/functions/protect.ts";
import { withIdempotency } from "../../src/http/fetch.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { createScene, failure, held, REFUSE } from "./guard-scene.ts";

const ORDER = { operation: "charge", key: "order-1" };
/** The same order as options of `protect`. */
const PROTECTED = { operation: "charge", key: "id", context: { id: "order-1" } } as const;
const quick = { backoff: new ConstantBackoff(1) };

/** Fails this many times, then returns how often it was called. */
const failing = (times: number, error: unknown = new Error("busy")) => {
  const work = vi.fn(async () => {
    if (work.mock.calls.length <= times) throw error;
    return work.mock.calls.length;
  });
  return work;
};

test("Baldur: client retry guidance per error: each error says whether the same request may be retried, and when", async () => {
  const { guard, another } = createScene();
  const { work, isUnderWay, finish } = held<Response>();
  const serve = withIdempotency(guard, { scope: "anyone" }, work);
  const headers = { "idempotency-key": '"order-1"' };
  const post = () => new Request("https://shop.example/charges", { method: "POST", headers });
  const first = serve(post());
  await isUnderWay;
  const told = await withIdempotency(another(), { scope: "anyone" }, work)(post());
  expect([told.status, told.headers.get("retry-after")]).toEqual([409, "1"]);
  expect(await told.json()).toMatchObject({ code: "pending", retryable: true });
  finish(new Response("charged"));
  await first;
  const { pending, unavailable, "already-done": done, conflict, "key-missing": keyless } = ERROR_CODES;
  expect([pending, unavailable].map(({ retryable }) => retryable)).toEqual([true, true]);
  expect([done, conflict, keyless].map(({ retryable }) => retryable)).toEqual([false, false, false]);
});

test("Baldur: event/message dedup consumer: an event that is delivered again, or twice at once, is handled once", async () => {
  const { guard, another } = createScene();
  const handle = vi.fn(async (id: string) => `handled ${id}`);
  const consume = (id: string, by = guard) =>
    by.tryRun(
      { domain: "event", operation: "invoice.paid", key: eventKey({ source: "psp", id }), ...REFUSE },
      () => handle(id),
    );
  const deliveries = await Promise.all([consume("evt-1"), consume("evt-1", another()), consume("evt-2")]);
  expect(deliveries.map(({ status }) => status)).toEqual(["ran", "pending", "ran"]);
  expect(await consume("evt-1", another())).toEqual({ status: "already-done" });
  const batch = ["evt-2", "evt-3"].map((id) => ({
    operation: "invoice.paid",
    domain: "event",
    key: eventKey({ source: "psp", id }),
  }));
  expect(await guard.seenBatch(batch)).toEqual([true, false]);
  expect(handle).toHaveBeenCalledTimes(2);
});

test("Baldur: retry with backoff strategies: with every strategy the operation is claimed and recorded once", async () => {
  const { guard } = createScene();
  const backoffs = [
    new ConstantBackoff(1),
    new IterableBackoff([1, 2]),
    new ExponentialBackoff({ initialDelay: 1, maxDelay: 4 }),
    new DelegateBackoff(() => 1),
  ];
  for (const [index, backoff] of backoffs.entries()) {
    const options = {
      ...PROTECTED,
      context: { id: `order-${index}` },
      policy: retry(handleAll, { maxAttempts: 3, backoff }),
    };
    const work = failing(2);
    expect(await tryProtect(guard, options, work)).toMatchObject({ outcome: "ran", value: 3, attempts: 3 });
    expect(await tryProtect(guard, options, work)).toMatchObject({
      outcome: "replayed",
      value: 3,
      attempts: 0,
    });
  }
});

test("Baldur: permanent failures never retried: neither by the policy, nor by the next caller if they are remembered", async () => {
  const { guard } = createScene();
  const isPermanent = (error: unknown) => error instanceof RangeError;
  const policy = retry(
    handleWhen((error) => !isPermanent(error)),
    { maxAttempts: 5, ...quick },
  );
  const onFailure = (error: unknown) => (isPermanent(error) ? "remember" : "release");
  const charge = failing(9, new RangeError("no such card"));
  for (const _ of [1, 2])
    await expect(protect(guard, { ...PROTECTED, policy, onFailure }, charge)).rejects.toThrow("no such card");
  expect(charge).toHaveBeenCalledTimes(1);
});

test("Baldur: dedup once per operation, not per attempt: three attempts make one claim and one completion", async () => {
  const { guard, store, events } = createScene();
  const policy = retry(handleAll, { maxAttempts: 3, ...quick });
  expect(await protect(guard, { ...PROTECTED, policy }, failing(2))).toBe(3);
  expect([store.calls.claim, store.calls.complete]).toEqual([1, 1]);
  expect(events.map(({ kind }) => kind)).toEqual(["claimed", "completed"]);
});

test("Baldur: timeout per attempt / per sequence: around each try, or around all of them", async () => {
  const { guard } = createScene();
  const limit = () => timeout(20, TimeoutStrategy.Aggressive);
  const again = retry(handleAll, { maxAttempts: 1_000_000, ...quick });
  const slowOnce = vi.fn((attempt: { signal: AbortSignal }) => {
    if (slowOnce.mock.calls.length > 1) return "in time";
    return new Promise<never>((_, reject) =>
      attempt.signal.addEventListener("abort", () => reject(new Error("cut off"))),
    );
  });
  const each = { ...PROTECTED, policy: wrap(again, limit()) };
  expect(await tryProtect(guard, each, slowOnce)).toMatchObject({
    outcome: "ran",
    value: "in time",
    attempts: 2,
  });
  const all = { ...PROTECTED, context: { id: "order-2" }, policy: wrap(limit(), again) };
  expect(await tryProtect(guard, all, failing(1_000_000))).toMatchObject({
    outcome: "failed",
    error: { isTaskCancelledError: true },
  });
  expect(await guard.run({ ...ORDER, key: "order-2" }, async () => "free again")).toBe("free again");
});

test("Baldur: circuit breaker composition: an open breaker runs no work, and blocks no replay", async () => {
  const { guard } = createScene();
  const policy = circuitBreaker(handleAll, { halfOpenAfter: 3_600_000, breaker: new ConsecutiveBreaker(1) });
  await protect(guard, { ...PROTECTED, policy }, async () => "charged");
  const charge = vi.fn(async () => Promise.reject(new Error("down")));
  for (const id of ["order-2", "order-3"])
    await protect(guard, { ...PROTECTED, policy, context: { id } }, charge).catch(() => {});
  expect(charge).toHaveBeenCalledTimes(1);
  await expect(
    protect(guard, { ...PROTECTED, policy, context: { id: "order-3" } }, charge),
  ).rejects.toMatchObject({ isBrokenCircuitError: true });
  expect(await protect(guard, { ...PROTECTED, policy }, charge)).toBe("charged");
});

test("Baldur: fallback never hides a duplicate: it answers only for failed work, and its answer is not stored", async () => {
  const { guard } = createScene(REFUSE);
  const fallback = vi.fn(() => "later");
  const policy = fallbackPolicy(handleAll, "the policy's own");
  expect(await protect(guard, { ...PROTECTED, fallback }, failing(1))).toBe("later");
  expect(await protect(guard, { ...PROTECTED, policy }, failing(1))).toBe("the policy's own");
  expect(await protect(guard, { ...PROTECTED, fallback }, async () => "charged")).toBe("charged");
  await expect(protect(guard, { ...PROTECTED, fallback }, failing(1))).rejects.toEqual(
    failure("already-done"),
  );
  await expect(protect(guard, { ...PROTECTED, policy }, failing(1))).rejects.toEqual(failure("already-done"));
  expect(fallback).toHaveBeenCalledTimes(1);
});

test("Baldur: dead-letter capture and keyed replay: however many guards replay an entry, each try runs once", async () => {
  const { guard, another } = createScene();
  const letters: DeadLetter[] = [];
  const options = { ...PROTECTED, deadLetters: (entry: DeadLetter) => void letters.push(entry) };
  await expect(protect(guard, options, failing(1))).rejects.toThrow("busy");
  const told = { ...ORDER, error: { message: "busy" }, replays: 0, context: { id: "order-1" } };
  expect(letters).toMatchObject([told]);
  const charge = failing(1);
  const replayed = (entry: unknown) =>
    Promise.all([guard, another()].map((by) => replay(by, entry as DeadLetter, charge)));
  const failed = await replayed(JSON.parse(JSON.stringify(letters[0])));
  expect(failed).toMatchObject([1, 2].map(() => ({ outcome: "failed", entry: { replays: 1 } })));
  expect(charge).toHaveBeenCalledTimes(1);
  const [first] = failed;
  const done = await replayed(first?.outcome === "failed" && first.entry);
  expect(done.map(({ outcome }) => outcome).sort()).toEqual(["ran", "replayed"]);
  expect([await guard.run(ORDER, charge), charge.mock.calls.length]).toEqual([2, 2]);
});

test("Baldur: incompatible combinations rejected: before anything runs", async () => {
  const { guard } = createScene();
  const work = vi.fn(async () => "done");
  const reconcile = async () => ({ status: "unknown" }) as const;
  const store = memoryStore();
  expect(() => createGuard({ store, onLapsed: "hold", onUnavailable: "proceed" })).toThrow(/contradict/);
  expect(() => createGuard({ store, onLapsed: "takeover", reconcile })).toThrow(/onLapsed: "hold"/);
  expect(() => guard.wrap(work, { operation: "x", key: () => "k", keyFrom: [0] })).toThrow(/exactly one/);
  expect(() => guard.wrap(work, { operation: "x" })).toThrow(/exactly one/);
  const both = { ...PROTECTED, keyFrom: [0], args: ["order-1"] } as const;
  await expect(protect(guard, both, work)).rejects.toEqual(failure("options-invalid"));
  expect(work).not.toHaveBeenCalled();
});

test("Baldur: anti-flapping (near-equal values): the fourth change to about the same value within a minute is refused", async () => {
  const clock = manualClock();
  const { check } = createFlapping({ clock });
  const answers: boolean[] = [];
  for (const value of [100, 50, 100.5, 99.9, 100.2]) answers.push((await check("pool.size", value)).flapping);
  expect(answers).toEqual([false, false, false, false, true]);
  expect((await check("pool.size", 100)).reason).toContain('"pool.size"');
  expect((await check("pool.size", 200)).flapping).toBe(false);
  clock.advance(60_000);
  expect((await check("pool.size", 100)).flapping).toBe(false);
});

test("Baldur: saga compensation, idempotent both ways: a repeated saga neither does nor undoes anything twice", async () => {
  const { guard, another } = createScene();
  const done: string[] = [];
  const step = (by: typeof guard, name: string, act: () => void) =>
    by.run({ operation: "saga", key: compositeKey("order-1", name) }, (attempt) => {
      act();
      done.push(`${name} ${attempt.deriveKey(name).length}`);
    });
  const decline = () => {
    throw new Error("declined");
  };
  async function saga(by: typeof guard) {
    await step(by, "reserve", () => {});
    await step(by, "charge", decline).catch(() => step(by, "undo reserve", () => {}));
  }
  await saga(guard);
  await Promise.all([saga(another()), saga(guard)]);
  expect(done).toEqual(["reserve 43", "undo reserve 43"]);
});
