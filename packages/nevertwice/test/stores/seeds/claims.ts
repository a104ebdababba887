/** Who may do the work, and who no longer may. */
import { expect } from "vitest";
import { createGuard } from "../../../src/functions/guard.ts";
import { SHORT_MS, tally } from "../../../src/testing/cases/work.ts";
import { BOTH, GUIDE, IDEMPO, type Rows } from "./scene.ts";

export const CLAIMS: Rows = {
  "atomic first claim, one winner": {
    of: BOTH,
    async check({ work }) {
      const { here, there } = work();
      const claims = Array.from({ length: 50 }, (_, index) => (index % 2 ? here : there).attempt().claim());
      expect(tally(await Promise.all(claims))).toEqual({ new: 1, pending: 49 });
    },
  },
  "in-flight duplicate: reject": {
    of: BOTH,
    async check({ guard }) {
      const other = guard({ onPending: "reject" });
      let runs = 0;
      const first = guard().run({ operation: "pay", key: "k" }, async () => {
        runs++;
        return other.tryRun({ operation: "pay", key: "k" }, () => ++runs);
      });
      expect(await first).toMatchObject({ status: "pending" });
      expect(runs).toBe(1);
    },
  },
  "in-flight duplicate: wait then replay": {
    of: GUIDE,
    async check({ guard, sleep }) {
      let runs = 0;
      const work = async () => {
        await sleep(50);
        return { receipt: ++runs };
      };
      const guards = [guard(), guard(), guard()];
      const answers = await Promise.all(guards.map((each) => each.run({ operation: "pay", key: "k" }, work)));
      expect(answers).toEqual([{ receipt: 1 }, { receipt: 1 }, { receipt: 1 }]);
      expect(runs).toBe(1);
    },
  },
  "fencing token per attempt": {
    of: IDEMPO,
    async check({ work }) {
      const { here } = work();
      const first = await here.begin();
      await first.abandon("released");
      const second = await here.begin();
      expect(second.fence).toBeGreaterThan(first.fence);
      expect(await here.record()).toMatchObject({ token: second.token, fence: second.fence, number: 2 });
    },
  },
  "late completion no-op": {
    of: IDEMPO,
    async check({ work, sleep }) {
      const { here, there } = work();
      const late = await here.begin({ leaseMs: SHORT_MS });
      await sleep(2 * SHORT_MS);
      const heir = await there.begin();
      expect(await late.complete("of the late one")).toBe(false);
      expect(await heir.complete("of the heir")).toBe(true);
      expect(await late.complete("of the late one")).toBe(false);
      expect(await here.record()).toMatchObject({ state: "completed", outcome: "of the heir" });
    },
  },
  "late release no-op": {
    of: IDEMPO,
    async check({ work, sleep }) {
      const { here, there } = work();
      const late = await here.begin({ leaseMs: SHORT_MS });
      await sleep(2 * SHORT_MS);
      const heir = await there.begin();
      expect(await late.abandon("released")).toBe(false);
      expect(await here.record()).toMatchObject({ state: "pending", token: heir.token });
    },
  },
  "single-winner takeover of failed claim": {
    of: IDEMPO,
    async check({ work }) {
      const { here, there } = work();
      await (await here.begin()).abandon("released");
      const claims = Array.from({ length: 50 }, (_, index) => (index % 2 ? here : there).attempt().claim());
      const answers = await Promise.all(claims);
      expect(tally(answers)).toEqual({ new: 1, pending: 49 });
      expect(answers.find(({ status }) => status === "new")).toMatchObject({ number: 2, tookOver: false });
    },
  },
  "single-winner takeover of stale claim": {
    of: IDEMPO,
    async check({ work, sleep }) {
      const { here, there } = work();
      await here.begin({ leaseMs: SHORT_MS });
      await sleep(2 * SHORT_MS);
      const claims = Array.from({ length: 50 }, (_, index) => (index % 2 ? here : there).attempt().claim());
      const answers = await Promise.all(claims);
      expect(tally(answers)).toEqual({ new: 1, pending: 49 });
      expect(answers.find(({ status }) => status === "new")).toMatchObject({ number: 2, tookOver: true });
    },
  },
  "explicit release / re-arm": {
    of: IDEMPO,
    async check({ work }) {
      const { here, there } = work();
      const first = await here.begin();
      expect(await there.attempt().claim()).toMatchObject({ status: "pending" });
      expect(await first.abandon("released")).toBe(true);
      expect(await there.attempt().claim()).toMatchObject({ status: "new", number: 2 });
    },
  },
  "non-destructive peek": {
    of: GUIDE,
    async check({ guard }) {
      const { run, read } = guard();
      const subject = { operation: "pay", key: "k" };
      expect(await read(subject)).toBeUndefined();
      expect(await run(subject, () => 42)).toBe(42);
      const seen = await read(subject);
      expect(seen).toMatchObject({ state: "completed", outcome: { kind: "value", value: 42 } });
      expect(await read(subject)).toEqual(seen);
    },
  },
  "store capability check at construction": {
    of: IDEMPO,
    async check({ store }) {
      const { renew, ...lacking } = store;
      expect(renew).toBeTypeOf("function");
      expect(() => createGuard({ store: lacking as typeof store })).toThrow("it lacks renew");
    },
  },
  "cluster-wide via shared store": {
    of: BOTH,
    async check({ guard, store, elsewhere }) {
      let runs = 0;
      const guards = [guard({ store }), guard({ store: elsewhere })];
      const calls = Array.from({ length: 40 }, (_, index) =>
        guards[index % 2]?.run({ operation: "pay", key: "k" }, () => ++runs),
      );
      expect(new Set(await Promise.all(calls))).toEqual(new Set([1]));
      expect(runs).toBe(1);
    },
  },
};
