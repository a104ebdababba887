/** An auto-tuner that cannot make up its mind: the window lets it try, and then says that it is going back and forth. */
import assert from "node:assert/strict";
import { createFlapping } from "nevertwice/flapping";

// A clock of our own, so that a minute is over at once. Leave it out, and it is the system's.
let time = Date.now();
const flapping = createFlapping({ windowMs: 60_000, maxChanges: 2, clock: { now: () => time } });

const config = { poolSize: 10 };
let refusals = 0;

/**
 * What the tuner wants is asked for first, and only set if it is no repetition of itself.
 *
 * @param {number} wanted
 */
async function tune(wanted) {
  const { flapping: isFlapping, reason } = await flapping.check("pool.size", wanted);
  if (isFlapping) {
    refusals++;
    console.log(`kept ${config.poolSize}: ${reason}`);
    return;
  }
  config.poolSize = wanted;
  console.log(`set ${wanted}`);
}

// Under load it wants more, which makes the database slow, so it wants less, and so on, every five seconds.
for (const wanted of [20, 10, 20, 10, 20, 10]) {
  await tune(wanted);
  time += 5_000;
}
assert.equal(config.poolSize, 10);
assert.equal(refusals, 2);

// A value that differs by less than one per cent is the same one; a really new one passes at once.
await tune(20.1);
await tune(15);
assert.equal(config.poolSize, 15);

// A minute after its first change there is room for one more.
time += 30_000;
await tune(20);
assert.equal(config.poolSize, 20);
assert.equal(refusals, 3);

// Somebody looked into it and wants to start anew.
await flapping.clear("pool.size");
await tune(20);
console.log(`${refusals} changes were refused`);
