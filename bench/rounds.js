/** Runs the libraries of one table, each run in its own process, and compares their numbers. */
import { medianCosts } from "./costs.js";
import { explain } from "./explanation.js";
import { meantFor, median, ratioToBest, summarise } from "./report.js";
import { runForked } from "./run.js";
import { librariesOf, RAW_RATIO_MEANT } from "./suites.js";
import { takeTurns } from "./turns.js";

/** @typedef {import("./suites.js").Suite} Suite */
/** @typedef {import("./suites.js").Table} Table */
/** @typedef {import("./suites.js").Library} Library */
/** @typedef {import("./report.js").Summary} Summary */

/**
 * One line of the table. A library that was not measured has no summary. There are explanations if a ratio is below the
 * one that we aim for: one for the main thread, and one for each of our workers.
 *
 * @typedef {object} Row
 * @property {string} title
 * @property {Summary} ours
 * @property {readonly (Summary | undefined)[]} peers
 * @property {Summary | undefined} raw
 * @property {readonly (import("./costs.js").Costs | undefined)[]} costs of ours, the peers and raw
 * @property {number} ratio
 * @property {number | undefined} rawRatio
 * @property {readonly import("./explanation.js").Explanation[] | undefined} explanations
 */

/** @typedef {{ rows: readonly Row[], bytes: readonly number[] }} Results `bytes` of each library: ours, the peers, raw */

const HOT_SPOTS = 12;

/**
 * Rejects if a check of a library fails.
 *
 * @param {Suite} suite
 * @param {Table} table
 * @param {{ size: import("./suites.js").Size, urls: import("./servers.js").Urls }} conditions
 * @returns {Promise<Results>}
 */
export async function compare({ script, phases: all }, table, { size, urls }) {
  const { store, peers, ours, raw, ratioMeant = 0, phases = all } = table;
  const libraries = librariesOf(table);
  const settings = [...new Set(phases.map(({ hasFingerprint = false }) => hasFingerprint))];
  const sides = settings.flatMap((hasFingerprint) =>
    libraries
      .filter(({ withFingerprint }) => !hasFingerprint || withFingerprint !== undefined)
      .map((library) => ({ library, hasFingerprint })),
  );
  /** @param {{ library: Library, hasFingerprint: boolean, profile?: string }} side */
  const measure = ({ library, ...side }) =>
    runForked(script, { ...size, ...side, store, urls, library: library.file });
  const runs = await takeTurns(sides, size.runs, measure);

  /** @type {Row[]} */
  const rows = [];
  for (const { name, title, hasFingerprint = false } of phases) {
    /** @param {Library} library */
    const runsOf = (library) => {
      const isSide = (/** @type {typeof sides[number]} */ side) =>
        side.library === library && side.hasFingerprint === hasFingerprint;
      return runs[sides.findIndex(isSide)] ?? [];
    };
    /** @param {Library} library */
    const summaryOf = (library) => {
      const measured = runsOf(library);
      return measured.length === 0
        ? undefined
        : summarise(measured.map((run) => run.perSecond[name] ?? Number.NaN));
    };
    const costs = libraries.map((library) => medianCosts(runsOf(library).map((run) => run.costs[name])));
    const mine = summaryOf(ours);
    if (mine === undefined) throw new Error("nothing was measured");
    const theirs = peers.map(summaryOf);
    const ratio = ratioToBest(
      mine,
      theirs.filter((peer) => peer !== undefined),
    );
    const loop = raw && summaryOf(raw);
    const rawRatio = loop && ratioToBest(mine, [loop]);
    const isFast = ratio >= meantFor(ratioMeant, name) && (rawRatio ?? 1) >= RAW_RATIO_MEANT;
    // From a run that no table counts: profiling slows it down.
    const explanations = isFast
      ? undefined
      : explain((await measure({ library: ours, hasFingerprint, profile: name })).profiles, HOT_SPOTS);
    rows.push({ title, ours: mine, peers: theirs, raw: loop, costs, ratio, rawRatio, explanations });
  }
  const bytes = libraries.map((library) =>
    median(
      sides.flatMap((side, i) =>
        side.library === library ? (runs[i] ?? []).map((run) => run.bytes ?? 0) : [],
      ),
    ),
  );
  return { rows, bytes };
}
