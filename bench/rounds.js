/** Runs the contenders of one ground, each run in a process of its own, and puts their numbers side by side. */
import { fileURLToPath } from "node:url";
import { runForked } from "./forked.js";
import { contendersOf, RAW_RATIO_MEANT } from "./grounds.js";
import { costliest, waitingShare } from "./profile.js";
import { ratioToBest, summarise } from "./report.js";

/** @typedef {import("./grounds.js").Ground} Ground */
/** @typedef {import("./grounds.js").Size} Size */
/** @typedef {import("./report.js").Summary} Summary */
/** @typedef {"first" | "replay"} Phase */
/** @typedef {{ first: number, replay: number, bytesPerKey: number, profiles?: import("./profile.js").Profile[] }} Run */
/** @typedef {{ title: string, phase: Phase, hasFingerprint: boolean }} Question */
/** @typedef {{ waiting: number, hotSpots: readonly { place: string, share: number }[] }} Explanation of one thread */

/**
 * One line of the table. Whoever was not asked has no summary. The explanations are there if a ratio is below the one
 * meant: one for the main thread, and one for each worker of ours.
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

/** @typedef {{ rows: readonly Row[], bytesPerKey: readonly number[] }} Results by contender: ours, the peers, raw */

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
 * Everybody's numbers, ours first. Rejects if a contender did not do its job.
 *
 * @param {Ground} ground
 * @param {{ fingerprints: readonly boolean[], size: Size, url: string | undefined }} conditions
 * @param {(round: number) => void} onRound
 * @returns {Promise<Results>}
 */
export async function compare(ground, { fingerprints, size, url }, onRound) {
  const contenders = contendersOf(ground);
  /** @type {Run[][][]} by contender, without and with fingerprint, by round */
  const runs = contenders.map(() => [[], []]);
  for (let round = 0; round < size.runs; round++) {
    for (const hasFingerprint of fingerprints) {
      // They take turns, each round in another order: whatever else the computer does hits all alike.
      for (let turn = 0; turn < contenders.length; turn++) {
        const who = (turn + round) % contenders.length;
        const contender = contenders[who];
        if (contender === undefined || (hasFingerprint && contender.withFingerprint === undefined)) continue;
        const run = await measureOnce({
          ...size,
          ground: ground.name,
          url,
          contender: contender.file,
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
    const peers = summaries.slice(1, 1 + ground.peers.length);
    const raw = summaries[1 + ground.peers.length];
    const ratio = ratioToBest(
      ours,
      peers.filter((peer) => peer !== undefined),
    );
    const rawRatio = raw && ratioToBest(ours, [raw]);
    const isFast = ratio >= ground.ratioMeant && (rawRatio ?? 1) >= RAW_RATIO_MEANT;
    const explanations = isFast ? undefined : await explain(phase, hasFingerprint);
    return { title, ours, peers, raw, ratio, rawRatio, explanations };
  }

  /**
   * What our own time goes into, from a run that is in no table: a profiled run is a slower one.
   *
   * @param {Phase} phase
   * @param {boolean} hasFingerprint
   */
  async function explain(phase, hasFingerprint) {
    const contender = ground.ours.file;
    const plan = { ...size, ground: ground.name, url, contender, hasFingerprint, profile: phase };
    const { profiles = [] } = await measureOnce(plan);
    return profiles.map((profile) => ({
      waiting: waitingShare(profile),
      hotSpots: costliest(profile, { root: ROOT, limit: HOT_SPOTS }),
    }));
  }
}

/**
 * @param {Size & { ground: string, url: string | undefined, contender: string, hasFingerprint: boolean, profile?: Phase }} plan
 * @returns {Promise<Run>}
 */
async function measureOnce(plan) {
  return /** @type {Run} */ (await runForked(MEASURE, plan));
}
