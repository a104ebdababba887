/** Takes CPU profiles of this thread and of its worker threads. */
import { Session as Inspector } from "node:inspector/promises";

/** @typedef {import("node:inspector").Profiler.Profile} Profile */
/** @typedef {(method: string, params?: object) => Promise<any>} Post a command to one thread's inspector */

const SAMPLE_MICROSECONDS = 200;

/**
 * Returns a function that ends the profiles and resolves to them: this thread's first, then one for each worker.
 *
 * @returns {Promise<() => Promise<Profile[]>>}
 */
export async function startProfiles() {
  const inspector = new Inspector();
  inspector.connect();
  /** @type {Post} */
  const postHere = (method, params) => inspector.post(method, params);
  const threads = [postHere, ...(await attachToWorkers(inspector))];
  for (const post of threads) {
    await post("Profiler.enable");
    await post("Profiler.setSamplingInterval", { interval: SAMPLE_MICROSECONDS });
    await post("Profiler.start");
  }
  return async () => {
    const stopped = await Promise.all(threads.map((post) => post("Profiler.stop")));
    inspector.disconnect();
    return stopped.map(({ profile }) => profile);
  };
}

/**
 * This thread's inspector passes messages on to the workers.
 *
 * @param {Inspector} inspector
 * @returns {Promise<Post[]>}
 */
async function attachToWorkers(inspector) {
  /** @type {string[]} */
  const ids = [];
  /** @type {Map<number, (result: unknown) => void>} */
  const answers = new Map();
  inspector.on("NodeWorker.attachedToWorker", ({ params }) => ids.push(params.sessionId));
  inspector.on("NodeWorker.receivedMessageFromWorker", ({ params }) => {
    const { id, result } = JSON.parse(params.message);
    answers.get(id)?.(result);
  });
  await inspector.post("NodeWorker.enable", { waitForDebuggerOnStart: false });
  let count = 0;
  return ids.map((sessionId) => async (method, params = {}) => {
    const id = ++count;
    const answered = new Promise((resolve) => answers.set(id, resolve));
    const message = JSON.stringify({ id, method, params });
    // Keeps the process alive until the answer comes.
    const awake = setInterval(() => {}, 1_000);
    await inspector.post("NodeWorker.sendMessageToWorker", { sessionId, message });
    const result = await answered;
    clearInterval(awake);
    return result;
  });
}
