/** Tests consumers and guards when the store, the work or the process fails. */
import { expect, onTestFinished, test, vi } from "vitest";
import { guardFromEnv } from "../../src/env/index.ts";
import { consumer } from "../../src/events/index.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { text } from "../documents.ts";
import { crash, createScene, failure } from "../functions/guard-scene.ts";

const ORDER = { operation: "create-order", key: "request-1" };
/** A store that does not answer is given up on after this. */
const storeTimeoutMs = 20;

test("Skill: store down at claim: fail closed: nothing is done, and the sender delivers it again", async () => {
  const { guard, store } = createScene({ storeTimeoutMs });
  store.setRates({ refuse: 1 });
  const work = vi.fn(async () => "created");
  await expect(guard.run(ORDER, work)).rejects.toEqual(failure("unavailable"));
  const events = consumer(guard, { name: "assets", key: (id: string) => id, work });
  expect(await events.handle("event-1")).toMatchObject({ status: "unavailable", verdict: "later" });
  expect(work).not.toHaveBeenCalled();
});

test("Skill: store down after effect: serve + log: the event counts as done, and is recorded when the store is back", async () => {
  const { guard, store, events: told, another } = createScene({ storeTimeoutMs, completeWaitMs: 5 });
  const options = { name: "assets", key: (id: string) => id };
  const work = async () => {
    store.setRates({ refuse: 1 });
    return "processed";
  };
  expect(await consumer(guard, { ...options, work }).handle("event-1")).toMatchObject({
    status: "done",
    verdict: "acknowledge",
    recorded: false,
  });
  expect(told).toContainEqual(expect.objectContaining({ kind: "unavailable", during: "complete" }));
  store.setRates({});
  const again = consumer(another(), { ...options, onPending: "wait", work });
  expect(await again.handle("event-1")).toMatchObject({ status: "done-before", value: "processed" });
});

test("Skill: panic/exception releases: a handler that throws leaves nothing stuck", async () => {
  const { guard } = createScene({ onPending: "reject" });
  const throws = [
    () => {
      throw new TypeError("at once");
    },
    () => Promise.reject(new Error("later")),
    () => Promise.reject(undefined),
  ];
  for (const work of throws) await guard.run(ORDER, work).catch(() => {});
  expect(await guard.run(ORDER, async ({ number }) => number)).toBe(4);
});

test("Skill: deadline/cancel honoured by store: a call that takes too long is cancelled there, and the caller's own cancel ends its wait", async () => {
  const signals: AbortSignal[] = [];
  const store = memoryStore();
  const silent: typeof store.claim = ({ signal }) => {
    if (signal !== undefined) signals.push(signal);
    return new Promise(() => {});
  };
  const guard = createGuard({
    store: { ...store, usesSignal: true, claim: silent },
    storeTimeoutMs,
    purgeEveryMs: 0,
    drainMs: 0,
  });
  onTestFinished(async () => void (await guard.close()));
  const work = vi.fn(async () => "created");
  await expect(guard.run(ORDER, work)).rejects.toEqual(failure("unavailable"));
  expect(signals.length).toBeGreaterThan(0);
  for (const { aborted } of signals) expect(aborted).toBe(true);
  const caller = new AbortController();
  const cancelled = guard.run({ ...ORDER, storeTimeoutMs: 60_000, signal: caller.signal }, work);
  caller.abort(new Error("the caller left"));
  await expect(cancelled).rejects.toThrow("the caller left");
  expect(work).not.toHaveBeenCalled();
});

test("Skill: honest crash boundary documented: a crash after the effect means a second try, and the docs say so", async () => {
  const scene = createScene();
  const work = vi.fn(async () => "sent");
  await crash(scene, ORDER, work);
  await scene.guard.run(ORDER, work);
  expect(work).toHaveBeenCalledTimes(2);
  const page = await text("docs/guarantees.md");
  expect(page.replace(/\s+/g, " ")).toContain("A crash after the effect and before its completion");
});

test("Skill: environment variables: a function takes its store and its windows from there", async () => {
  const guard = await guardFromEnv({ NEVERTWICE_STORE_URL: "memory:", NEVERTWICE_RETENTION: "30d" });
  expect(guard.policy.retentionMs).toBe(30 * 86_400_000);
  await guard.close();
  await expect(guardFromEnv({ NEVERTWICE_RETENTON: "30d" })).rejects.toEqual(failure("options-invalid"));
});
