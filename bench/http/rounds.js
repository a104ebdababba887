/** Runs an application bare and with each layer in front of it, and compares their numbers. */
import { bare, ours } from "../suites/http.js";
import { startApp } from "./application.js";
import { check } from "./checks.js";
import { compareLoads, measureLoad } from "./comparison.js";
import { freshKeys, load } from "./load.js";

/** @typedef {import("../suites/http.js").Layer} Layer */
/** @typedef {import("../suites/http.js").Table} Table */
/** @typedef {import("../suites/http.js").Size} Size */
/** @typedef {import("./comparison.js").Phase} Phase */
/** @typedef {import("./comparison.js").Run} Run */

/**
 * Rejects if a check of a layer fails.
 *
 * @param {Table} table
 * @param {{ size: Size, urls: import("../servers.js").Urls }} conditions
 */
export function compareLayers(table, { size, urls }) {
  const { ratioMeant, peers } = table;
  return compareLoads({ base: bare, ours, peers, ratioMeant, runs: size.runs }, (layer, profiled) =>
    measureLayer(table, layer, { size, urls, profiled }),
  );
}

/**
 * @param {Table} table
 * @param {Layer} layer
 * @param {{ size: Size, urls: import("../servers.js").Urls, profiled: Phase | undefined }} conditions
 * @returns {Promise<Run>}
 */
async function measureLayer({ framework, store }, layer, { size, urls, profiled }) {
  const isBare = layer === bare;
  const { connections } = size;
  const count = Math.min(layer.keys ?? size.keys, size.keys);
  const capacity = 4 * (size.keys + size.warmup);
  const app = await startApp({ framework, store, library: layer.file, urls, capacity });
  const { port } = app;
  try {
    const ranDuring = async (/** @type {() => Promise<void>} */ requests) => (await app.during(requests)).ran;
    await check({ port, isBare, callers: connections, ranDuring });
    await measurePhases(Math.min(size.warmup, count), undefined);
    return await measurePhases(count, profiled);
  } finally {
    await app.stop();
  }

  /**
   * @param {number} keyCount
   * @param {Phase | undefined} profiledPhase
   * @returns {Promise<Run>}
   */
  async function measurePhases(keyCount, profiledPhase) {
    const request = { keys: freshKeys(), keyCount, connections };
    const alone = { keys: freshKeys(), keyCount: size.alone, total: size.alone, connections: 1 };
    /** @param {Phase} phase */
    const measure = async (phase) => {
      const isProfiled = phase === profiledPhase;
      const measured = await measureLoad({ front: app, worker: app, request, phase, isProfiled });
      const { p50: aloneP50, p99: aloneP99 } = await load({ port, ...alone });
      return { ...measured, aloneP50, aloneP99 };
    };
    const first = await measure("first");
    // The bare application has no replays.
    return isBare ? { first } : { first, replay: await measure("replay") };
  }
}
