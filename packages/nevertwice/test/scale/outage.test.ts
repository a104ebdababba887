/** Tests guards on the real stores while the store is unreachable or answers only sometimes. */
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, type TestContext, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { type FaultRates, faultyStore } from "../../src/testing/faulty-store.ts";
import { seededRandom } from "../../src/testing/random.ts";
import { count, ms, report, tellCounts } from "./figures.ts";
import { sizeOf } from "./sizes.ts";
import { EVERY_SUBJECT, openSubject } from "./subjects.ts";

const STORE_TIMEOUT_MS = 500;
/** Covers two calls without an answer, or three failed calls, and the pauses between them. */
const BOUND_MS = 4_000;
/** How long a caller waits for the work of another caller. */
const WAIT_MS = 2_000;

const STORM: FaultRates = {
  refuse: 0.15,
  hang: 0.05,
  "lose-reply": 0.05,
  "break-reply": 0.1,
  delay: 0.1,
  "delay-reply": 0.1,
};

const EXPECTED = ["ran", "replayed", "pending", "unavailable"];

function guardOf({ onTestFinished }: TestContext, store: Store): Guard {
  const guard = createGuard({ store, storeTimeoutMs: STORE_TIMEOUT_MS, purgeEveryMs: 0, drainMs: 10_000 });
  onTestFinished(async () => void (await guard.close()));
  return guard;
}

describe.each(["refuse", "hang"] as const)("a store whose calls all %s", (fault) => {
  for (const subject of EVERY_SUBJECT)
    test(`is reported as unavailable in time, no work runs, and calls succeed once it is back: ${subject.name}`, async (context) => {
      const store = faultyStore(await openSubject(context, await subject.create(context)));
      const guard = guardOf(context, store);
      const request = { operation: "charge", key: "order" };
      let runs = 0;
      const work = () => ++runs;

      store.setRates({ [fault]: 1 });
      const startedAt = performance.now();
      const answers = await Promise.all(Array.from({ length: 10 }, () => guard.tryRun(request, work)));
      const tookMs = performance.now() - startedAt;
      expect(answers.map(({ status }) => status)).toEqual(answers.map(() => "unavailable"));
      expect(tookMs).toBeLessThan(BOUND_MS);
      expect(runs).toBe(0);

      store.setRates({});
      expect(await guard.run(request, work)).toBe(1);
      expect(await guard.run(request, work)).toBe(1);
    });
});

describe("during an outage no work runs twice and no answer is wrong, and afterwards every key completes", () => {
  const { seeds, keys, callers } = sizeOf("outage");
  for (const subject of EVERY_SUBJECT)
    test(`on ${subject.name}`, async (context) => {
      const store = await openSubject(context, await subject.create(context));
      const statuses: Record<string, number> = {};
      let slowestMs = 0;
      let repeats = 0;
      for (let seed = 1; seed <= seeds; seed++) {
        const outage = await ride(context, store, { seed, keys, callers });
        repeats += outage.repeats;
        for (const status of outage.statuses) statuses[status] = (statuses[status] ?? 0) + 1;
        slowestMs = Math.max(slowestMs, outage.slowestMs);
      }
      await report(store, {
        trial: "Work through an outage",
        figures: `${seeds} outages, ${count(keys)} keys, ${callers} callers each: every work ran once; answers during the outage: ${tellCounts(statuses)}; the slowest after ${ms(slowestMs)}`,
      });
      expect(Object.keys(statuses).filter((status) => !EXPECTED.includes(status))).toEqual([]);
      // The outage had an effect: a call was refused or had to be repeated.
      expect((statuses.unavailable ?? 0) + repeats).toBeGreaterThan(0);
      // The last claim may begin at the end of the wait, and its outcome must still be recorded.
      expect(slowestMs).toBeLessThan(WAIT_MS + 2 * BOUND_MS);
    });
});

interface Outage {
  readonly seed: number;
  readonly keys: number;
  readonly callers: number;
}

/** Many callers use many keys over two faulty networks. Then both networks recover, and every key is called once more. */
async function ride(
  context: TestContext,
  store: Store,
  { seed, keys, callers }: Outage,
): Promise<{ statuses: string[]; slowestMs: number; repeats: number }> {
  const networks = [1, 2].map((way) => faultyStore(store, { seed: 2 * seed + way, rates: STORM }));
  const guards = networks.map((network) => guardOf(context, network));
  const random = seededRandom(seed);
  const names = Array.from({ length: keys }, (_, index) => `outage ${seed}, key ${index}`);
  const effects = new Map<string, number>();
  const running = new Set<string>();
  const work = (key: string) => async (): Promise<string> => {
    expect(running.has(key), `${key} runs in two attempts at once`).toBe(false);
    running.add(key);
    await sleep(random.between(0, 20));
    running.delete(key);
    effects.set(key, (effects.get(key) ?? 0) + 1);
    return `done: ${key}`;
  };
  let slowestMs = 0;
  const call = async (key: string): Promise<string> => {
    await sleep(random.between(0, 200));
    const startedAt = performance.now();
    const request = { operation: "charge", key, waitMs: WAIT_MS };
    const answer = await random.pick(guards).tryRun(request, work(key));
    slowestMs = Math.max(slowestMs, performance.now() - startedAt);
    if ("value" in answer) expect(answer.value).toBe(`done: ${key}`);
    return answer.status;
  };
  const calls = Array.from({ length: callers }, () => names).flat();
  const statuses = await Promise.all(calls.map(call));

  for (const network of networks) network.setRates({});
  // No process knows of a claim that was applied after its own abandon and whose answer was lost. It blocks its key until its lease ends.
  const patient = { operation: "charge", storeTimeoutMs: 10_000, waitMs: 45_000 };
  const afterwards = names.map((key) => random.pick(guards).run({ ...patient, key }, work(key)));
  expect(await Promise.all(afterwards)).toEqual(names.map((key) => `done: ${key}`));
  await Promise.all(guards.map((guard) => guard.close()));
  expect(names.map((key) => effects.get(key))).toEqual(names.map(() => 1));
  const reader = createGuard({ store, purgeEveryMs: 0 });
  const kept = await Promise.all(names.map((key) => reader.read({ operation: "charge", key })));
  expect(kept.map((record) => record?.state)).toEqual(names.map(() => "completed"));
  const completions = networks.reduce((sum, network) => sum + network.calls.complete, 0);
  return { statuses, slowestMs, repeats: completions - keys };
}
