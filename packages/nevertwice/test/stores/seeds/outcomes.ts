/** What is remembered of work, and what a repeat of it is told. */
import { expect } from "vitest";
import { BOTH, GUIDE, IDEMPO, type Rows } from "./scene.ts";

const SUBJECT = { operation: "pay", key: "k" };

export const OUTCOMES: Rows = {
  "remembers completion": {
    of: BOTH,
    async check({ work }) {
      const { here, there } = work();
      await (await here.begin()).complete("paid");
      expect(await there.attempt().claim()).toEqual({ status: "completed", outcome: "paid" });
    },
  },
  "replays the original result": {
    of: BOTH,
    async check({ guard, store, elsewhere }) {
      const receipt = { id: 7n, at: new Date(0), lines: ["ä", "𝄞", ""], bytes: new Uint8Array([0, 255]) };
      expect(await guard({ store }).run(SUBJECT, () => receipt)).toEqual(receipt);
      expect(await guard({ store: elsewhere }).run(SUBJECT, () => expect.unreachable())).toEqual(receipt);
    },
  },
  "duplicate as typed error": {
    of: BOTH,
    async check({ guard }) {
      await guard().run(SUBJECT, () => 1);
      const repeat = guard({ onCompleted: "reject" }).run(SUBJECT, () => expect.unreachable());
      await expect(repeat).rejects.toMatchObject({ code: "already-done", status: 409 });
    },
  },
  "request fingerprint": {
    of: IDEMPO,
    async check({ guard, store, idOf }) {
      await guard().run({ ...SUBJECT, fingerprint: { amount: 1 } }, () => 1);
      await guard().run({ operation: "pay", key: "same", fingerprint: { amount: 1 } }, () => 1);
      await guard().run({ operation: "pay", key: "other", fingerprint: { amount: 2 } }, () => 1);
      const kept = await Promise.all(["k", "same", "other"].map((key) => store.read(idOf("pay", key))));
      expect(kept[0]?.fingerprint).toMatch(/^\d+:[0-9a-f]{64}$/);
      expect(kept[1]?.fingerprint).toBe(kept[0]?.fingerprint);
      expect(kept[2]?.fingerprint).not.toBe(kept[0]?.fingerprint);
    },
  },
  "fingerprint mismatch rejected": {
    of: IDEMPO,
    async check({ guard }) {
      await guard().run({ ...SUBJECT, fingerprint: { amount: 1 } }, () => 1);
      const other = guard().tryRun({ ...SUBJECT, fingerprint: { amount: 2 } }, () => expect.unreachable());
      expect(await other).toEqual({ status: "conflict", state: "completed" });
    },
  },
  "mismatch while in flight detected": {
    of: IDEMPO,
    async check({ guard }) {
      const other = guard();
      const answer = await guard().run({ ...SUBJECT, fingerprint: { amount: 1 } }, () =>
        other.tryRun({ ...SUBJECT, fingerprint: { amount: 2 } }, () => expect.unreachable()),
      );
      expect(answer).toEqual({ status: "conflict", state: "pending" });
    },
  },
  "failure releases key": {
    of: IDEMPO,
    async check({ guard }) {
      const { run, read } = guard();
      await expect(run(SUBJECT, () => Promise.reject(new Error("declined")))).rejects.toThrow("declined");
      expect(await read(SUBJECT)).toMatchObject({ state: "released" });
      expect(await run(SUBJECT, ({ number }) => number)).toBe(2);
    },
  },
  "failure cached and replayed": {
    of: BOTH,
    async check({ guard }) {
      const { run } = guard({ onFailure: "remember" });
      await expect(run(SUBJECT, () => Promise.reject(new Error("declined")))).rejects.toThrow("declined");
      await expect(run(SUBJECT, () => expect.unreachable())).rejects.toThrow("declined");
    },
  },
  "error text stored": {
    of: GUIDE,
    async check({ guard, store, idOf }) {
      const { run } = guard({ onFailure: "remember" });
      await expect(run(SUBJECT, () => Promise.reject(new Error("card 17 declined")))).rejects.toThrow();
      expect((await store.read(idOf("pay", "k")))?.outcome).toContain("card 17 declined");
    },
  },
  "failed state distinct": {
    of: GUIDE,
    async check({ guard }) {
      const { run, read } = guard({ onFailure: "remember" });
      await expect(run(SUBJECT, () => Promise.reject(new Error("declined")))).rejects.toThrow();
      await run({ operation: "pay", key: "fine" }, () => "declined");
      expect(await read(SUBJECT)).toMatchObject({ outcome: { kind: "thrown" } });
      expect(await read({ operation: "pay", key: "fine" })).toMatchObject({ outcome: { kind: "value" } });
    },
  },
  "intent written before the act": {
    of: BOTH,
    async check({ guard, elsewhere, idOf }) {
      const seen = await guard().run(SUBJECT, async ({ fence }) => {
        const record = await elsewhere.read(idOf("pay", "k"));
        return { state: record?.state, isOurs: record?.fence === fence };
      });
      expect(seen).toEqual({ state: "pending", isOurs: true });
    },
  },
  "size cap on stored result": {
    of: IDEMPO,
    async check({ guard }) {
      const { tryRun } = guard({ maxOutcomeBytes: 1_024 });
      const large = "x".repeat(2_000);
      expect(await tryRun(SUBJECT, () => large)).toEqual({ status: "ran", value: large, recorded: true });
      const repeat = await tryRun(SUBJECT, () => expect.unreachable());
      expect(repeat).toEqual({ status: "not-kept", reason: "too-large" });
    },
  },
};
