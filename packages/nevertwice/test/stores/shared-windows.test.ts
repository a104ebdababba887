/** Tests leases and retentions over two stores on one database. */
import { describe, expect, test, vi } from "vitest";
import { openScene, PAIRS } from "./shared/scene.ts";

const SUBJECT = { operation: "pay", key: "k" };
const WINDOW_MS = 100;
const DAY_MS = 86_400_000;

describe.concurrent.each(Object.entries(PAIRS))("on %s", (_, pair) => {
  test("idempo: completion window", async (context) => {
    const { guard, sleep } = await openScene(context, pair);
    const { run } = guard({ retentionMs: 10 * WINDOW_MS });
    let runs = 0;
    const pay = () => run(SUBJECT, () => ++runs);
    expect([await pay(), await pay()]).toEqual([1, 1]);
    await sleep(11 * WINDOW_MS);
    expect(await pay()).toBe(2);
  });

  test("idempo: separate in-flight window", async (context) => {
    const { work, sleep } = await openScene(context, pair);
    const { here, there } = work();
    const terms = { leaseMs: WINDOW_MS, retentionMs: DAY_MS };
    const gone = await here.begin(terms);
    await sleep(1.5 * WINDOW_MS);
    const heir = await there.begin(terms);
    expect(heir).toMatchObject({ number: gone.number + 1 });
    await heir.complete("paid", DAY_MS);
    await sleep(1.5 * WINDOW_MS);
    expect(await here.attempt().claim()).toEqual({ status: "completed", outcome: "paid" });
  });

  test("one call can set its own retention", async (context) => {
    const { guard, store, idOf } = await openScene(context, pair);
    const { run } = guard({ retentionMs: DAY_MS });
    await run({ operation: "pay", key: "usual" }, () => 1);
    await run({ operation: "pay", key: "event", retentionMs: 30 * DAY_MS }, () => 1);
    expect(await windowOf(store.read(idOf("pay", "usual")))).toBe(DAY_MS);
    expect(await windowOf(store.read(idOf("pay", "event")))).toBe(30 * DAY_MS);
  });

  test("idempo: window refreshed on success", async (context) => {
    const { work, sleep } = await openScene(context, pair);
    const { here } = work();
    const attempt = await here.begin({ retentionMs: DAY_MS });
    await sleep(WINDOW_MS);
    await attempt.complete("paid", DAY_MS);
    const { claimedAt, keptUntil } = await here.record();
    expect(keptUntil).toBeGreaterThanOrEqual(claimedAt + WINDOW_MS + DAY_MS);
    expect(await windowOf(here.read())).toBe(DAY_MS);
  });

  test("idempo: window never extended by repeats", async (context) => {
    const { guard, store, sleep, idOf } = await openScene(context, pair);
    const { run } = guard({ retentionMs: DAY_MS });
    await run(SUBJECT, () => 1);
    const { keptUntil } = (await store.read(idOf("pay", "k"))) ?? {};
    await sleep(10);
    for (let repeat = 0; repeat < 5; repeat++) await run(SUBJECT, () => expect.unreachable());
    expect(await store.read(idOf("pay", "k"))).toMatchObject({ keptUntil });
  });

  test("idempo: lazy expiry on access", async (context) => {
    const { work, sleep } = await openScene(context, pair);
    const { here, there } = work();
    await (await here.begin()).complete("paid", WINDOW_MS);
    await sleep(1.5 * WINDOW_MS);
    // Nobody has purged.
    expect(await there.read()).toBeUndefined();
    expect(await there.attempt().claim()).toMatchObject({ status: "new", number: 1, tookOver: false });
  });

  test("an outcome can be kept for 30 days", async (context) => {
    const { guard, store, idOf } = await openScene(context, pair);
    await guard({ retentionMs: 30 * DAY_MS }).run(SUBJECT, () => 1);
    expect(await windowOf(store.read(idOf("pay", "k")))).toBe(30 * DAY_MS);
  });
});

// Redis removes expired records itself.
describe.each([
  ["SQLite", PAIRS.SQLite],
  ["Postgres", PAIRS.Postgres],
] as const)("on %s", (_, pair) => {
  test("idempo: background sweep", async (context) => {
    const { guard, work, sleep } = await openScene(context, pair);
    const works = Array.from({ length: 10 }, () => work().here);
    for (const each of works) await (await each.begin()).complete("paid", 1);
    await sleep(20);
    const { run, events } = guard({ purgeEveryMs: 10 });
    // Purges start with the first call.
    await run({ ...SUBJECT, key: "first" }, () => "paid");
    const removed = () =>
      events.reduce((sum, event) => sum + (event.kind === "purged" ? event.removed : 0), 0);
    await vi.waitFor(() => expect(removed()).toBe(10));
  });
});

async function windowOf(
  reading: Promise<{ readonly completedAt: number | undefined; readonly keptUntil: number } | undefined>,
): Promise<number> {
  const { completedAt = Number.NaN, keptUntil = Number.NaN } = (await reading) ?? {};
  return Math.round(keptUntil - completedAt);
}
