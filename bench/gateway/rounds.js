/** Measures the gateway, the same proxy without its layer, and claims over the API. */
import { startApp } from "../http/application.js";
import { compareLoads, measureLoad } from "../http/comparison.js";
import { freshKeys } from "../http/load.js";
import { api, ours, plain } from "../suites/gateway.js";

/** @typedef {import("../suites/gateway.js").Subject} Subject */
/** @typedef {import("../http/comparison.js").Phase} Phase */

const SERVE = "../gateway/serve.js";
const TOKEN = "the-access-token-of-the-benchmark-alone";

/**
 * Rejects if a check of one of them fails.
 *
 * @param {import("../suites/gateway.js").Table} table
 * @param {{ size: import("../suites/gateway.js").Size }} conditions
 */
export function compareGateway({ ratioMeant }, { size }) {
  const sides = { base: plain, ours, others: [api], ratioMeant, runs: size.runs };
  return compareLoads(sides, (subject, profiled) => measureSubject(subject, size, profiled));
}

/**
 * @param {Subject} subject
 * @param {import("../suites/gateway.js").Size} size
 * @param {Phase | undefined} profiled
 * @returns {Promise<import("../http/comparison.js").Run>}
 */
async function measureSubject(subject, { keys: count, warmup, connections }, profiled) {
  const service = await startApp({ role: "service" }, SERVE);
  const front = await startApp(
    { role: subject.role, upstream: `http://127.0.0.1:${service.port}`, accessToken: TOKEN },
    SERVE,
  );
  try {
    await measure(freshKeys(), Math.min(warmup, count), "first");
    const keys = freshKeys();
    const first = await measure(keys, count, "first", profiled === "first");
    if (subject !== ours) return { first };
    return { first, replay: await measure(keys, count, "replay", profiled === "replay") };
  } finally {
    await front.stop();
    await service.stop();
  }

  /**
   * @param {import("../http/load.js").Keys} keys
   * @param {number} keyCount
   * @param {Phase} phase
   */
  function measure(keys, keyCount, phase, isProfiled = false) {
    const claims = {
      path: "/v1/claims",
      account: `Bearer ${TOKEN}`,
      body: /** @type {const} */ ([`{"operation":"charge","key":"${keys.prefix}`, '"}']),
    };
    const request = { keys, keyCount, connections, ...(subject === api && claims) };
    return measureLoad({ front, worker: service, request, phase, runsWork: subject !== api, isProfiled });
  }
}
