/** Tests that a backup which is taken under load can be restored: docs/backup.md gives the commands. Needs the build. */
import { expect, type TestContext, test } from "vitest";
import { diagnose } from "../../src/core/doctor.ts";
import type { Store } from "../../src/core/store.ts";
import { createGuard, type Guard } from "../../src/index.ts";
import { BACKUPS, type Backup } from "./backups.ts";
import { count, report } from "./figures.ts";
import { openSubject } from "./subjects.ts";

const CALLERS = 8;
const KEYS_BEFORE = 200;
const KEYS_AFTER = 100;
/** A key that was running at the backup is taken over this much later. */
const LEASE_MS = 3_000;

interface Shop {
  readonly guard: Guard;
  readonly store: Store;
  /** The keys whose outcome the caller has, in the order in which it got them. */
  readonly acknowledged: string[];
  readonly fences: number[];
  /** How often the work of each key was done. */
  readonly effects: Map<string, number>;
  /** Resolves when so many keys are acknowledged. */
  reached(keys: number): Promise<void>;
  /** Waits for the calls in flight. */
  end(): Promise<void>;
}

async function charge({ guard, effects, fences }: Omit<Shop, "reached" | "end">, key: string) {
  return guard.tryRun({ operation: "charge", key, fingerprint: { key } }, (attempt) => {
    effects.set(key, (effects.get(key) ?? 0) + 1);
    fences.push(attempt.fence);
    return `receipt of ${key}`;
  });
}

async function openGuard(context: TestContext, url: string) {
  const store = await openSubject(context, url);
  const guard = createGuard({ store, namespace: "shop", leaseMs: LEASE_MS, waitMs: 60_000, purgeEveryMs: 0 });
  return { store, guard, acknowledged: [], fences: [], effects: new Map() };
}

/** A shop whose callers charge one key after another. */
async function openShop(context: TestContext, url: string): Promise<Shop> {
  const shop = await openGuard(context, url);
  const acknowledged: string[] = shop.acknowledged;
  let next = 0;
  let isOpen = true;
  const awaited: { keys: number; resolve: () => void }[] = [];
  async function caller(): Promise<void> {
    while (isOpen) {
      const key = `order-${next++}`;
      expect(await charge(shop, key)).toMatchObject({ status: "ran", recorded: true });
      acknowledged.push(key);
      for (const { keys, resolve } of awaited) if (acknowledged.length >= keys) resolve();
    }
  }
  const ended = Promise.all(Array.from({ length: CALLERS }, caller));
  return {
    ...shop,
    acknowledged,
    reached: (keys) =>
      Promise.race([new Promise<void>((resolve) => awaited.push({ keys, resolve })), ended.then(() => {})]),
    async end() {
      isOpen = false;
      await ended;
      await shop.guard.close();
    },
  };
}

async function rehearse(context: TestContext, backup: Backup): Promise<void> {
  const { url, backUp, restore } = await backup.start(context);
  const shop = await openShop(context, url);
  await shop.reached(KEYS_BEFORE);
  const before = [...shop.acknowledged];
  await backUp();
  await shop.reached(shop.acknowledged.length + KEYS_AFTER);
  await shop.end();

  const restored = await openGuard(context, await restore());
  for (const key of before)
    expect(await charge(restored, key), key).toMatchObject({
      status: "replayed",
      value: `receipt of ${key}`,
    });
  expect(restored.effects.size).toBe(0);

  // The first of them were completed while the backup was taken, the last after it.
  const later = shop.acknowledged.slice(before.length);
  const after = [...later.slice(0, KEYS_AFTER), ...later.slice(-KEYS_AFTER)];
  for (const key of after) expect((await charge(restored, key)).status, key).toBeOneOf(["ran", "replayed"]);
  const repeated = restored.effects.size;
  // Otherwise the backup was taken after everything, and the trial has shown nothing.
  expect(repeated).toBeGreaterThan(0);
  expect(Math.min(...restored.fences)).toBeGreaterThan(Math.max(...shop.fences));
  const diagnosis = `${await diagnose(restored.store)}`;
  for (const said of ["restored backup", backup.setting, 'onLapsed: "hold"', "attempt.deriveKey"])
    expect(diagnosis).toContain(said);
  await report(restored.store, {
    trial: "A backup under load",
    figures: `${count(before.length)} keys were completed before the backup: all were replayed after it was restored. Of ${count(after.length)} keys completed later, ${count(repeated)} ran again when they were retried, and every fence was higher than before`,
  });
  await restored.guard.close();
}

for (const backup of BACKUPS)
  test(`a backup of ${backup.name} under load replays all that was completed before it, and fences still grow`, (context) =>
    rehearse(context, backup));
