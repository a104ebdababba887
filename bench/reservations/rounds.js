/** Runs this library's reservations and those by hand, each run in a process of its own, and puts their numbers side by side. */
import { fileURLToPath } from "node:url";
import { runForked } from "../forked.js";
import { costliest, waitingShare } from "../profile.js";
import { median, ratioToBest, summarise } from "../report.js";
import { PHASES } from "./phases.js";

/** @typedef {import("../grounds/reservations.js").Table} Table */
/** @typedef {import("../grounds/reservations.js").Contender} Contender */
/** @typedef {import("../grounds/reservations.js").Size} Size */
/** @typedef {import("../report.js").Summary} Summary */
/** @typedef {import("../rounds.js").Explanation} Explanation */
/** @typedef {import("./phases.js").Phase["name"]} PhaseName */
/** @typedef {{ perSecond: Record<PhaseName, number>, bytesPerHold: number, profiles?: import("../profile.js").Profile[] }} Run */

/**
 * One line of the table. The explanations are there if the ratio is below the one meant: one for the main thread, and
 * one for each worker of ours.
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
 * Rejects if one of the two did not do its job.
 *
 * @param {Table} table
 * @param {{ size: Size, url: string | undefined }} conditions
 * @param {(round: number) => void} onRound
 * @returns {Promise<Results>}
 */
export async function compareReservations({ store, ratioMeant, ours, byHand }, { size, url }, onRound) {
  /**
   * @param {Contender} contender
   * @param {PhaseName} [profile]
   */
  const measureOnce = async ({ file }, profile) =>
    /** @type {Run} */ (await runForked(MEASURE, { ...size, store, url, contender: file, profile }));

  /** @type {{ ours: Run[], byHand: Run[] }} */
  const runs = { ours: [], byHand: [] };
  for (let round = 0; round < size.runs; round++) {
    // They take turns, each round in another order: whatever else the computer does hits both alike.
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
   * What our own time goes into, from a run that is in no table: a profiled run is a slower one.
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
