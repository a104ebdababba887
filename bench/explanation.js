/** Explains where the time of a run goes: the costliest functions of each thread. */
import { fileURLToPath } from "node:url";
import { costliest, waitingShare } from "./profile.js";
import { formatTable } from "./report.js";

/** @typedef {{ waiting: number, hotSpots: readonly { place: string, share: number }[] }} Explanation of one thread */

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/**
 * @param {readonly import("./profile.js").Profile[] | undefined} profiles of the main thread, and then of its workers
 * @param {number} limit how many functions
 * @returns {readonly Explanation[]}
 */
export function explain(profiles, limit) {
  if (profiles === undefined || profiles.length === 0) throw new Error("there is no profile");
  return profiles.map((profile) => ({
    waiting: waitingShare(profile),
    hotSpots: costliest(profile, { root: ROOT, limit }),
  }));
}

/**
 * @param {string} thread
 * @param {Explanation} explanation
 * @param {number} microseconds that the thread works for one operation
 */
export function explanationText(thread, { waiting, hotSpots }, microseconds) {
  const table = formatTable(
    ["self time", "share", "µs"],
    hotSpots.map(({ place, share }) => [place, percent(share), (share * microseconds).toFixed(2)]),
  );
  return `${thread} waits for ${percent(waiting)} of the time. The rest goes into:\n\n${table}`;
}

/** @param {number} share */
function percent(share) {
  return `${(share * 100).toFixed(1)} %`;
}
