/** Tests claims over two stores on one database: who may do the work, and who no longer may. */
import { describe, expect, test } from "vitest";
import { createGuard } from "../../src/functions/guard.ts";
import { SHORT_MS, tally } from "../../src/testing/cases/work.ts";
import { openScene, PAIRS } from "./shared/scene.ts";

describe.concurrent.each(Object.entries(PAIRS))("on %s", (_, pair) => {
  test("idempo: atomic first claim, one winner", async (context) => {
    const { work } = await openScene(context, pair);
    const { here, there } = work();
    const claims = Array.from({ length: 50 }, (_, index) => (index % 2 ? here : there).attempt().claim());
    expect(tally(await Promise.all(claims))).toEqual({ new: 1, pending: 49 });
  });

  test("idempo: in-flight duplicate: reject", async (context) => {
    const { guard } = await openScene(context, pair);
    const other = guard({ onPending: "reject" });
    let runs = 0;
    const first = guard().run({ operation: "pay", key: "k" }, async () => {
      runs++;
      return other.tryRun({ operation: "pay", key: "k" }, () => ++runs);
    });
    expect(await first).toMatchObject({ status: "pending" });
    expect(runs).toBe(1);
  });

  test("guards that wait for a running attempt all get its value", async (context) => {
    const { guard, sleep } = await openScene(context, pair);
    let runs = 0;
    const work = async () => {
      await sleep(50);
      return { receipt: ++runs };
    };
    const guards = [guard(), guard(), guard()];
    const answers = await Promise.all(guards.map((each) => each.run({ operation: "pay", key: "k" }, work)));
    expect(answers).toEqual([{ receipt: 1 }, { receipt: 1 }, { receipt: 1 }]);
    expect(runs).toBe(1);
  });

  test("idempo: fencing token per attempt", async (context) => {
    const { work } = await openScene(context, pair);
    const { here } = work();
    const first = await here.begin();
    await first.abandon("released");
    const second = await here.begin();
    expect(second.fence).toBeGreaterThan(first.fence);
    expect(await here.record()).toMatchObject({ token: second.token, fence: second.fence, number: 2 });
  });

  test("idempo: late completion no-op", async (context) => {
    const { work, sleep } = await openScene(context, pair);
    const { here, there } = work();
    const late = await here.begin({ leaseMs: SHORT_MS });
    await sleep(2 * SHORT_MS);
    const heir = await there.begin();
    expect(await late.complete("of the late one")).toBe(false);
    expect(await heir.complete("of the heir")).toBe(true);
    expect(await late.complete("of the late one")).toBe(false);
    expect(await here.record()).toMatchObject({ state: "completed", outcome: "of the heir" });
  });

  test("idempo: late release no-op", async (context) => {
    const { work, sleep } = await openScene(context, pair);
    const { here, there } = work();
    const late = await here.begin({ leaseMs: SHORT_MS });
    await sleep(2 * SHORT_MS);
    const heir = await there.begin();
    expect(await late.abandon("released")).toBe(false);
    expect(await here.record()).toMatchObject({ state: "pending", token: heir.token });
  });

  test("idempo: single-winner takeover of failed claim", async (context) => {
    const { work } = await openScene(context, pair);
    const { here, there } = work();
    await (await here.begin()).abandon("released");
    const claims = Array.from({ length: 50 }, (_, index) => (index % 2 ? here : there).attempt().claim());
    const answers = await Promise.all(claims);
    expect(tally(answers)).toEqual({ new: 1, pending: 49 });
    expect(answers.find(({ status }) => status === "new")).toMatchObject({ number: 2, tookOver: false });
  });

  test("idempo: single-winner takeover of stale claim", async (context) => {
    const { work, sleep } = await openScene(context, pair);
    const { here, there } = work();
    await here.begin({ leaseMs: SHORT_MS });
    await sleep(2 * SHORT_MS);
    const claims = Array.from({ length: 50 }, (_, index) => (index % 2 ? here : there).attempt().claim());
    const answers = await Promise.all(claims);
    expect(tally(answers)).toEqual({ new: 1, pending: 49 });
    expect(answers.find(({ status }) => status === "new")).toMatchObject({ number: 2, tookOver: true });
  });

  test("idempo: explicit release / re-arm", async (context) => {
    const { work } = await openScene(context, pair);
    const { here, there } = work();
    const first = await here.begin();
    expect(await there.attempt().claim()).toMatchObject({ status: "pending" });
    expect(await first.abandon("released")).toBe(true);
    expect(await there.attempt().claim()).toMatchObject({ status: "new", number: 2 });
  });

  test("reading a record changes nothing", async (context) => {
    const { guard } = await openScene(context, pair);
    const { run, read } = guard();
    const subject = { operation: "pay", key: "k" };
    expect(await read(subject)).toBeUndefined();
    expect(await run(subject, () => 42)).toBe(42);
    const seen = await read(subject);
    expect(seen).toMatchObject({ state: "completed", outcome: { kind: "value", value: 42 } });
    expect(await read(subject)).toEqual(seen);
  });

  test("idempo: store capability check at construction", async (context) => {
    const { store } = await openScene(context, pair);
    const { renew, ...lacking } = store;
    expect(renew).toBeTypeOf("function");
    expect(() => createGuard({ store: lacking as typeof store })).toThrow("it lacks renew");
  });

  test("idempo: cluster-wide via shared store", async (context) => {
    const { guard, store, elsewhere } = await openScene(context, pair);
    let runs = 0;
    const guards = [guard({ store }), guard({ store: elsewhere })];
    const calls = Array.from({ length: 40 }, (_, index) =>
      guards[index % 2]?.run({ operation: "pay", key: "k" }, () => ++runs),
    );
    expect(new Set(await Promise.all(calls))).toEqual(new Set([1]));
    expect(runs).toBe(1);
  });
});
