/** Simulates schedules of the doors, one after another. The number of a schedule says its door, and replays it. */
import { claimsDoor } from "./claims-door.js";
import { consumerDoor } from "./consumer-door.js";
import { httpDoor } from "./http-door.js";
import { outboxDoor } from "./outbox-door.js";
import { pipelineDoor } from "./pipeline-door.js";
import { sagaDoor } from "./saga-door.js";
import { createStage } from "./stage.js";
import { createWorld } from "./virtual-time.js";

/** @typedef {import("./library.js").Library} Library */
/** @typedef {import("./stage.js").Door} Door */
/** @typedef {import("./stage.js").Times} Times */
/** @typedef {import("../../../packages/nevertwice/src/testing/simulation.ts").SimulationReport} Report */

/** @typedef {"http" | "consumer" | "claims" | "saga" | "outbox" | "pipeline"} DoorName */

const TIMES = { leaseMs: 100, healMs: 1_000, endMs: 60_000 };

/** @type {Readonly<Record<DoorName, { readonly door: Door, readonly times: Times }>>} */
const DOORS = {
  http: { door: httpDoor, times: TIMES },
  consumer: { door: consumerDoor, times: TIMES },
  claims: { door: claimsDoor, times: TIMES },
  saga: { door: sagaDoor, times: TIMES },
  // The leases of a relay are at least a second long, and a relay never ends.
  outbox: { door: outboxDoor, times: { leaseMs: 1_000, healMs: 4_000, endMs: 14_000 } },
  pipeline: { door: pipelineDoor, times: TIMES },
};

export const DOOR_NAMES = /** @type {DoorName[]} */ (Object.keys(DOORS));

/** Keeps the random numbers of the library apart from those of the schedule. */
const LIBRARY_SEED = 0x0d00;

/** @param {number} seed */
export function doorName(seed) {
  return /** @type {DoorName} */ (DOOR_NAMES[seed % DOOR_NAMES.length]);
}

/**
 * @param {Library} library
 * @param {{ readonly seed: number, readonly schedules?: number | undefined, readonly door?: DoorName | undefined }} options
 *   `door`: only the schedules of this door are run
 * @returns {Promise<Report>}
 */
export async function simulateDoors(library, { seed, schedules = 1, door }) {
  /** @type {Record<string, number>} */
  const counts = {};
  let events = 0;
  for (let next = seed; next < seed + schedules; next++) {
    const name = doorName(next);
    if (door !== undefined && door !== name) continue;
    const result = await runSchedule(library, next);
    events += result.events;
    for (const [what, times] of Object.entries(result.counts)) {
      const named = `${name} ${what}`;
      counts[named] = (counts[named] ?? 0) + times;
    }
    if (result.violation === undefined) continue;
    /** @type {string[]} */
    const story = [];
    const { scenario } = await runSchedule(library, next, story);
    /** @type {any} */
    const failure = { ...result.violation, seed: next, scenario, story };
    return { schedules: next - seed + 1, events, counts, failure };
  }
  return { schedules, events, counts, failure: undefined };
}

/**
 * @param {Library} library
 * @param {number} seed
 * @param {string[]} [story]
 */
async function runSchedule(library, seed, story) {
  const { door, times } = DOORS[doorName(seed)];
  const world = createWorld(library.seededRandom(seed ^ LIBRARY_SEED));
  const stage = createStage({ library, random: library.seededRandom(seed), world, times, story });
  const onRejection = (/** @type {unknown} */ error) =>
    stage.fail("no-stray-error", `a promise was rejected, and no code catches it: ${String(error)}`);
  process.on("unhandledRejection", onRejection);
  const scenario = await stage.run(door).finally(() => process.off("unhandledRejection", onRejection));
  return { scenario, violation: stage.violation(), counts: stage.counts, events: world.events() };
}
