/** Tests one call to the store with a time limit: its timer, its signal and its late answer. */
import { expect, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { callWithin, type Deadline } from "../../src/core/store-call.ts";
import { createCountingTimer, createScene } from "./scene.ts";

const request = { operation: "charge", scope: "alice", key: "order-1" };

test("leaves no timer behind, whether the call answers, fails, or throws at once", async () => {
  const { timer, noted } = createCountingTimer();
  const caller = { store: {} as Store, timer };
  expect(await callWithin(caller, 100, () => Promise.resolve("answer"))).toBe("answer");
  await expect(callWithin(caller, 100, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  const throwing = () => {
    throw new Error("at once");
  };
  await expect(callWithin(caller, 100, throwing)).rejects.toThrow("at once");
  expect(noted.armed).toBe(0);
});

test("rejects with TimedOut, sets isOver and fires the signal, and passes a late answer on", async () => {
  const { timer, advanceTo } = createCountingTimer();
  const bounds: Deadline[] = [];
  const late: string[] = [];
  const call = (usesSignal: boolean | "aborted") =>
    callWithin(
      { store: { usesSignal } as Store, timer },
      100,
      (bound) => {
        bounds.push(bound);
        return new Promise<string>((resolve) => void timer.after(150, () => resolve("answer")));
      },
      (answer) => late.push(answer),
    ).catch((error: Error) => [error.name, error.message, timer.now()]);
  const calls = [call(true), call("aborted"), call(false)];
  await advanceTo(99);
  expect(bounds.map(({ isOver, signal }) => [isOver, signal?.aborted])).toEqual([
    [false, false],
    [false, false],
    [false, undefined],
  ]);
  await advanceTo(149);
  const timedOut = ["TimedOut", "the store did not answer within 100 ms", 100];
  expect(await Promise.all(calls)).toEqual([timedOut, timedOut, timedOut]);
  expect(bounds.map(({ isOver, signal }) => [isOver, signal?.aborted])).toEqual([
    [true, true],
    [true, true],
    [true, undefined],
  ]);
  expect(late).toEqual([]);
  await advanceTo(151);
  expect(late).toEqual(["answer", "answer", "answer"]);
  expect(bounds.map(({ signal }) => signal instanceof AbortSignal)).toEqual([true, false, false]);
});

test("passes a signal to every call of a store with usesSignal", async () => {
  const scene = createScene({ leaseMs: 300, purgeEveryMs: 100, storeTimeoutMs: 1_000 });
  const { inner } = scene;
  const signalled = new Set<string>();
  const note = <T>(name: string, signal: AbortSignal | undefined, answer: T): T => {
    if (signal !== undefined) signalled.add(name);
    return answer;
  };
  const store: Store = {
    ...inner,
    usesSignal: true,
    claim: (claim) => note("claim", claim.signal, inner.claim(claim)),
    complete: (completion) => note("complete", completion.signal, inner.complete(completion)),
    abandon: (abandon) => note("abandon", abandon.signal, inner.abandon(abandon)),
    renew: (renewal) => note("renew", renewal.signal, inner.renew(renewal)),
    read: (id, bound) => note("read", bound?.signal, inner.read(id)),
    purge: (limit, bound) => note("purge", bound?.signal, inner.purge(limit)),
    list: (page) => note(`list ${page.state ?? "all"}`, page.signal, inner.list?.(page) as never),
    forget: (one) => note("forget", one.signal, inner.forget?.(one) as never),
  };
  const guard = scene.another({ store });
  await scene.settle(guard.run(request, () => scene.sleep(150)));
  await guard.run({ ...request, key: "fails" }, () => Promise.reject(new Error("no"))).catch(() => {});
  await guard.listUnknown();
  await guard.forget({ scope: "alice" });
  await guard.ready();
  await scene.settle(guard.close());
  expect([...signalled].sort()).toEqual([
    "abandon",
    "claim",
    "complete",
    "forget",
    "list all",
    "list lapsed",
    "purge",
    "read",
    "renew",
  ]);
});
