/** Runs an application bare and with each layer in front of it, and compares their numbers. */
import { fileURLToPath } from "node:url";
import { costliest, waitingShare } from "../profile.js";
import { median, summarise } from "../report.js";
import { bare, layersOf, ours } from "../suites/http.js";
import { startApp } from "./application.js";
import { check } from "./checks.js";
import { freshKeys, load } from "./load.js";

/** @typedef {import("../suites/http.js").Layer} Layer */
/** @typedef {import("../suites/http.js").Table} Table */
/** @typedef {import("../suites/http.js").Size} Size */
/** @typedef {import("../report.js").Summary} Summary */
/** @typedef {"first" | "replay"} Phase */

/**
 * The measurements of one phase of one run: under load, and with one caller alone.
 *
 * @typedef {object} Measurement
 * @property {number} perSecond
 * @property {number} p50 in milliseconds, as all of these
 * @property {number} p99
 * @property {number} aloneP50
 * @property {number} aloneP99
 * @property {number} processorMicroseconds of the application's process, for one request under load
 * @property {readonly import("../profile.js").Profile[] | undefined} profiles
 */

/** @typedef {{ first: Measurement, replay: Measurement | undefined }} Run the bare application has no replays */

/**
 * One line of the table. `ratio` and the added latencies compare it with the bare application. There is an explanation
 * if the line is ours and its ratio is below the one that we aim for.
 *
 * @typedef {object} Row
 * @property {Layer} layer
 * @property {Phase} phase
 * @property {Summary} perSecond
 * @property {number} ratio
 * @property {{ p50: number, p99: number, aloneP50: number, aloneP99: number }} added in milliseconds; of the bare
 * application the whole
 * @property {number} processorMicroseconds
 * @property {boolean} isAsFastAsMeant
 * @property {{ waiting: number, hotSpots: readonly { place: string, share: number }[] } | undefined} explanation
 */

const HOT_SPOTS = 25;
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** @type {readonly Phase[]} */
const PHASES = ["first", "replay"];

/**
 * Rejects if a check of a layer fails.
 *
 * @param {Table} table
 * @param {{ size: Size, url: string | undefined }} conditions
 * @param {(round: number) => void} onRound
 * @returns {Promise<readonly Row[]>}
 */
export async function compareLayers(table, { size, url }, onRound) {
  const layers = layersOf(table);
  /** @type {Map<Layer, Run[]>} */
  const runs = new Map(layers.map((layer) => [layer, []]));
  for (let round = 0; round < size.runs; round++) {
    // They take turns, each round in another order, so that other load on the computer slows all alike.
    for (let turn = 0; turn < layers.length; turn++) {
      const layer = layers[(turn + round) % layers.length] ?? bare;
      runs.get(layer)?.push(await measureOnce(table, layer, { size, url, profiled: undefined }));
    }
    onRound(round + 1);
  }
  const lines = layers.flatMap((layer) =>
    PHASES.flatMap((phase) => {
      const measured = (runs.get(layer) ?? []).flatMap((run) => run[phase] ?? []);
      return measured.length === 0 ? [] : [{ layer, phase, ...middleOf(measured) }];
    }),
  );
  const [base] = lines;
  if (base === undefined) throw new Error("nobody was measured");

  /** @type {Row[]} */
  const rows = [];
  for (const line of lines) rows.push(await rowOf(line));
  return rows;

  /**
   * @param {typeof lines[number]} line
   * @returns {Promise<Row>}
   */
  async function rowOf({ layer, phase, perSecond, latency, processorMicroseconds }) {
    const ratio = perSecond.median / (base?.perSecond.median ?? 0);
    const best = Math.max(
      ...lines
        .filter((other) => isPeer(other.layer) && other.phase === phase)
        .map((other) => other.perSecond.median),
    );
    const isAsFastAsMeant = layer !== ours || (ratio >= table.ratioMeant && perSecond.median > best);
    return {
      layer,
      phase,
      perSecond,
      ratio,
      added: layer === bare ? latency : less(latency, base?.latency ?? latency),
      processorMicroseconds,
      isAsFastAsMeant,
      explanation: isAsFastAsMeant ? undefined : await explain(phase),
    };
  }

  /**
   * The functions that take our time, from a run that no table counts: profiling slows it down.
   *
   * @param {Phase} phase
   */
  async function explain(phase) {
    const run = await measureOnce(table, ours, { size, url, profiled: phase });
    const [profile] = run[phase]?.profiles ?? [];
    if (profile === undefined) throw new Error("there is no profile");
    return { waiting: waitingShare(profile), hotSpots: costliest(profile, { root: ROOT, limit: HOT_SPOTS }) };
  }
}

/** @param {Layer} layer */
function isPeer(layer) {
  return layer !== bare && layer !== ours;
}

/** @param {readonly Measurement[]} measured */
function middleOf(measured) {
  /** @param {(one: Measurement) => number} pick */
  const middle = (pick) => median(measured.map(pick));
  return {
    perSecond: summarise(measured.map((one) => one.perSecond)),
    latency: {
      p50: middle((one) => one.p50),
      p99: middle((one) => one.p99),
      aloneP50: middle((one) => one.aloneP50),
      aloneP99: middle((one) => one.aloneP99),
    },
    processorMicroseconds: middle((one) => one.processorMicroseconds),
  };
}

/**
 * @param {Row["added"]} latency
 * @param {Row["added"]} base
 */
function less(latency, base) {
  return {
    p50: latency.p50 - base.p50,
    p99: latency.p99 - base.p99,
    aloneP50: latency.aloneP50 - base.aloneP50,
    aloneP99: latency.aloneP99 - base.aloneP99,
  };
}

/**
 * @param {Table} table
 * @param {Layer} layer
 * @param {{ size: Size, url: string | undefined, profiled: Phase | undefined }} conditions
 * @returns {Promise<Run>}
 */
async function measureOnce(table, layer, { size, url, profiled }) {
  const isBare = layer === bare;
  const { connections } = size;
  const count = Math.min(layer.keys ?? size.keys, size.keys);
  const app = await startApp({
    ...table,
    library: layer.file,
    url,
    capacity: 4 * (size.keys + size.warmup),
  });
  try {
    await check({
      port: app.port,
      isBare,
      callers: connections,
      ranDuring: async (requests) => (await app.during(requests)).ran,
    });
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
    const keys = freshKeys();
    const aloneKeys = freshKeys();
    const first = await measurePhase("first", keys, keyCount, aloneKeys, profiledPhase);
    const replay = isBare
      ? undefined
      : await measurePhase("replay", keys, keyCount, aloneKeys, profiledPhase);
    return { first, replay };
  }

  /**
   * @param {Phase} phase
   * @param {import("./load.js").Keys} keys
   * @param {number} keyCount
   * @param {import("./load.js").Keys} aloneKeys
   * @param {Phase | undefined} profiledPhase
   * @returns {Promise<Measurement>}
   */
  async function measurePhase(phase, keys, keyCount, aloneKeys, profiledPhase) {
    const { port } = app;
    const { answer, ran, processorMicroseconds, profiles } = await app.during(
      () => load({ port, keys, keyCount, total: keyCount, connections }),
      phase === profiledPhase,
    );
    const { requests, perSecond, p50, p99 } = answer;
    // Requests that were cut off at the end of the first calls may have run, or may run now.
    const leastRuns = phase === "first" ? requests : 0;
    const mostRuns = leastRuns + connections;
    if (ran < leastRuns || ran > mostRuns)
      throw new Error(`${layer.name} ran the work ${ran} times for ${requests} requests (${phase})`);
    const alone = await load({
      port,
      keys: aloneKeys,
      keyCount: size.alone,
      total: size.alone,
      connections: 1,
    });
    return {
      perSecond,
      p50,
      p99,
      aloneP50: alone.p50,
      aloneP99: alone.p99,
      processorMicroseconds: processorMicroseconds / requests,
      profiles,
    };
  }
}
