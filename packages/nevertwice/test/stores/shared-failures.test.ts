/** Tests failures of the store, the work and the caller, over two stores on one database. */
import { describe, expect, test, vi } from "vitest";
import { faultyStore } from "../../src/testing/faulty-store.ts";
import { openScene, PAIRS } from "./shared/scene.ts";

const SUBJECT = { operation: "pay", key: "k" };

describe.concurrent.each(Object.entries(PAIRS))("on %s", (_, pair) => {
  test("idempo: store down at claim: fail closed", async (context) => {
    const { store, guard } = await openScene(context, pair);
    const faulty = faultyStore(store, { rates: { refuse: 1 } });
    const { tryRun } = guard({ store: faulty });
    const answer = await tryRun(SUBJECT, () => expect.unreachable());
    expect(answer).toMatchObject({
      status: "unavailable",
      error: { code: "unavailable", retryable: true },
    });
    faulty.setRates({});
    expect(await tryRun(SUBJECT, () => "paid")).toMatchObject({ status: "ran", recorded: true });
  });

  test("idempo: store down after effect: serve + log", async (context) => {
    const { store, guard, elsewhere, idOf } = await openScene(context, pair);
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
  });

  test("idempo: panic/exception releases", async (context) => {
    const { guard } = await openScene(context, pair);
    const { run } = guard();
    const broken = (): number => {
      throw new TypeError("undefined is not a function");
    };
    await expect(run(SUBJECT, broken)).rejects.toThrow(TypeError);
    expect(await run(SUBJECT, () => "paid")).toBe("paid");
  });

  test("idempo: timeout on persist call", async (context) => {
    const { store, guard, elsewhere, idOf } = await openScene(context, pair);
    const faulty = faultyStore(store);
    const { tryRun } = guard({ store: faulty, completeWaitMs: 100 });
    faulty.plan("complete", "hang");
    const startedAt = performance.now();
    expect(await tryRun(SUBJECT, () => "paid")).toMatchObject({ status: "ran", recorded: false });
    expect(performance.now() - startedAt).toBeLessThan(4_500);
    await vi.waitFor(async () =>
      expect(await elsewhere.read(idOf("pay", "k"))).toMatchObject({ state: "completed" }),
    );
  });

  test("idempo: persist detached from request cancellation", async (context) => {
    const { guard, store, sleep, idOf } = await openScene(context, pair);
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
  });

  test("idempo: deadline/cancel honoured by store", async (context) => {
    const { store, guard } = await openScene(context, pair);
    const faulty = faultyStore(store, { rates: { hang: 1 } });
    const startedAt = performance.now();
    const late = guard({ store: faulty, storeTimeoutMs: 100 }).tryRun(SUBJECT, () => expect.unreachable());
    expect(await late).toMatchObject({ status: "unavailable" });
    expect(performance.now() - startedAt).toBeLessThan(4_500);
    const call = { ...SUBJECT, signal: AbortSignal.timeout(50) };
    // Its store never answers, so its end need not wait for that.
    const patient = guard({ store: faulty, storeTimeoutMs: 3_600_000, drainMs: 0 });
    await expect(patient.run(call, () => expect.unreachable())).rejects.toMatchObject({
      name: "TimeoutError",
    });
    faulty.setRates({});
    expect(await guard({ store: faulty }).run(SUBJECT, () => "paid")).toBe("paid");
  });

  test("idempo: close / shutdown drain", async (context) => {
    const { guard, store, sleep, idOf } = await openScene(context, pair);
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
  });
});
