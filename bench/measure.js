/**
 * One run of one library in its own process, since code that the JIT compiled for another library or setting runs at
 * another speed. It is forked with a plan as its argument and sends one message back. The benchmark fails if the library
 * ran work twice for a key, or gave a wrong outcome.
 */
import { deepEqual, equal, rejects } from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { startProfiles } from "./inspect.js";
import { makeOperations, retryOf } from "./payload.js";

/** One of so many answers is kept, and compared after the clock has stopped. */
const SAMPLE_EVERY = 500;

const { suite, url, library, hasFingerprint, keys, laps, warmup, inFlight, profile } = JSON.parse(
  process.argv[2],
);
const { openDatabase } = await import(`./databases/${suite}.js`);
const { create } = await import(`./libraries/${library}.js`);

await run(warmup, undefined);
process.send(await run(keys, profile));

async function run(count, profiled) {
  const target = await openDatabase({ url });
  // The timed keys, one for each connection that has to be opened, and one for the last check.
  const capacity = count + inFlight + 1;
  const { run: guarded, close } = await create({ suite, target, hasFingerprint, capacity });
  await Promise.all(
    makeOperations(inFlight).map(({ key, body, outcome }) => guarded(key, body, async () => outcome)),
  );
  const operations = makeOperations(count);
  const retries = operations.map(retryOf);
  const runs = new Uint8Array(count);

  const before = await target.bytes();
  const first = await timed(profiled === "first", count, (i) => {
    const { key, body, outcome } = operations[i];
    return guarded(key, body, async () => {
      runs[i]++;
      return outcome;
    });
  });
  const bytesPerKey = ((await target.bytes()) - before) / count;
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
  await target.close();

  return {
    first: first.perSecond,
    replay: replay.perSecond,
    bytesPerKey,
    profiles: profiled && { first, replay }[profiled].profiles,
  };

  /** Calls `one` `total` times with `inFlight` calls at a time, and checks each answer as it comes. */
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
    // Only this phase is profiled: a flag of the process would also count the warm-up and the checks.
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
