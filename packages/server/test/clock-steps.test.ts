/** Tests what the server believes for a while, and its figures, when somebody sets the wall clock. */
import { memoryStore } from "nevertwice/stores/memory";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { CACHE_MS, createAccess } from "../src/access.ts";
import { createDoctor } from "../src/api/doctor.ts";
import { createLive } from "../src/live.ts";
import { createSessions } from "../src/sessions.ts";

const START = Date.UTC(2026, 0, 1);
const HOUR_MS = 3_600_000;
const DESK = { name: "desk", role: "operator" } as const;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date", "performance"], now: START });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Sets the wall clock. The monotonic clock goes on as before. */
function step(ms: number): void {
  vi.setSystemTime(Date.now() + ms);
}

/** A store with its own clock, which is never set. */
function newStore() {
  return memoryStore({ clock: { now: () => START + performance.now() } });
}

describe.each([-HOUR_MS, -1_000, HOUR_MS])("after the clock was set by %i ms", (ms) => {
  test("a copy refuses a token that another copy revoked within 5 seconds", async () => {
    const store = newStore();
    const one = createAccess({ store, namespace: "default" });
    const two = createAccess({ store, namespace: "default" });
    const { token, id } = await one.create(DESK);
    expect(await two.verify(token)).toBeDefined();
    await one.revoke(id);
    step(ms);
    vi.advanceTimersByTime(CACHE_MS);
    expect(await two.verify(token)).toBeUndefined();
  });

  test("a copy requires tokens within 5 seconds after another copy created the first one", async () => {
    const store = newStore();
    const one = createAccess({ store, namespace: "default" });
    const two = createAccess({ store, namespace: "default" });
    expect(await two.isRequired()).toBe(false);
    await one.create(DESK);
    step(ms);
    vi.advanceTimersByTime(CACHE_MS);
    expect(await two.isRequired()).toBe(true);
  });

  test("a session that another copy closed ends within 5 seconds", async () => {
    const store = newStore();
    const access = createAccess({ store, namespace: "default" });
    const one = createSessions({ store, access, isSecure: false });
    const two = createSessions({ store, access, isSecure: false });
    const opened = await one.open((await access.create(DESK)).token);
    const headers = { cookie: opened?.cookie.split(";")[0] as string };
    expect(await two.find(headers)).toBeDefined();
    await one.close(headers);
    step(ms);
    vi.advanceTimersByTime(CACHE_MS);
    expect(await two.find(headers)).toBeUndefined();
    expect(await one.find(headers)).toBeUndefined();
  });

  test("the doctor asks the store again after ten seconds", async () => {
    let asked = 0;
    const store = newStore();
    const doctor = createDoctor({
      ...store,
      async settings(...given) {
        asked++;
        return (await store.settings?.(...given)) as never;
      },
    });
    await doctor();
    step(ms);
    await doctor();
    expect(asked).toBe(1);
    vi.advanceTimersByTime(10_000);
    await doctor();
    expect(asked).toBe(2);
  });

  test("an event counts in the second in which it happens", () => {
    const live = createLive();
    const claimed = () =>
      live.observerElsewhere("shop")({ kind: "replayed", operation: "o", keyHash: "k" } as never);
    const shown = () => live.seconds(60, "shop").reduce((sum, { counts }) => sum + counts.replay, 0);
    claimed();
    expect(shown()).toBe(1);
    step(ms);
    const before = shown();
    claimed();
    expect(shown()).toBe(before + 1);
    vi.advanceTimersByTime(1_000);
    claimed();
    expect(live.seconds(1, "shop")[0]?.counts.replay).toBe(1);
  });
});
