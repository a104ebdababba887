/**
 * Tests simulated processes on a model of etcd, each with a wall clock of its own that is wrong by minutes and jumps: leases still
 * hold, and still end. A store that judged leases by the wall clock is caught.
 */
import { expect, test } from "vitest";
import { etcdClients } from "../../../../scripts/simulation/etcd-clients.js";
import { etcdStore } from "../../src/stores/etcd.ts";
import { type SimulatedClients, simulate } from "../../src/testing/simulation.ts";

const SCHEDULES = 6_000;
/** What a schedule must be able to do for its passing to mean anything. */
const MUST_HAPPEN = [
  "claim new",
  "claim pending",
  "claim completed",
  "claim unknown",
  "takeover",
  "replay",
  "renewed",
  "completed",
  "step kept",
  "claim finds steps",
  "abandoned released",
  "abandoned unknown",
  "abandoned unrun",
  "answer ran",
  "answer lease-lost",
];
type Clocks = Parameters<ReturnType<SimulatedClients["create"]>>[0];

test(`keeps every promise in ${SCHEDULES.toLocaleString("en")} schedules whose wall clocks differ and jump`, {
  timeout: 300_000,
}, async () => {
  const startedAt = performance.now();
  const { failure, schedules, counts } = await simulate({
    seed: 1,
    schedules: SCHEDULES,
    clients: etcdClients(etcdStore),
  });
  console.log(`${schedules} schedules in ${((performance.now() - startedAt) / 1_000).toFixed(1)} s`);
  expect(failure?.story.join("\n")).toBeUndefined();
  expect(schedules).toBe(SCHEDULES);
  for (const what of MUST_HAPPEN) expect(counts[what] ?? 0, what).toBeGreaterThan(10);
});

/** Clocks that break the store on purpose, and what the referee must say about it. */
const BROKEN: Readonly<Record<string, readonly [(clocks: Clocks) => Clocks, RegExp, seed: number]>> = {
  "its monotonic clock runs twice as fast, so that leases end early": [
    ({ clock, monotonicClock }) => ({ clock, monotonicClock: { now: () => 2 * monotonicClock.now() } }),
    /^I3 a key was handed over while its lease ran/,
    1,
  ],
  "its monotonic clock stands still, so that leases never end": [
    ({ clock }) => ({ clock, monotonicClock: { now: () => 0 } }),
    /^I8 a key/,
    1,
  ],
  "its leases end by the wall clock, which jumps": [
    ({ clock }) => ({ clock, monotonicClock: clock }),
    /^I[38] a key/,
    // A jump must fall between two looks at one claim, which is rare.
    3_000,
  ],
};

test.each(Object.entries(BROKEN))(
  "a store is caught if %s",
  { timeout: 300_000 },
  async (_, [clocksOf, said, seed]) => {
    const { failure } = await simulate({ seed, schedules: 1_000, clients: etcdClients(etcdStore, clocksOf) });
    console.log(`seed ${failure?.seed}: ${failure?.invariant} ${failure?.what}`);
    expect(`${failure?.invariant} ${failure?.what}`).toMatch(said);
  },
);

test("gives the same schedule for the same seed", async () => {
  const run = () => simulate({ seed: 42, schedules: 20, clients: etcdClients(etcdStore) });
  expect(await run()).toEqual(await run());
});
