/** Runs the network with and without keys. */
import { fileURLToPath } from "node:url";
import { PHASES } from "../events/phases.js";
import { comparePaired } from "../paired.js";

/** @typedef {import("../grounds/pipeline.js").Contender} Contender */
/** @typedef {import("../grounds/pipeline.js").Size} Size */
/** @typedef {import("../paired.js").Row} Row */

const MEASURE = fileURLToPath(new URL("measure.js", import.meta.url));

/**
 * Rejects if one of the two did not do its job.
 *
 * @param {{ store: string, ours: Contender, bare: Contender }} contenders
 * @param {{ size: Size, url: string | undefined }} conditions
 * @param {(round: number) => void} onRound
 * @returns {Promise<readonly Row[]>}
 */
export function comparePipelines(contenders, conditions, onRound) {
  return comparePaired(MEASURE, PHASES, contenders, conditions, onRound);
}
