/**
 * Tests records that a person or a broken disk has changed. Whatever a column contains, completed work does not run again, the
 * error names the problem, and every other key works as before.
 */
import { expect, type TestContext, test } from "vitest";
import { isNevertwiceError } from "../../src/core/errors.ts";
import { toIdentity } from "../../src/core/identity.ts";
import type { ClaimRequest, Store } from "../../src/core/store.ts";
import { createGuard, type Guard } from "../../src/index.ts";
import { everyPage } from "../every-page.ts";
import { DAMAGEABLE_STORES, type DamageableStore, sqliteDamageable } from "./damage/damageable-stores.ts";
import { connectionsBeside, scratchFiles } from "./sqlite/scratch.ts";

const GARBAGE: readonly unknown[] = [
  null,
  "",
  "garbage",
  '["1vp',
  "pending",
  "released",
  -1,
  0,
  1,
  7,
  1.5,
  // These fit into 64 bits, but their sum with a clock does not.
  9_222_000_000_000_000_000,
  -9_222_000_000_000_000_000,
];

const SCOPE = { operation: "o", scope: "s" };
const OUTCOME = ["1vp", "kept"];

function claimOf(key: string): ClaimRequest {
  const token = "another's";
  const lasting = { leaseMs: 60_000, retentionMs: 3_600_000, hold: false };
  return { ...toIdentity({ namespace: "n", ...SCOPE, key }), token, ...lasting };
}

/** The answer, or `damaged` if the store reports a damaged record. Any other error fails the test. */
async function asked<T>(what: string, answer: Promise<T> | undefined): Promise<T | "damaged"> {
  try {
    return (await answer) as T;
  } catch (error) {
    if (isNevertwiceError(error, "store-unsafe") && /damaged/.test(error.message)) return "damaged";
    throw new Error(`${what} failed with ${String(error)}`, { cause: error });
  }
}

/** Every call of a store for a key whose owner's token and fence are known. */
async function askEverything(store: Store, id: string, token: string, fence: number): Promise<void> {
  const completion = { id, outcome: JSON.stringify(OUTCOME), retentionMs: 3_600_000 };
  await asked("read", store.read(id));
  await asked("complete", store.complete({ ...completion, token }));
  await asked("another's complete", store.complete({ ...completion, token: "another's" }));
  await asked("renew", store.renew({ id, token, leaseMs: 60_000 }));
  await asked("abandon", store.abandon({ id, token, as: "released" }));
  await asked("takeover", store.claim({ ...claimOf(""), id, takeover: fence }));
  await asked("purge", store.purge(100));
}

async function expectNotRepeated(
  damageable: DamageableStore,
  guard: Guard,
  key: string,
  what: string,
): Promise<void> {
  const claimed = await asked(what, damageable.store.claim(claimOf(key)));
  expect(claimed === "damaged" ? claimed : claimed.status, what).toMatch(/^(damaged|completed|conflict)$/);
  const { status } = await guard
    .tryRun({ ...SCOPE, key }, () => {
      throw new Error(`${what}: the work was done again`);
    })
    .catch((error: unknown) => {
      if (isNevertwiceError(error)) return { status: error.code };
      throw error;
    });
  expect(status, what).toMatch(/^(store-unsafe|unavailable|replayed|already-done|not-kept|conflict)$/);
}

/** A list shows the readable records and names the unreadable ones. */
async function expectListed(
  guard: Guard,
  ids: readonly string[],
  what: string,
  limit?: number,
): Promise<void> {
  const { records, unreadable } = await everyPage(guard.list, limit);
  expect(
    [...records, ...unreadable].map(({ id }) => id),
    what,
  ).toEqual(expect.arrayContaining([...ids]));
}

/** Columns by which a list finds records. A record with a damaged one is not in the list. */
const OWNERS = ["namespace", "scope", "operation", "key", "parts"];

/** Columns by which a list is ordered. */
const PLACES = ["claimed_at", "claimedAt"];

interface Trial {
  readonly damageable: DamageableStore;
  readonly guard: Guard;
  readonly column: string;
  readonly value: unknown;
  readonly key: string;
  readonly what: string;
}

/** Damages one completed record and checks every call. Undefined if the database itself refused the value. */
async function damageOne({ damageable, guard, column, value, key, what }: Trial) {
  await guard.run({ ...SCOPE, key }, () => "kept");
  const { id } = claimOf(key);
  const { token, fence } = (await damageable.store.read(id)) ?? { token: "", fence: 0 };
  if (!(await damageable.damage(id, column, value))) return undefined;
  await expectNotRepeated(damageable, guard, key, what);
  await askEverything(damageable.store, id, token, fence);
  await expectNotRepeated(damageable, guard, key, what);
  await guard.resolve({ ...SCOPE, key, fence }, { status: "done", value: 1 }).catch((error: unknown) => {
    expect(isNevertwiceError(error), `${what}: resolve failed with ${String(error)}`).toBe(true);
  });
  return { id, key, fence, what };
}

async function damageColumn(
  damageable: DamageableStore,
  guard: Guard,
  name: string,
  column: string,
): Promise<number> {
  const trials = GARBAGE.map((value, index) => {
    const what = `${name}.${column} = ${JSON.stringify(value)}`;
    return damageOne({ damageable, guard, column, value, key: `${column} ${index}`, what });
  });
  const damaged = (await Promise.all(trials)).filter((trial) => trial !== undefined);
  const shown = OWNERS.includes(column) ? [] : damaged.map(({ id }) => id);
  const ids = [claimOf("healthy").id, ...shown];
  await expectListed(guard, ids, `${name}.${column}`);
  // A page may end at any record, also at one whose place in the list is damaged.
  if (PLACES.includes(column)) await expectListed(guard, ids, `${name}.${column}, page by page`, 1);
  for (const { id, key, fence, what } of damaged) {
    await asked("forget", damageable.store.forget?.({ id, fence }));
    await expectNotRepeated(damageable, guard, key, `${what}, forgotten`);
  }
  return damaged.length;
}

/** The same for pending records. Their work has no outcome yet, so the only requirement is that no call breaks. */
async function damageRunningColumn(
  damageable: DamageableStore,
  guard: Guard,
  name: string,
  column: string,
): Promise<number> {
  const { store } = damageable;
  const trials = GARBAGE.map(async (value, index) => {
    const claim = claimOf(`${column} ${index}`);
    const owner = { ...claim, token: "its owner's" };
    const answer = await store.claim(owner);
    if (!(await damageable.damage(claim.id, column, value))) return [];
    const what = `${name}.${column} = ${JSON.stringify(value)}`;
    await asked(`${what}: claim`, store.claim(claim));
    await asked(`${what}: own claim`, store.claim(owner));
    await askEverything(store, claim.id, owner.token, "fence" in answer ? answer.fence : 0);
    await asked(`${what}: forget`, store.forget?.({ id: claim.id, fence: 0 }));
    return [claim.id];
  });
  const damaged = (await Promise.all(trials)).flat();
  await expectListed(guard, [claimOf("healthy").id], `${name}.${column}`);
  return damaged.length;
}

/** Expired records: a purge must keep every record that a read reports as damaged, for a person to inspect. */
async function damageExpiredColumn(
  damageable: DamageableStore,
  _: Guard,
  name: string,
  column: string,
): Promise<number> {
  const { store } = damageable;
  const trials = GARBAGE.map(async (value, index) => {
    const claim = claimOf(`${column} ${index}`);
    await store.claim(claim);
    await store.complete({ ...claim, outcome: JSON.stringify(OUTCOME), retentionMs: 1 });
    const isKept = await damageable.damage(claim.id, column, value);
    const seen = await asked("read", store.read(claim.id));
    return { id: claim.id, what: `${name}.${column} = ${JSON.stringify(value)}`, isKept, seen };
  });
  const kept = (await Promise.all(trials)).filter(({ isKept }) => isKept);
  await store.purge(1_000);
  for (const { id, what, seen } of kept)
    if (seen === "damaged") expect(await asked("read", store.read(id)), what).toBe("damaged");
  return kept.length;
}

async function damageEach(
  context: TestContext,
  open: (context: TestContext) => Promise<DamageableStore>,
  name: string,
  damageOf = damageColumn,
): Promise<void> {
  const damageable = await open(context);
  // If the store reported `unavailable`, this guard would run without it.
  const guard = createGuard({ store: damageable.store, namespace: "n", onUnavailable: "proceed" });
  context.onTestFinished(async () => void (await guard.close()));
  await guard.run({ ...SCOPE, key: "healthy" }, () => "kept");
  const columns = await damageable.columns(claimOf("healthy").id);
  expect(columns.length).toBeGreaterThan(10);
  let kept = 0;
  for (const column of columns) {
    kept += await damageOf(damageable, guard, name, column);
    expect(await guard.run({ ...SCOPE, key: "healthy" }, () => "again")).toBe("kept");
  }
  // Most databases accept most of the values.
  expect(kept).toBeGreaterThan(columns.length);
}

const TIMEOUT = { timeout: 600_000 };

const files = scratchFiles();
const connect = connectionsBeside();

for (const [name, open] of Object.entries({
  ...DAMAGEABLE_STORES,
  SQLite: sqliteDamageable(files, connect),
})) {
  test(
    `damaged-record: completed work does not run again whatever a column of ${name} contains`,
    TIMEOUT,
    (context) => damageEach(context, open, name),
  );

  test(
    `damaged-record: no call breaks whatever a column of a pending record of ${name} contains`,
    TIMEOUT,
    (context) => damageEach(context, open, name, damageRunningColumn),
  );

  test(
    `damaged-record: a purge of ${name} keeps every record that a read reports as damaged`,
    TIMEOUT,
    (context) => damageEach(context, open, name, damageExpiredColumn),
  );
}
