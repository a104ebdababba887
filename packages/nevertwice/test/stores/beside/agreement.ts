/** What a release with steps and one without must agree about when they share a database. */
import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import { toIdentity } from "../../../src/core/identity.ts";
import type { ClaimRequest, Store } from "../../../src/core/store.ts";

const LONG_MS = 60_000;
/** Long enough for two calls on a busy machine, short enough to wait for. */
const SHORT_MS = 400;

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** One key that both releases work on. */
function createKey() {
  const parts = { namespace: "beside", scope: "", operation: "order", key: randomUUID() };
  const { id } = toIdentity(parts);
  const claim = (store: Store, token: string, more: Partial<ClaimRequest> = {}) =>
    store.claim({ id, parts, token, leaseMs: LONG_MS, retentionMs: LONG_MS, hold: false, ...more });
  const keep = (store: Store, token: string, name: string) =>
    store.keepStep?.({ id, token, name, outcome: `${name} done` });
  const complete = (store: Store, token: string) =>
    store.complete({ id, token, outcome: "done", retentionMs: LONG_MS });
  return { id, claim, keep, complete };
}

const STEPS = [{ name: "charge", outcome: "charge done" }];

/** Each agreement by name. `without` is the release without steps. */
export const AGREEMENTS: Readonly<Record<string, (with_: Store, without: Store) => Promise<void>>> = {
  async "one owner, and one outcome for both"(with_, without) {
    const { id, claim, keep, complete } = createKey();
    await claim(with_, "new");
    expect(await keep(with_, "new", "charge")).toBe(true);
    expect(await claim(without, "old")).toMatchObject({ status: "pending" });
    expect(await without.read(id)).toMatchObject({ state: "pending", token: "new" });
    expect(await complete(without, "old")).toBe(false);
    expect(await complete(with_, "new")).toBe(true);
    expect(await claim(without, "old")).toEqual({ status: "completed", outcome: "done" });
    expect(await with_.read(id)).not.toHaveProperty("steps");
  },

  async "a takeover by the release without steps ends the steps and the claim before it"(with_, without) {
    const { id, claim, keep } = createKey();
    await claim(with_, "new", { leaseMs: SHORT_MS });
    await keep(with_, "new", "charge");
    await sleep(SHORT_MS + 50);
    expect(await claim(without, "old")).toMatchObject({ status: "new", number: 2, tookOver: true });
    expect(await keep(with_, "new", "ship")).toBe(false);
    expect(await with_.read(id)).not.toHaveProperty("steps");
    expect(await without.renew({ id, token: "old", leaseMs: LONG_MS })).toBe(true);
    expect(await without.abandon({ id, token: "old", as: "released" })).toBe(true);
    const answer = await claim(with_, "newer");
    expect(answer).toMatchObject({ status: "new", number: 3, tookOver: false });
    expect(answer).not.toHaveProperty("steps");
  },

  async "a claim of a released key by the release without steps ends the steps"(with_, without) {
    const { id, claim, keep } = createKey();
    await claim(with_, "new");
    await keep(with_, "new", "charge");
    await with_.abandon({ id, token: "new", as: "released" });
    expect(await claim(without, "old", { leaseMs: SHORT_MS })).toMatchObject({ status: "new", number: 2 });
    await sleep(SHORT_MS + 50);
    const answer = await claim(with_, "newer");
    expect(answer).toMatchObject({ status: "new", number: 3, tookOver: true });
    expect(answer).not.toHaveProperty("steps");
  },

  async "steps of an earlier life stay in that life"(with_, without) {
    const { claim, keep } = createKey();
    await claim(with_, "new", { leaseMs: SHORT_MS, retentionMs: 1 });
    await keep(with_, "new", "charge");
    await sleep(SHORT_MS + 50);
    expect(await claim(without, "old", { leaseMs: SHORT_MS })).toMatchObject({ status: "new", number: 1 });
    await sleep(SHORT_MS + 50);
    const answer = await claim(with_, "newer");
    expect(answer).toMatchObject({ status: "new", number: 2 });
    expect(answer).not.toHaveProperty("steps");
  },

  async "work that the release without steps began goes on with steps"(with_, without) {
    const { id, claim, keep, complete } = createKey();
    await claim(without, "old", { leaseMs: SHORT_MS });
    expect(await keep(with_, "new", "charge")).toBe(false);
    await sleep(SHORT_MS + 50);
    await claim(with_, "new");
    expect(await keep(with_, "new", "charge")).toBe(true);
    await with_.abandon({ id, token: "new", as: "released" });
    expect(await claim(with_, "newer")).toMatchObject({ status: "new", number: 3, steps: STEPS });
    expect(await complete(with_, "newer")).toBe(true);
    expect(await without.read(id)).toMatchObject({ state: "completed", outcome: "done" });
  },

  async "attempts are not listed from before one that the release without history began, and are counted"(
    with_,
    without,
  ) {
    const { id, claim } = createKey();
    await claim(with_, "new");
    await with_.renew({ id, token: "new", leaseMs: LONG_MS });
    await with_.abandon({ id, token: "new", as: "released" });
    await claim(without, "old");
    const during = await with_.read(id);
    expect(during?.history).toMatchObject({
      attempts: [{ number: 2, renewals: 0, ended: undefined }],
      dropped: 1,
    });
    await without.abandon({ id, token: "old", as: "unknown" });
    await claim(with_, "newer");
    const after = await with_.read(id);
    expect(after?.history).toMatchObject({
      attempts: [
        { number: 2, renewals: 0, ended: "unknown", endedAt: undefined },
        { number: 3, ended: undefined },
      ],
      dropped: 1,
    });
  },

  async "the release without steps forgets and reopens records of the other"(with_, without) {
    const { id, claim, keep, complete } = createKey();
    await claim(with_, "new");
    await keep(with_, "new", "charge");
    await with_.abandon({ id, token: "new", as: "released" });
    const { fence = 0 } = (await without.read(id)) ?? {};
    expect(await without.forget?.({ id, fence })).toBe(true);
    expect(await claim(with_, "newer")).not.toHaveProperty("steps");
    await keep(with_, "newer", "charge");
    await complete(with_, "newer");
    const { fence: later = 0 } = (await without.read(id)) ?? {};
    expect(await without.forget?.({ id, fence: later, reopen: true })).toBe(true);
    expect(await claim(with_, "newest")).not.toHaveProperty("steps");
  },
};
