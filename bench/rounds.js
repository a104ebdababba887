/** Runs the libraries of one suite, each run in its own process, and compares their numbers. */
import { fileURLToPath } from "node:url";
import { runForked } from "./forked.js";
import { costliest, waitingShare } from "./profile.js";
import { ratioToBest, summarise } from "./report.js";
import { librariesOf, RAW_RATIO_MEANT } from "./suites.js";

/** @typedef {import("./suites.js").Suite} Suite */
/** @typedef {import("./suites.js").Size} Size */
/** @typedef {import("./report.js").Summary} Summary */
/** @typedef {"first" | "replay"} Phase */
/** @typedef {{ first: number, replay: number, bytesPerKey: number, profiles?: import("./profile.js").Profile[] }} Run */
/** @typedef {{ title: string, phase: Phase, hasFingerprint: boolean }} Question */
/** @typedef {{ waiting: number, hotSpots: readonly { place: string, share: number }[] }} Explanation of one thread */

/**
 * One line of the table. A library that was not measured has no summary. There are explanations if a ratio is below the
 * one that we aim for: one for the main thread, and one for each of our workers.
 *
 * @typedef {object} Row
 * @property {string} title
 * @property {Summary} ours
 * @property {readonly (Summary | undefined)[]} peers
 * @property {Summary | undefined} raw
 * @property {number} ratio
 * @property {number | undefined} rawRatio
 * @property {readonly Explanation[] | undefined} explanations
 */

/** @typedef {{ rows: readonly Row[], bytesPerKey: readonly number[] }} Results by library: ours, the peers, raw */

/** @type {readonly Question[]} */
const QUESTIONS = [
  { title: "first call, fingerprint", phase: "first", hasFingerprint: true },
  { title: "replay, fingerprint", phase: "replay", hasFingerprint: true },
  { title: "first call, none", phase: "first", hasFingerprint: false },
  { title: "replay, none", phase: "replay", hasFingerprint: false },
];

const HOT_SPOTS = 12;
const ROOT = fileURLToPath(new URL("..", import.meta.url));
const MEASURE = fileURLToPath(new URL("measure.js", import.meta.url));

/**
 * The numbers of every library, ours first. Rejects if a check of a library fails.
 *
 * @param {Suite} suite
 * @param {{ fingerprints: readonly boolean[], size: Size, url: string | undefined }} conditions
 * @param {(round: number) => void} onRound
 * @returns {Promise<Results>}
 */
export async function compare(suite, { fingerprints, size, url }, onRound) {
  const libraries = librariesOf(suite);
  /** @type {Run[][][]} by library, without and with fingerprint, by round */
  const runs = libraries.map(() => [[], []]);
  for (let round = 0; round < size.runs; round++) {
    for (const hasFingerprint of fingerprints) {
      // They take turns, each round in another order, so that other load on the computer slows all alike.
      for (let turn = 0; turn < libraries.length; turn++) {
        const who = (turn + round) % libraries.length;
        const library = libraries[who];
        if (library === undefined || (hasFingerprint && library.withFingerprint === undefined)) continue;
        const run = await measureOnce({
          ...size,
          suite: suite.name,
          url,
          library: library.file,
          hasFingerprint,
        });
        runs[who]?.[Number(hasFingerprint)]?.push(run);
      }
    }
    onRound(round + 1);
  }

  /** @type {Row[]} */
  const rows = [];
  for (const question of QUESTIONS)
    if (fingerprints.includes(question.hasFingerprint)) rows.push(await answer(question));
  const bytesPerKey = runs.map((both) => summarise(both.flat().map((run) => run.bytesPerKey)).median);
  return { rows, bytesPerKey };

  /**
   * @param {Question} question
   * @returns {Promise<Row>}
   */
  async function answer({ title, phase, hasFingerprint }) {
    const summaries = runs.map((both) => {
      const asked = both[Number(hasFingerprint)] ?? [];
      return asked.length === 0 ? undefined : summarise(asked.map((run) => run[phase]));
    });
    const [ours] = summaries;
    if (ours === undefined) throw new Error("nobody was measured");
    const peers = summaries.slice(1, 1 + suite.peers.length);
    const raw = summaries[1 + suite.peers.length];
    const ratio = ratioToBest(
      ours,
      peers.filter((peer) => peer !== undefined),
    );
    const rawRatio = raw && ratioToBest(ours, [raw]);
    const isFast = ratio >= suite.ratioMeant && (rawRatio ?? 1) >= RAW_RATIO_MEANT;
    const explanations = isFast ? undefined : await explain(phase, hasFingerprint);
    return { title, ours, peers, raw, ratio, rawRatio, explanations };
  }

  /**
   * The functions that take our time, from a run that no table counts: profiling slows it down.
   *
   * @param {Phase} phase
   * @param {boolean} hasFingerprint
   */
  async function explain(phase, hasFingerprint) {
    const library = suite.ours.file;
    const plan = { ...size, suite: suite.name, url, library, hasFingerprint, profile: phase };
    const { profiles = [] } = await measureOnce(plan);
    return profiles.map((profile) => ({
      waiting: waitingShare(profile),
      hotSpots: costliest(profile, { root: ROOT, limit: HOT_SPOTS }),
    }));
  }
}

/**
 * @param {Size & { suite: string, url: string | undefined, library: string, hasFingerprint: boolean, profile?: Phase }} plan
 * @returns {Promise<Run>}
 */
async function measureOnce(plan) {
  return /** @type {Run} */ (await runForked(MEASURE, plan));
}
