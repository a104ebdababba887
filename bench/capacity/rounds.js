/** Measures a store with outcomes of several sizes, and draws a line through the bytes. */
import { median } from "../report.js";
import { runForked } from "../run.js";
import { capacity } from "../suites/capacity.js";
import { takeTurns } from "../turns.js";

/**
 * What a key and a call cost. Bytes are `fixed + perByte * outcome`; times are microseconds of one processor.
 *
 * @typedef {object} Coefficients
 * @property {Line} bytes that the store keeps for a key
 * @property {Line} [memory] the part of them that should be in memory
 * @property {Line} [log] bytes that a first call writes to the log of the database
 * @property {Times} first
 * @property {Times} replay
 * @property {Purge} [purge] absent if the database removes records by itself
 * @property {Ids} [ids] of Postgres
 */

/** @typedef {{ fixed: number, perByte: number }} Line */
/** @typedef {{ client: number, server?: number }} Times */
/** @typedef {Times & { perSecond: number }} Purge */
/** @typedef {{ bytes: number, memory?: number, log?: number, first: Times, replay: Times, purge?: Purge }} CapacityRun */
/** @typedef {"hashed" | "ordered"} Order */
/** @typedef {Readonly<Record<Order, { index: number, log: number, compressedLog: number }>>} Ids bytes for each first call */

/**
 * @param {import("../suites/capacity.js").CapacityTable} table
 * @param {{ size: import("../suites/capacity.js").Size, urls: import("../servers.js").Urls }} conditions
 * @returns {Promise<Coefficients>}
 */
export async function measureCapacity({ store, servers, sizesOnly, comparesIds }, { size, urls }) {
  const [server = ""] = Object.keys(servers);
  const shared = { url: urls[server], library: store, inFlight: size.inFlight };
  const runs = await takeTurns(
    capacity.outcomes,
    size.runs,
    async (outcomeBytes) =>
      /** @type {Promise<CapacityRun>} */ (
        fork("measure.js", { ...size, ...shared, store, sizesOnly, outcomeBytes })
      ),
  );
  const found = coefficientsFrom(capacity.outcomes, runs);
  if (!comparesIds) return found;
  const ids = /** @type {Ids} */ (await fork("ids.js", { ...size.ids, ...shared }));
  return { ...found, ids };
}

/**
 * @param {string} script
 * @param {Parameters<typeof runForked>[1]} plan
 * @returns {Promise<unknown>}
 */
function fork(script, plan) {
  return runForked(`capacity/${script}`, plan);
}

/**
 * @param {readonly number[]} outcomes bytes of each
 * @param {readonly (readonly CapacityRun[])[]} runs for each of them
 * @returns {Coefficients}
 */
export function coefficientsFrom(outcomes, runs) {
  const all = runs.flat();
  /** @param {"bytes" | "memory" | "log"} what */
  const line = (what) => {
    const points = outcomes.flatMap((outcome, i) => {
      const found = known((runs[i] ?? []).map((run) => run[what]));
      return found.length === 0 ? [] : [/** @type {const} */ ([outcome, median(found)])];
    });
    return points.length === 0 ? undefined : lineThrough(points);
  };
  return {
    bytes: line("bytes") ?? { fixed: Number.NaN, perByte: Number.NaN },
    ...given({ memory: line("memory"), log: line("log") }),
    first: medians(all.map(({ first }) => first)),
    replay: medians(all.map(({ replay }) => replay)),
    ...given({ purge: purgeFrom(known(all.map(({ purge }) => purge))) }),
  };
}

/**
 * @param {readonly Purge[]} purges
 * @returns {Purge | undefined}
 */
function purgeFrom(purges) {
  if (purges.length === 0) return undefined;
  // Other work on the machine only makes a purge slower: the fastest run was disturbed least.
  return { perSecond: Math.max(...purges.map(({ perSecond }) => perSecond)), ...medians(purges) };
}

/**
 * @param {readonly Times[]} times
 * @returns {Times}
 */
function medians(times) {
  const server = known(times.map((each) => each.server));
  return {
    client: median(times.map(({ client }) => client)),
    ...(server.length > 0 && { server: median(server) }),
  };
}

/**
 * @template T
 * @param {readonly (T | undefined)[]} values
 * @returns {T[]}
 */
function known(values) {
  return values.filter((value) => value !== undefined);
}

/**
 * Without what is undefined.
 *
 * @template {object} T
 * @param {T} values
 * @returns {{ [K in keyof T]?: Exclude<T[K], undefined> }}
 */
function given(values) {
  return /** @type {any} */ (
    Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined))
  );
}

/**
 * The line of least squares.
 *
 * @param {readonly (readonly [x: number, y: number])[]} points
 * @returns {Line}
 */
export function lineThrough(points) {
  const meanX = points.reduce((sum, [x]) => sum + x, 0) / points.length;
  const meanY = points.reduce((sum, [, y]) => sum + y, 0) / points.length;
  const spread = points.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0);
  const perByte =
    spread === 0 ? 0 : points.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0) / spread;
  return { fixed: meanY - perByte * meanX, perByte };
}
