/** Simulates on every core: threads get schedules in batches until all have run or one has failed. */
import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";

const WORKER = new URL("./worker.js", import.meta.url);
const DOORS_WORKER = new URL("./doors/worker.js", import.meta.url);
/** A simulation makes much short-lived garbage, and a larger young generation copies less of it. */
const NURSERY_MB = 64;

/** @typedef {import("../../packages/nevertwice/src/testing/simulation.ts").SimulationReport} Report */

/**
 * @typedef {object} Range which schedules are simulated
 * @property {number} seed
 * @property {number} schedules
 * @property {number} [batch]
 * @property {(done: number) => void} [onProgress]
 */

/**
 * @param {{ simulation: URL, store?: "memory" | "etcd" } & Range} options
 * @returns {Promise<Report>}
 */
export function simulateOnAllCores({ simulation, store, ...range }) {
  return onAllCores(WORKER, { simulation: simulation.href, store }, range);
}

/**
 * @param {{ build: URL, door?: import("./doors/simulate.js").DoorName } & Range} options `build`: the folder of the built
 *   library. `door`: the schedules of other doors are left out.
 * @returns {Promise<Report>}
 */
export function simulateDoorsOnAllCores({ build, door, ...range }) {
  return onAllCores(DOORS_WORKER, { build: build.href, door }, range);
}

/**
 * @param {URL} code of the threads
 * @param {object} workerData
 * @param {Range} range
 * @returns {Promise<Report>}
 */
async function onAllCores(code, workerData, { seed, schedules, batch = 2_000, onProgress }) {
  /** @type {Record<string, number>} */
  const counts = {};
  /** @type {Report["failure"][]} */
  const failures = [];
  let dealt = 0;
  let done = 0;
  let events = 0;

  /** One thread for all its batches, so that code which V8 has optimised stays optimised. */
  async function lane() {
    const worker = new Worker(code, {
      workerData,
      resourceLimits: { maxYoungGenerationSizeMb: NURSERY_MB },
    });
    try {
      while (dealt < schedules && failures.length === 0) {
        const first = dealt;
        dealt = Math.min(schedules, dealt + batch);
        const report = await runBatch(worker, { seed: seed + first, schedules: dealt - first });
        done += report.schedules;
        events += report.events;
        for (const [what, times] of Object.entries(report.counts)) counts[what] = (counts[what] ?? 0) + times;
        if (report.failure !== undefined) failures.push(report.failure);
        onProgress?.(done);
      }
    } finally {
      await worker.terminate();
    }
  }
  const lanes = Math.min(availableParallelism(), Math.ceil(schedules / batch));
  await Promise.all(Array.from({ length: lanes }, lane));
  const failure = failures.sort((a, b) => (a?.seed ?? 0) - (b?.seed ?? 0))[0];
  return { schedules: done, events, counts, failure };
}

/**
 * @param {Worker} worker
 * @param {{ seed: number, schedules: number }} range
 * @returns {Promise<Report>}
 */
function runBatch(worker, range) {
  return new Promise((resolve, reject) => {
    worker.once("error", reject);
    worker.once("message", (report) => {
      worker.off("error", reject);
      resolve(report);
    });
    worker.postMessage(range);
  });
}
