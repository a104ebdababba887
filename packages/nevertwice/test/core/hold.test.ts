/** Tests how long a held key waits for a decision: by `holdForMs`, and without it for ever. */
import { expect, it, vi } from "vitest";
import { createGuard, type PolicyOptions } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";

const HOUR_MS = 3_600_000;
const REQUEST = { operation: "charge", key: "k" };

/** A key that was held for two hours, and whose record is past its retention. */
async function held(policy: PolicyOptions) {
  let now = Date.now() - 2 * HOUR_MS;
  const store = memoryStore({ clock: { now: () => now } });
  const guard = createGuard({ store, purgeEveryMs: 0, retentionMs: HOUR_MS, onLapsed: "hold", ...policy });
  const lost = () => Promise.reject(new Error("lost"));
  await guard.tryRun({ ...REQUEST, onFailure: "unknown" }, lost).catch(() => {});
  now += 2 * HOUR_MS;
  return guard;
}

it("stays unknown for ever without holdForMs", async () => {
  const guard = await held({});
  expect(await guard.tryRun(REQUEST, () => 1)).toMatchObject({ status: "unknown" });
});

it("is expired after holdForMs, asks no longer, and stays until an operator decides", async () => {
  const reconcile = vi.fn(async () => ({ status: "not-done" }) as const);
  const guard = await held({ holdForMs: HOUR_MS, reconcile });
  for (let i = 0; i < 2; i++) {
    await expect(guard.run(REQUEST, () => 1)).rejects.toMatchObject({ code: "expired", retryable: false });
  }
  expect(reconcile).not.toHaveBeenCalled();
  await guard.purge();
  const { fence = 0 } = (await guard.read(REQUEST)) ?? {};
  expect(await guard.resolve({ ...REQUEST, fence }, { status: "done", value: 2 })).toBe(true);
  expect(await guard.run(REQUEST, () => 1)).toBe(2);
});

it("is asked about before holdForMs has passed", async () => {
  const guard = await held({ holdForMs: 3 * HOUR_MS, reconcile: async () => ({ status: "not-done" }) });
  expect(await guard.run(REQUEST, () => 1)).toBe(1);
});
