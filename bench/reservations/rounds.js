/** Runs this library's reservations and those by hand, each run in its own process, and compares their numbers. */
import { fileURLToPath } from "node:url";
import { runForked } from "../forked.js";
import { costliest, waitingShare } from "../profile.js";
import { median, ratioToBest, summarise } from "../report.js";
import { PHASES } from "./phases.js";

/** @typedef {import("../suites/reservations.js").Table} Table */
/** @typedef {import("../suites/reservations.js").Library} Library */
/** @typedef {import("../suites/reservations.js").Size} Size */
/** @typedef {import("../report.js").Summary} Summary */
/** @typedef {import("../rounds.js").Explanation} Explanation */
/** @typedef {import("./phases.js").Phase["name"]} PhaseName */
/** @typedef {{ perSecond: Record<PhaseName, number>, bytesPerHold: number, profiles?: import("../profile.js").Profile[] }} Run */

/**
 * One line of the table. There are explanations if the ratio is below the one that we aim for: one for the main thread,
 * and one for each of our workers.
 *
 * @typedef {object} Row
 * @property {string} title
 * @property {Summary} ours
 * @property {Summary} byHand
 * @property {number} ratio
 * @property {readonly Explanation[] | undefined} explanations
 */

/** @typedef {{ rows: readonly Row[], bytesPerHold: { ours: number, byHand: number } }} Results */

const HOT_SPOTS = 12;
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const MEASURE = fileURLToPath(new URL("measure.js", import.meta.url));

/**
 * Rejects if a check of one of the two fails.
 *
 * @param {Table} table
 * @param {{ size: Size, url: string | undefined }} conditions
 * @param {(round: number) => void} onRound
 * @returns {Promise<Results>}
 */
export async function compareReservations({ store, ratioMeant, ours, byHand }, { size, url }, onRound) {
  /**
   * @param {Library} library
   * @param {PhaseName} [profile]
   */
  const measureOnce = async ({ file }, profile) =>
    /** @type {Run} */ (await runForked(MEASURE, { ...size, store, url, library: file, profile }));

  /** @type {{ ours: Run[], byHand: Run[] }} */
  const runs = { ours: [], byHand: [] };
  for (let round = 0; round < size.runs; round++) {
    // They take turns, each round in another order, so that other load on the computer slows both alike.
    const turns = [
      () => measureOnce(ours).then((run) => runs.ours.push(run)),
      () => measureOnce(byHand).then((run) => runs.byHand.push(run)),
    ];
    for (const turn of round % 2 === 0 ? turns : turns.reverse()) await turn();
    onRound(round + 1);
  }

  /** @type {Row[]} */
  const rows = [];
  for (const { name, title } of PHASES) {
    /** @param {readonly Run[]} of */
    const summaryOf = (of) => summarise(of.map(({ perSecond }) => perSecond[name]));
    const [mine, theirs] = [summaryOf(runs.ours), summaryOf(runs.byHand)];
    const ratio = ratioToBest(mine, [theirs]);
    const explanations = ratio >= (ratioMeant ?? 0) ? undefined : await explain(name);
    rows.push({ title, ours: mine, byHand: theirs, ratio, explanations });
  }
  /** @param {readonly Run[]} of */
  const bytesOf = (of) => median(of.map(({ bytesPerHold }) => bytesPerHold));
  return { rows, bytesPerHold: { ours: bytesOf(runs.ours), byHand: bytesOf(runs.byHand) } };

  /**
   * The functions that take our time, from a run that no table counts: profiling slows it down.
   *
   * @param {PhaseName} phase
   * @returns {Promise<Explanation[]>}
   */
  async function explain(phase) {
    const { profiles = [] } = await measureOnce(ours, phase);
    return profiles.map((profile) => ({
      waiting: waitingShare(profile),
      hotSpots: costliest(profile, { root: ROOT, limit: HOT_SPOTS }),
    }));
  }
}
