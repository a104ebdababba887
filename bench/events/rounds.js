/** Runs the consumer with and without a guard. */
import { fileURLToPath } from "node:url";
import { comparePaired } from "../paired.js";
import { PHASES } from "./phases.js";

/** @typedef {import("../grounds/events.js").Contender} Contender */
/** @typedef {import("../grounds/events.js").Size} Size */
/** @typedef {import("../paired.js").Row} Row */

const MEASURE = fileURLToPath(new URL("measure.js", import.meta.url));

/**
 * Rejects if one of the two did not do its job.
 *
 * @param {{ store: string, ours: Contender, bare: Contender }} contenders
 * @param {{ size: Size, url: string | undefined, natsUrl: string }} conditions
 * @param {(round: number) => void} onRound
 * @returns {Promise<readonly Row[]>}
 */
export function compareConsumers(contenders, conditions, onRound) {
  return comparePaired(MEASURE, PHASES, contenders, conditions, onRound);
}
