/** Tests outcomes over two stores on one database: what is kept, and what a duplicate gets. */
import { describe, expect, test } from "vitest";
import { openScene, PAIRS } from "./shared/scene.ts";

const SUBJECT = { operation: "pay", key: "k" };

describe.concurrent.each(Object.entries(PAIRS))("on %s", (_, pair) => {
  test("idempo: remembers completion", async (context) => {
    const { work } = await openScene(context, pair);
    const { here, there } = work();
    await (await here.begin()).complete("paid");
    expect(await there.attempt().claim()).toEqual({ status: "completed", outcome: "paid" });
  });

  test("idempo: replays the original result", async (context) => {
    const { guard, store, elsewhere } = await openScene(context, pair);
    const receipt = { id: 7n, at: new Date(0), lines: ["ä", "𝄞", ""], bytes: new Uint8Array([0, 255]) };
    expect(await guard({ store }).run(SUBJECT, () => receipt)).toEqual(receipt);
    expect(await guard({ store: elsewhere }).run(SUBJECT, () => expect.unreachable())).toEqual(receipt);
  });

  test("idempo: duplicate as typed error", async (context) => {
    const { guard } = await openScene(context, pair);
    await guard().run(SUBJECT, () => 1);
    const repeat = guard({ onCompleted: "reject" }).run(SUBJECT, () => expect.unreachable());
    await expect(repeat).rejects.toMatchObject({ code: "already-done", status: 409 });
  });

  test("idempo: request fingerprint", async (context) => {
    const { guard, store, idOf } = await openScene(context, pair);
    await guard().run({ ...SUBJECT, fingerprint: { amount: 1 } }, () => 1);
    await guard().run({ operation: "pay", key: "same", fingerprint: { amount: 1 } }, () => 1);
    await guard().run({ operation: "pay", key: "other", fingerprint: { amount: 2 } }, () => 1);
    const kept = await Promise.all(["k", "same", "other"].map((key) => store.read(idOf("pay", key))));
    expect(kept[0]?.fingerprint).toMatch(/^\d+:[\w-]{43}$/);
    expect(kept[1]?.fingerprint).toBe(kept[0]?.fingerprint);
    expect(kept[2]?.fingerprint).not.toBe(kept[0]?.fingerprint);
  });

  test("idempo: fingerprint mismatch rejected", async (context) => {
    const { guard } = await openScene(context, pair);
    await guard().run({ ...SUBJECT, fingerprint: { amount: 1 } }, () => 1);
    const other = guard().tryRun({ ...SUBJECT, fingerprint: { amount: 2 } }, () => expect.unreachable());
    expect(await other).toEqual({ status: "conflict", state: "completed" });
  });

  test("idempo: mismatch while in flight detected", async (context) => {
    const { guard } = await openScene(context, pair);
    const other = guard();
    const answer = await guard().run({ ...SUBJECT, fingerprint: { amount: 1 } }, () =>
      other.tryRun({ ...SUBJECT, fingerprint: { amount: 2 } }, () => expect.unreachable()),
    );
    expect(answer).toEqual({ status: "conflict", state: "pending" });
  });

  test("idempo: failure releases key", async (context) => {
    const { guard } = await openScene(context, pair);
    const { run, read } = guard();
    await expect(run(SUBJECT, () => Promise.reject(new Error("declined")))).rejects.toThrow("declined");
    expect(await read(SUBJECT)).toMatchObject({ state: "released" });
    expect(await run(SUBJECT, ({ number }) => number)).toBe(2);
  });

  test("idempo: failure cached and replayed", async (context) => {
    const { guard } = await openScene(context, pair);
    const { run } = guard({ onFailure: "remember" });
    await expect(run(SUBJECT, () => Promise.reject(new Error("declined")))).rejects.toThrow("declined");
    await expect(run(SUBJECT, () => expect.unreachable())).rejects.toThrow("declined");
  });

  test("the record of a remembered failure has its message", async (context) => {
    const { guard, store, idOf } = await openScene(context, pair);
    const { run } = guard({ onFailure: "remember" });
    await expect(run(SUBJECT, () => Promise.reject(new Error("card 17 declined")))).rejects.toThrow();
    expect((await store.read(idOf("pay", "k")))?.outcome).toContain("card 17 declined");
  });

  test("a remembered failure is told apart from a returned value", async (context) => {
    const { guard } = await openScene(context, pair);
    const { run, read } = guard({ onFailure: "remember" });
    await expect(run(SUBJECT, () => Promise.reject(new Error("declined")))).rejects.toThrow();
    await run({ operation: "pay", key: "fine" }, () => "declined");
    expect(await read(SUBJECT)).toMatchObject({ outcome: { kind: "thrown" } });
    expect(await read({ operation: "pay", key: "fine" })).toMatchObject({ outcome: { kind: "value" } });
  });

  test("idempo: intent written before the act", async (context) => {
    const { guard, elsewhere, idOf } = await openScene(context, pair);
    const seen = await guard().run(SUBJECT, async ({ fence }) => {
      const record = await elsewhere.read(idOf("pay", "k"));
      return { state: record?.state, isOurs: record?.fence === fence };
    });
    expect(seen).toEqual({ state: "pending", isOurs: true });
  });

  test("idempo: size cap on stored result", async (context) => {
    const { guard } = await openScene(context, pair);
    const { tryRun } = guard({ maxOutcomeBytes: 1_024 });
    const large = "x".repeat(2_000);
    expect(await tryRun(SUBJECT, () => large)).toEqual({ status: "ran", value: large, recorded: true });
    const repeat = await tryRun(SUBJECT, () => expect.unreachable());
    expect(repeat).toEqual({ status: "not-kept", reason: "too-large" });
  });
});
