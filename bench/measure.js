/**
 * One run of one contender, in a process of its own: a JIT that has seen another library, or another setting, measures
 * something else. It is forked with a plan as its argument and sends one message back. It rejects, and so fails the
 * whole benchmark, if the contender did not do its job: once per key, and the right outcome every time.
 */
import { deepEqual, equal, rejects } from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { startProfiles } from "./inspect.js";
import { makeOperations, retryOf } from "./payload.js";

/** Every so many answers one is kept, to be compared whole once the clock has stopped. */
const SAMPLE_EVERY = 500;

const { ground, url, contender, hasFingerprint, keys, laps, warmup, inFlight, profile } = JSON.parse(
  process.argv[2],
);
const { openPlace } = await import(`./places/${ground}.js`);
const { create } = await import(`./contenders/${contender}.js`);

await run(warmup, undefined);
process.send(await run(keys, profile));

async function run(count, profiled) {
  const place = await openPlace({ url });
  // Besides the keys that are timed: one for each connection that has to be opened, and one for the last check.
  const capacity = count + inFlight + 1;
  const { run: guarded, close } = await create({ ground, place, hasFingerprint, capacity });
  await Promise.all(
    makeOperations(inFlight).map(({ key, body, outcome }) => guarded(key, body, async () => outcome)),
  );
  const operations = makeOperations(count);
  const retries = operations.map(retryOf);
  const runs = new Uint8Array(count);

  const before = await place.bytes();
  const first = await timed(profiled === "first", count, (i) => {
    const { key, body, outcome } = operations[i];
    return guarded(key, body, async () => {
      runs[i]++;
      return outcome;
    });
  });
  const bytesPerKey = ((await place.bytes()) - before) / count;
  const replay = await timed(profiled === "replay", count * laps, (n) => {
    const i = n % count;
    return guarded(retries[i].key, retries[i].body, async () => {
      runs[i]++;
    });
  });

  for (const [i, times] of runs.entries()) equal(times, 1, `the work of key ${i} ran ${times} times`);
  for (const { samples } of [first, replay])
    for (const [n, value] of samples) deepEqual(value, operations[n % count].outcome);
  await refusesAnotherRequest(guarded, operations[0]);
  await runsOnceForConcurrentCallers(guarded);
  await close();
  await place.close();

  return {
    first: first.perSecond,
    replay: replay.perSecond,
    bytesPerKey,
    profiles: profiled && { first, replay }[profiled].profiles,
  };

  /** Does `one` `total` times with `inFlight` under way at any time, looking at each answer as it comes. */
  async function timed(isProfiled, total, one) {
    const samples = new Map();
    let next = 0;
    async function lane() {
      while (next < total) {
        const n = next++;
        const value = await one(n);
        if (value?.order !== operations[n % count].outcome.order)
          throw new Error(`operation ${n} was answered with somebody else's outcome`);
        if (n % SAMPLE_EVERY === 0) samples.set(n, value);
      }
    }
    global.gc();
    // Only this phase is profiled; a flag of the process would mix in the warm-up and the checks.
    const stopProfiles = isProfiled ? await startProfiles() : undefined;
    const startedAt = performance.now();
    await Promise.all(Array.from({ length: inFlight }, lane));
    const seconds = (performance.now() - startedAt) / 1_000;
    return { perSecond: total / seconds, samples, profiles: await stopProfiles?.() };
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
