/**
 * Measures one library on one store. The benchmark fails if the library ran work twice for a key, or gave a wrong
 * outcome.
 */
import { deepEqual, equal, rejects } from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { percentiles } from "./costs.js";
import { library, openTarget, plan, sendRun, setAlone, timeLanes } from "./forked-run.js";
import { makeOperations, retryOf } from "./payload.js";

/** One answer in this many is kept, and compared after the clock has stopped. */
const SAMPLE_EVERY = 500;

const { store, hasFingerprint, laps, inFlight, alone = 0 } = plan;

await sendRun(async (count, profiled) => {
  const target = await openTarget();
  // The timed keys, one for each connection that has to be opened, and one for the last check.
  const capacity = count + alone + inFlight + 1;
  const { run: guarded, close } = await library.create({ store, target, hasFingerprint, capacity });
  await Promise.all(
    makeOperations(inFlight).map(({ key, body, outcome }) => guarded(key, body, async () => outcome)),
  );
  const operations = makeOperations(count);
  const retries = operations.map(retryOf);
  const runs = new Uint8Array(count);
  const samples = [];

  const before = await target.bytes();
  const first = await timed("first", count, (i) => {
    const { key, body, outcome } = operations[i];
    return guarded(key, body, async () => {
      runs[i]++;
      return outcome;
    });
  });
  const bytes = ((await target.bytes()) - before) / count;
  const replay = await timed("replay", count * laps, (n) => {
    const i = n % count;
    return guarded(retries[i].key, retries[i].body, async () => {
      runs[i]++;
    });
  });

  if (profiled === undefined && alone > 0) await callAlone(guarded);
  for (const [i, times] of runs.entries()) equal(times, 1, `the work of key ${i} ran ${times} times`);
  for (const [value, outcome] of samples) deepEqual(value, outcome);
  await refusesAnotherRequest(guarded, operations[0]);
  await runsOnceForConcurrentCallers(guarded);
  await close();
  await target.close();
  const perSecond = { first: first.perSecond, replay: replay.perSecond };
  return { perSecond, bytes, profiles: first.profiles ?? replay.profiles };

  /** Checks each answer as it comes. */
  function timed(phase, total, one) {
    return timeLanes({ phase, total, isProfiled: phase === profiled }, async (n) => {
      const value = await one(n);
      const { outcome } = operations[n % count];
      if (value?.order !== outcome.order) throw new Error(`operation ${n} got the outcome of another one`);
      if (n % SAMPLE_EVERY === 0) samples.push([value, outcome]);
    });
  }
});

/** One call after another, each with its own key, and then their replays. */
async function callAlone(guarded) {
  const operations = makeOperations(alone);
  const retries = operations.map(retryOf);
  for (const [phase, calls] of [
    ["first", operations],
    ["replay", retries],
  ]) {
    const took = [];
    for (const { key, body, outcome } of calls) {
      const startedAt = performance.now();
      await guarded(key, body, async () => outcome);
      took.push(performance.now() - startedAt);
    }
    setAlone(phase, percentiles(took));
  }
}

async function refusesAnotherRequest(guarded, { key, body }) {
  if (!hasFingerprint) return;
  let ran = 0;
  const other = { ...body, amount: body.amount + 1 };
  await rejects(
    guarded(key, other, async () => ran++),
    undefined,
    "a reused key was answered",
  );
  equal(ran, 0, "a reused key ran the work again");
}

async function runsOnceForConcurrentCallers(guarded) {
  const [{ key, body, outcome }] = makeOperations(1);
  let ran = 0;
  const work = async () => {
    ran++;
    await sleep(20);
    return outcome;
  };
  const answers = await Promise.all(Array.from({ length: inFlight }, () => guarded(key, body, work)));
  equal(ran, 1, `${inFlight} concurrent callers ran the work ${ran} times`);
  for (const answer of answers) deepEqual(answer, outcome);
}
