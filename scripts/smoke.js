/**
 * Checks what every runtime must do with the built package, in real time: `node scripts/smoke.js`, or with bun or deno. It
 * prints one line; a failed check ends it with an error.
 */
import assert from "node:assert/strict";
import { createGuard, idempotent, isNevertwiceError } from "nevertwice";
import { memoryStore } from "nevertwice/stores/memory";
import { storeCases } from "nevertwice/testing";

const DUPLICATES = 1_000;

/** @type {readonly (readonly [name: string, smoke: (guard: import("nevertwice").Guard) => Promise<void>])[]} */
const SMOKES = [
  ["runs once, then replays", runsOnceThenReplays],
  ["wraps a function", wrapsAFunction],
  ["decorates a method", decoratesAMethod],
  ["refuses another meaning", refusesAnotherMeaning],
  ["remembers an error", remembersAnError],
  ["frees a key after a failure", freesAKeyAfterAFailure],
  [`runs once for ${DUPLICATES} duplicates at a time`, runsOnceForManyDuplicates],
  ["loses a lease that is not renewed", losesALease],
  ["lets its caller go", letsItsCallerGo],
];

for (const [name, smoke] of SMOKES) {
  const guard = createGuard({ store: memoryStore() });
  await smoke(guard).catch((error) => {
    throw new Error(`${name}: ${error instanceof Error ? error.message : error}`, { cause: error });
  });
  assert.deepEqual(await guard.close(), [], `${name}: left running`);
}
const cases = await runStoreCases();
assert.ok(cases > 0, "no store case was run");
console.log(`${SMOKES.length} promises, ${cases} store cases`);

/** @param {import("nevertwice").Guard} guard */
async function runsOnceThenReplays(guard) {
  const request = { operation: "charge", scope: "shop", key: "order-1", fingerprint: { amount: 5 } };
  const receipt = { id: "r-1", at: new Date(0), bytes: new Uint8Array([1, 2]), big: 12n };
  assert.deepEqual(await guard.tryRun(request, async () => receipt), {
    status: "ran",
    value: receipt,
    recorded: true,
  });
  assert.deepEqual(await guard.tryRun(request, () => assert.fail("ran again")), {
    status: "replayed",
    value: receipt,
  });
}

/** @param {import("nevertwice").Guard} guard */
async function wrapsAFunction(guard) {
  let runs = 0;
  const work = (/** @type {{ id: string }} */ order) => `${order.id} ${++runs}`;
  const charge = guard.wrap(work, { operation: "charge", keyFrom: ["0.id"] });
  assert.equal(await charge({ id: "order-1" }), "order-1 1");
  assert.equal(await charge({ id: "order-1" }), "order-1 1");
  assert.equal(await charge({ id: "order-2" }), "order-2 2");
}

/** @param {import("nevertwice").Guard} guard */
async function decoratesAMethod(guard) {
  let runs = 0;
  const method = async (/** @type {string} */ id) => `${id} ${++runs}`;
  const decorate = idempotent(guard, { operation: "charge", keyFrom: [0] });
  // The test calls it as a compiler does, since no runtime here supports decorators yet.
  const { value } = decorate({}, "charge", { value: method });
  assert.equal(await value?.("order-1"), "order-1 1");
  assert.equal(await value?.("order-1"), "order-1 1");
}

/** @param {import("nevertwice").Guard} guard */
async function refusesAnotherMeaning(guard) {
  await guard.run({ operation: "charge", key: "order-1", fingerprint: { amount: 5 } }, () => "charged");
  await assert.rejects(
    guard.run({ operation: "charge", key: "order-1", fingerprint: { amount: 6 } }, () => "charged"),
    (error) => isNevertwiceError(error, "conflict"),
  );
}

/** @param {import("nevertwice").Guard} guard */
async function remembersAnError(guard) {
  const request = { operation: "charge", key: "order-1", onFailure: /** @type {const} */ ("remember") };
  const declined = Object.assign(new Error("card declined"), { code: "declined" });
  for (let calls = 0; calls < 2; calls++) {
    const work = async () => {
      assert.equal(calls, 0, "ran again");
      throw declined;
    };
    await assert.rejects(guard.run(request, work), { message: "card declined", code: "declined" });
  }
}

/** @param {import("nevertwice").Guard} guard */
async function freesAKeyAfterAFailure(guard) {
  const request = { operation: "charge", key: "order-1" };
  await assert.rejects(
    guard.run(request, () => Promise.reject(new Error("no network"))),
    /no network/,
  );
  assert.equal(await guard.run(request, ({ number }) => number), 2);
}

/** @param {import("nevertwice").Guard} guard */
async function runsOnceForManyDuplicates(guard) {
  let runs = 0;
  const work = async () => {
    await pause(20);
    return ++runs;
  };
  const calls = Array.from({ length: DUPLICATES }, () =>
    guard.run({ operation: "charge", key: "order-1" }, work),
  );
  assert.deepEqual(new Set(await Promise.all(calls)), new Set([1]));
  assert.equal(runs, 1);
}

/** @param {import("nevertwice").Guard} guard */
async function losesALease(guard) {
  /** @type {import("nevertwice").Work<never>} */
  const work = ({ signal }) =>
    new Promise((_, reject) =>
      signal.addEventListener("abort", () => reject(new Error(String(signal.reason)))),
    );
  await assert.rejects(guard.run({ operation: "hang", key: "1", maxRunMs: 30 }, work), /ran-too-long/);
}

/** @param {import("nevertwice").Guard} guard */
async function letsItsCallerGo(guard) {
  const caller = new AbortController();
  const running = guard.run({ operation: "slow", key: "1", signal: caller.signal }, () => pause(30));
  caller.abort(new Error("gone"));
  await assert.rejects(running, /gone/);
}

/** Runs the published cases at once and in real time, without those that move the clock. */
async function runStoreCases() {
  const asked = storeCases(() => memoryStore()).map(({ run }) => run());
  return (await Promise.all(asked)).filter((answer) => answer === undefined).length;
}

/** @param {number} ms */
function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
