/** What becomes of the work when the store, the work or the caller fails. */
import { expect, vi } from "vitest";
import { faultyStore } from "../../../src/testing/faulty-store.ts";
import { BOTH, IDEMPO, type Rows } from "./scene.ts";

const SUBJECT = { operation: "pay", key: "k" };

export const FAILURES: Rows = {
  "store down at claim: fail closed": {
    of: BOTH,
    async check({ store, guard }) {
      const faulty = faultyStore(store, { rates: { refuse: 1 } });
      const { tryRun } = guard({ store: faulty });
      const answer = await tryRun(SUBJECT, () => expect.unreachable());
      expect(answer).toMatchObject({
        status: "unavailable",
        error: { code: "unavailable", retryable: true },
      });
      faulty.setRates({});
      expect(await tryRun(SUBJECT, () => "paid")).toMatchObject({ status: "ran", recorded: true });
    },
  },
  "store down after effect: serve + log": {
    of: BOTH,
    async check({ store, guard, elsewhere, idOf }) {
      const faulty = faultyStore(store);
      const { tryRun, events } = guard({ store: faulty });
      faulty.plan("complete", "refuse");
      expect(await tryRun(SUBJECT, () => "paid")).toEqual({ status: "ran", value: "paid", recorded: false });
      expect(events).toContainEqual(expect.objectContaining({ kind: "unavailable", during: "complete" }));
      await vi.waitFor(async () =>
        expect(await elsewhere.read(idOf("pay", "k"))).toMatchObject({ state: "completed" }),
      );
      expect(await tryRun(SUBJECT, () => expect.unreachable())).toEqual({
        status: "replayed",
        value: "paid",
      });
    },
  },
  "panic/exception releases": {
    of: IDEMPO,
    async check({ guard }) {
      const { run } = guard();
      const broken = (): number => {
        throw new TypeError("undefined is not a function");
      };
      await expect(run(SUBJECT, broken)).rejects.toThrow(TypeError);
      expect(await run(SUBJECT, () => "paid")).toBe("paid");
    },
  },
  "timeout on persist call": {
    of: IDEMPO,
    async check({ store, guard, elsewhere, idOf }) {
      const faulty = faultyStore(store);
      const { tryRun } = guard({ store: faulty, completeWaitMs: 100 });
      faulty.plan("complete", "hang");
      const startedAt = performance.now();
      expect(await tryRun(SUBJECT, () => "paid")).toMatchObject({ status: "ran", recorded: false });
      expect(performance.now() - startedAt).toBeLessThan(2_000);
      await vi.waitFor(async () =>
        expect(await elsewhere.read(idOf("pay", "k"))).toMatchObject({ state: "completed" }),
      );
    },
  },
  "persist detached from request cancellation": {
    of: IDEMPO,
    async check({ guard, store, sleep, idOf }) {
      const controller = new AbortController();
      const call = guard().run({ ...SUBJECT, signal: controller.signal }, async () => {
        controller.abort(new Error("the client has gone"));
        await sleep(20);
        return "paid";
      });
      await expect(call).rejects.toThrow("the client has gone");
      await vi.waitFor(async () =>
        expect(await store.read(idOf("pay", "k"))).toMatchObject({ state: "completed" }),
      );
      expect(await guard().run(SUBJECT, () => expect.unreachable())).toBe("paid");
    },
  },
  "deadline/cancel honoured by store": {
    of: BOTH,
    async check({ store, guard }) {
      const faulty = faultyStore(store, { rates: { hang: 1 } });
      const startedAt = performance.now();
      const late = guard({ store: faulty, storeTimeoutMs: 100 }).tryRun(SUBJECT, () => expect.unreachable());
      expect(await late).toMatchObject({ status: "unavailable" });
      expect(performance.now() - startedAt).toBeLessThan(2_000);
      const call = { ...SUBJECT, signal: AbortSignal.timeout(50) };
      const cancelled = guard({ store: faulty, storeTimeoutMs: 100 }).run(call, () => expect.unreachable());
      await expect(cancelled).rejects.toMatchObject({ name: "TimeoutError" });
      expect(performance.now() - startedAt).toBeLessThan(3_000);
      faulty.setRates({});
      expect(await guard({ store: faulty }).run(SUBJECT, () => "paid")).toBe("paid");
    },
  },
  "close / shutdown drain": {
    of: IDEMPO,
    async check({ guard, store, sleep, idOf }) {
      const { run, close } = guard();
      let running: Promise<string> | undefined;
      await new Promise<void>((started) => {
        running = run(SUBJECT, async () => {
          started();
          await sleep(100);
          return "paid";
        });
      });
      expect(await close()).toEqual([]);
      expect(await store.read(idOf("pay", "k"))).toMatchObject({ state: "completed" });
      expect(await running).toBe("paid");
      await expect(run(SUBJECT, () => expect.unreachable())).rejects.toMatchObject({ code: "guard-closed" });
    },
  },
};
