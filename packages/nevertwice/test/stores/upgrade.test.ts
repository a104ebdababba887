/** Tests what docs/upgrade.md promises: an upgrade under load from a release without steps and history, and the way back. */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { toIdentity } from "../../src/core/identity.ts";
import type { Store } from "../../src/core/store.ts";
import { createGuard, type Guard } from "../../src/index.ts";
import { RELEASES, type Releases } from "./beside/releases.ts";

const KEYS = 60;
const LEASE_MS = 300;

interface Shop {
  readonly earlier: Guard;
  readonly later: Guard;
  /** How often the work of each key was done. */
  readonly effects: Map<string, number>;
  /** In the order of the attempts. */
  readonly fences: Map<string, number[]>;
}

function openShop({ withSteps, withoutSteps }: Releases): Shop {
  const open = (store: Store) => createGuard({ store, namespace: "shop", waitMs: 60_000, purgeEveryMs: 0 });
  return { earlier: open(withoutSteps), later: open(withSteps), effects: new Map(), fences: new Map() };
}

const namesOf = (phase: string) => Array.from({ length: KEYS }, (_, index) => `${phase}-${index}`);

async function charge({ effects, fences }: Shop, guard: Guard, key: string): Promise<unknown> {
  const request = { operation: "charge", key, fingerprint: { key } };
  return guard.run(request, async (attempt) => {
    effects.set(key, (effects.get(key) ?? 0) + 1);
    fences.set(key, [...(fences.get(key) ?? []), attempt.fence]);
    await sleep(1);
    return `receipt of ${key}`;
  });
}

/** Every key at the same moment through all of the guards. */
async function chargeThrough(shop: Shop, guards: readonly Guard[], keys: readonly string[]): Promise<void> {
  const answers = await Promise.all(
    keys.flatMap((key) => guards.map(async (guard) => [key, await charge(shop, guard, key)] as const)),
  );
  for (const [key, answer] of answers) expect(answer).toBe(`receipt of ${key}`);
}

/** A process claims the key and is gone. Returns its fence. */
async function leaveRunning(store: Store, key: string): Promise<number> {
  const parts = { namespace: "shop", scope: "", operation: "charge", key };
  const claim = { id: toIdentity(parts).id, parts, token: randomUUID(), retentionMs: 60_000, hold: false };
  const answer = await store.claim({ ...claim, leaseMs: LEASE_MS });
  if (answer.status !== "new") throw new Error(`the key is ${answer.status}`);
  return answer.fence;
}

for (const [name, open] of RELEASES)
  test(`an upgrade under load on ${name}, and the way back, repeat no work and lose no outcome`, async (context) => {
    const releases = await open(context);
    const shop = openShop(releases);
    const { earlier, later } = shop;
    const done: string[] = [];
    const phase = async (title: string, guards: readonly Guard[]) => {
      const keys = namesOf(title);
      await chargeThrough(shop, guards, keys);
      done.push(...keys);
    };

    await phase("before", [earlier]);
    await Promise.all([phase("migrating", [earlier]), releases.migrate()]);
    await phase("rolling", [earlier, later]);
    const left = await leaveRunning(releases.withoutSteps, "left by the earlier release");
    await phase("after", [later]);
    await chargeThrough(shop, [later], ["left by the earlier release"]);
    await chargeThrough(shop, [later], done);

    const leftAgain = await leaveRunning(releases.withSteps, "left by the later release");
    await phase("rolling back", [later, earlier]);
    await phase("back", [earlier]);
    await chargeThrough(shop, [earlier], ["left by the later release"]);
    await chargeThrough(shop, [earlier], [...done, "left by the earlier release"]);
    await phase("forward again", [later]);
    await chargeThrough(shop, [later], done);

    expect([...shop.effects].filter(([, times]) => times !== 1)).toEqual([]);
    expect(shop.effects.size).toBe(7 * KEYS + 2);
    expect(shop.fences.get("left by the earlier release")?.[0]).toBeGreaterThan(left);
    expect(shop.fences.get("left by the later release")?.[0]).toBeGreaterThan(leftAgain);
    await Promise.all([earlier.close(), later.close()]);
  });
