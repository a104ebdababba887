/** Tests the claims of guards: which call gets one, which takes one over, and which is refused. */
import { ConstantBackoff, handleAll, retry } from "cockatiel";
import { expect, test, vi } from "vitest";
import { createGuard } from "../../src/functions/guard.ts";
import { protect } from "../../src/functions/protect.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { crash, createScene, failure, held, REFUSE, tally } from "./guard-scene.ts";

const ORDER = { operation: "charge", key: "order-1" };

test("Baldur: atomic first claim, one winner: one of fifty concurrent calls on five guards runs", async () => {
  const { another } = createScene(REFUSE);
  const { work, finish } = held<string>();
  const charge = vi.fn(work);
  const calls = Array.from({ length: 5 }, () => another()).flatMap((guard) =>
    Array.from({ length: 10 }, () => guard.tryRun(ORDER, charge)),
  );
  await vi.waitFor(() => expect(charge).toHaveBeenCalled());
  finish("charged");
  expect(tally(await Promise.all(calls))).toEqual({ ran: 1, pending: 49 });
  expect(charge).toHaveBeenCalledTimes(1);
});

test("Baldur: in-flight duplicate: reject: it gets pending at once while another call runs", async () => {
  const { guard, another } = createScene(REFUSE);
  const { work, isUnderWay, finish } = held<string>();
  const first = guard.run(ORDER, work);
  await isUnderWay;
  await expect(another().run(ORDER, async () => "twice")).rejects.toEqual(failure("pending"));
  finish("charged");
  expect(await first).toBe("charged");
});

test("Baldur: late completion no-op: an attempt that was overtaken changes nothing, and gets lease-lost", async () => {
  const { guard, another, clock } = createScene(REFUSE);
  const [slow, next] = [held<string>(), held<string>()];
  const overtaken = guard.tryRun(ORDER, slow.work);
  await slow.isUnderWay;
  clock.advance(guard.policy.leaseMs);
  const successor = another().tryRun(ORDER, next.work);
  await next.isUnderWay;
  slow.finish("the late one's");
  expect(await overtaken).toMatchObject({ status: "lease-lost" });
  expect(await guard.read(ORDER)).toMatchObject({ state: "pending", number: 2 });
  next.finish("the owner's");
  expect(await successor).toMatchObject({ status: "ran", recorded: true });
  expect((await guard.read(ORDER))?.outcome).toMatchObject({ value: "the owner's" });
});

test("Baldur: single-winner takeover of failed claim: one of twenty concurrent retries runs", async () => {
  const { guard, another } = createScene(REFUSE);
  await expect(guard.run(ORDER, () => Promise.reject(new Error("declined")))).rejects.toThrow("declined");
  const { work, finish } = held<number>();
  const charge = vi.fn(work);
  const calls = Array.from({ length: 20 }, () => another().tryRun(ORDER, charge));
  await vi.waitFor(() => expect(charge).toHaveBeenCalled());
  finish(1);
  expect(tally(await Promise.all(calls))).toEqual({ ran: 1, pending: 19 });
});

test("Baldur: single-winner takeover of stale claim: one of twenty concurrent calls takes over what a dead guard left", async () => {
  const scene = createScene(REFUSE);
  await crash(scene, ORDER);
  const { work, finish } = held<number>();
  const charge = vi.fn(work);
  const calls = Array.from({ length: 20 }, () => scene.another().tryRun(ORDER, charge));
  await vi.waitFor(() => expect(charge).toHaveBeenCalled());
  finish(1);
  expect(tally(await Promise.all(calls))).toEqual({ ran: 1, pending: 19 });
  expect(scene.events.filter(({ kind }) => kind === "taken-over")).toHaveLength(1);
});

test("Baldur: attempt / retry counter: counts failures and crashes, and survives both", async () => {
  const scene = createScene();
  const numbers: number[] = [];
  await scene.guard.tryRun(ORDER, ({ number }) => Promise.reject(numbers.push(number))).catch(() => {});
  await crash(scene, ORDER, ({ number }) => void numbers.push(number));
  await scene.guard.run(ORDER, ({ number }) => numbers.push(number));
  expect(numbers).toEqual([1, 2, 3]);
  expect(await scene.guard.read(ORDER)).toMatchObject({ state: "completed", number: 3 });
});

test("Baldur: retries inside one run keep ownership: no other call gets the key between two attempts", async () => {
  const { guard, store, another } = createScene(REFUSE);
  const policy = retry(handleAll, { maxAttempts: 3, backoff: new ConstantBackoff(1) });
  const between: string[] = [];
  const fences = new Set<number>();
  const charge = vi.fn(async ({ fence }: { fence: number }) => {
    fences.add(fence);
    between.push((await another().tryRun(ORDER, () => "stolen")).status);
    if (charge.mock.calls.length < 3) throw new Error("busy");
    return "charged";
  });
  const options = { operation: "charge", key: "id", context: { id: "order-1" }, policy } as const;
  expect(await protect(guard, options, charge)).toBe("charged");
  expect(between).toEqual(["pending", "pending", "pending"]);
  expect([fences.size, store.calls.claim, store.calls.abandon]).toEqual([1, 1, 0]);
});

test("Baldur: explicit release / re-arm: a completed key can be claimed again", async () => {
  const { guard } = createScene(REFUSE);
  const charge = vi.fn(async () => "charged");
  await guard.run(ORDER, charge);
  await expect(guard.run(ORDER, charge)).rejects.toEqual(failure("already-done"));
  expect([await guard.release(ORDER), await guard.release(ORDER)]).toEqual([true, false]);
  await guard.run(ORDER, charge);
  expect(charge).toHaveBeenCalledTimes(2);
});

test("Baldur: non-destructive peek: a read claims nothing, changes nothing and extends nothing", async () => {
  const { guard, clock } = createScene();
  expect([await guard.seen(ORDER), await guard.read(ORDER)]).toEqual([false, undefined]);
  const { work, isUnderWay, finish } = held<string>();
  const first = guard.run(ORDER, work);
  await isUnderWay;
  expect([await guard.seen(ORDER), (await guard.read(ORDER))?.state]).toEqual([false, "pending"]);
  finish("charged");
  await first;
  const before = await guard.read(ORDER);
  clock.advance(1_000);
  expect(await guard.seen(ORDER)).toBe(true);
  expect(await guard.read(ORDER)).toEqual(before);
});

test("Baldur: distributed lock helper (owner, extend, blocking): one holder at a time, who can extend it; others wait or are refused", async () => {
  const { guard, another } = createScene();
  const { work, isUnderWay, finish } = held<string>();
  const first = guard.exclusive("ledger", async (lock) => {
    expect([lock.owned(), await lock.extend()]).toEqual([true, true]);
    return work();
  });
  await isUnderWay;
  await expect(another().exclusive("ledger", () => "in", { waitMs: 0 })).rejects.toEqual(failure("pending"));
  expect(await another().exclusive("another ledger", () => "in", { waitMs: 0 })).toBe("in");
  const waiting = another().exclusive("ledger", () => "then", { waitMs: 60_000 });
  finish("first");
  expect([await first, await waiting]).toEqual(["first", "then"]);
});

test("Baldur: dual lock (concurrency + re-execution): one run at a time, and no second run within the window", async () => {
  const { guard, another, clock } = createScene(REFUSE);
  const rebalance = vi.fn(async () => "moved");
  const window = { operation: "rebalance", key: "cluster", retentionMs: 600_000 };
  const nightly = (by = another()) => by.exclusive("rebalance", () => by.tryRun(window, rebalance));
  const first = await Promise.all([nightly(), nightly(), nightly()]);
  expect(tally(first)).toEqual({ ran: 1, "already-done": 2 });
  clock.advance(599_999);
  expect(await nightly(guard)).toEqual({ status: "already-done" });
  clock.advance(1);
  expect(await nightly(guard)).toMatchObject({ status: "ran" });
  expect(rebalance).toHaveBeenCalledTimes(2);
});

test("Baldur: store capability check at construction: a store without an atomic step is refused, and a store that forgets is refused if `require` says so", async () => {
  const { claim: _, ...lacking } = memoryStore();
  expect(() => createGuard({ store: lacking as never })).toThrow(/store is not a store: it lacks claim/);
  const cache = { get: () => {}, set: () => {} };
  expect(() => createGuard({ store: cache as never })).toThrow(failure("options-invalid"));
  const guard = createGuard({ store: memoryStore(), require: "store-crash", purgeEveryMs: 0 });
  await expect(guard.ready()).rejects.toEqual(failure("store-unsafe"));
  await expect(guard.run(ORDER, async () => "charged")).rejects.toEqual(failure("store-unsafe"));
  await guard.close();
});
