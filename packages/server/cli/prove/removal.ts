/** Removes the records of a run from the store, one by one: no other record can be meant by their ids. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Store } from "nevertwice";
import type { ProvedKey } from "./recorded-store.ts";

const AT_ONCE = 8;
const MOST_PASSES = 20;

/** Resolves with how many keys could not be removed; they expire. */
export async function removeKeys(store: Store, keys: readonly ProvedKey[], leaseMs: number): Promise<number> {
  let left = keys;
  for (let pass = 0; pass < MOST_PASSES && left.length > 0; pass++) {
    // A claim that still runs is removed when its lease has ended.
    if (pass > 0) await sleep(leaseMs);
    left = await removeOnce(store, left);
  }
  return left.length;
}

async function removeOnce(store: Store, keys: readonly ProvedKey[]): Promise<readonly ProvedKey[]> {
  const waiting = [...keys];
  const left: ProvedKey[] = [];
  async function lane(): Promise<void> {
    for (let key = waiting.pop(); key !== undefined; key = waiting.pop()) {
      const isGone = await removeKey(store, key.id).catch(() => false);
      if (!isGone) left.push(key);
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  return left;
}

async function removeKey(store: Store, id: string): Promise<boolean> {
  const record = await store.read(id);
  if (record === undefined) return true;
  const { fence, state } = record;
  // A completed record would leave a marker. Reopened, it is released, and a released record is removed.
  if (state === "completed") await store.forget?.({ id, fence, reopen: true });
  await store.forget?.({ id, fence });
  return (await store.read(id)) === undefined;
}
