/** Locks: one at a time under a name, a resource that refuses a late holder, and "not again within ten minutes". */
import assert from "node:assert/strict";
import { createGuard, isNevertwiceError } from "nevertwice";
import { memoryStore } from "nevertwice/stores/memory";
import { manualClock } from "nevertwice/testing";

const MINUTE_MS = 60_000;
const clock = manualClock();
const guard = createGuard({ store: memoryStore({ clock }) });

// Five callers, one name: they run one after the other. Nothing is remembered, so each of them runs.
let inside = 0;
let most = 0;
const runs = Array.from({ length: 5 }, () =>
  guard.exclusive("monthly report", async () => {
    inside++;
    most = Math.max(most, inside);
    await new Promise((resolve) => setTimeout(resolve, 2));
    inside--;
  }),
);
await Promise.all(runs);
assert.equal(most, 1);
console.log(`${runs.length} callers, at most ${most} at a time`);

// A lease is a promise about time, and a paused process does not notice time. So the ledger looks at the fence.
const ledger = {
  highest: 0,
  /** @type {string[]} */
  lines: [],
  /**
   * @param {string} line
   * @param {number} fence
   */
  write(line, fence) {
    if (fence < this.highest) throw new Error("a later holder was here");
    this.highest = fence;
    this.lines.push(line);
  },
};

const paused = guard.exclusive("ledger", async (lock) => {
  // It stands still past its lease, as if its machine were suspended, and another gets the lock meanwhile.
  clock.advance(MINUTE_MS);
  await guard.exclusive("ledger", (next) => ledger.write("the next holder", next.fence));
  assert.throws(() => ledger.write("the paused holder", lock.fence), /a later holder was here/);
  console.log("the paused holder's write was refused by its fence");
});
await assert.rejects(paused, (error) => isNevertwiceError(error, "lease-lost"));
assert.deepEqual(ledger.lines, ["the next holder"]);
console.log("and it was told lease-lost: it was not alone");

/**
 * One at a time, and not again within a window. The lock keeps all repairs of one service apart, whatever they are; the
 * run inside it remembers each of them for ten minutes from when it began. The lock ends with the work; what is
 * remembered ends with the window.
 *
 * @param {string} service
 * @param {string} action
 */
function repair(service, action) {
  const request = { operation: action, key: service };
  return guard.exclusive(`repair of ${service}`, () =>
    guard.run({ ...request, retentionMs: 10 * MINUTE_MS, retentionFrom: "claim" }, async () => {
      repairs.push(`${action} ${service}`);
      return `repair ${repairs.length}`;
    }),
  );
}

/** @type {string[]} */
const repairs = [];
const answers = await Promise.all([
  repair("search", "restart"),
  repair("search", "restart"),
  repair("search", "clear"),
]);
assert.equal(answers[0], answers[1]);
assert.equal(repairs.length, 2);
console.log(`three repairs asked for, ${repairs.length} done: ${repairs.slice().sort().join(", ")}`);

clock.advance(9 * MINUTE_MS);
await repair("search", "restart");
assert.equal(repairs.length, 2);
console.log("nine minutes later: not again");

clock.advance(1 * MINUTE_MS);
await repair("search", "restart");
assert.equal(repairs.length, 3);
console.log("ten minutes later: again");

await guard.close();
