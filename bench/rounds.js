/** Runs the contenders, each run in a process of its own, and puts their numbers side by side. */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { ours, peers } from "./contenders.js";
import { costliest } from "./profile.js";
import { RATIO_MEANT, ratioToBetterPeer, summarise } from "./report.js";

/** @typedef {"first" | "replay"} Phase */
/** @typedef {{ runs: number, keys: number, laps: number, warmup: number, inFlight: number }} Size */
/** @typedef {{ first: number, replay: number, bytesPerKey: number, profile?: import("./profile.js").Profile }} Run */
/** @typedef {{ title: string, phase: Phase, hasFingerprint: boolean }} Question */
/** @typedef {{ place: string, share: number }} HotSpot */

/**
 * One line of the table. `hotSpots` are there if the ratio is below the one meant.
 *
 * @typedef {object} Row
 * @property {string} title
 * @property {import("./report.js").Summary} ours
 * @property {readonly import("./report.js").Summary[]} peers
 * @property {number} ratio
 * @property {readonly HotSpot[] | undefined} hotSpots
 */

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
 * @param {Size} size
 * @param {(round: number) => void} onRound
 */
export async function compare(size, onRound) {
  const contenders = [ours, ...peers];
  /** @type {Run[][][]} by contender, without and with fingerprint, by round */
  const runs = contenders.map(() => [[], []]);
  for (let round = 0; round < size.runs; round++) {
    for (const hasFingerprint of [true, false]) {
      // They take turns, each round in another order: whatever else the computer does hits all alike.
      for (let turn = 0; turn < contenders.length; turn++) {
        const who = (turn + round) % contenders.length;
        const run = await measureOnce({ ...size, contender: contenders[who]?.file ?? "", hasFingerprint });
        runs[who]?.[Number(hasFingerprint)]?.push(run);
      }
    }
    onRound(round + 1);
  }

  /** @type {Row[]} */
  const rows = [];
  for (const question of QUESTIONS) rows.push(await answer(question));
  const bytesPerKey = runs.map((both) => summarise(both.flat().map((run) => run.bytesPerKey)).median);
  return { rows, bytesPerKey };

  /**
   * @param {Question} question
   * @returns {Promise<Row>}
   */
  async function answer({ title, phase, hasFingerprint }) {
    const [first, ...others] = runs.map((both) =>
      summarise((both[Number(hasFingerprint)] ?? []).map((run) => run[phase])),
    );
    if (first === undefined) throw new Error("nobody was measured");
    const ratio = ratioToBetterPeer(first, others);
    const hotSpots = ratio < RATIO_MEANT ? await profiled(size, phase, hasFingerprint) : undefined;
    return { title, ours: first, peers: others, ratio, hotSpots };
  }
}

/**
 * What our own time goes into, from a run that is in no table: a profiled run is a slower one.
 *
 * @param {Size} size
 * @param {Phase} phase
 * @param {boolean} hasFingerprint
 */
async function profiled(size, phase, hasFingerprint) {
  const { profile } = await measureOnce({ ...size, contender: ours.file, hasFingerprint, profile: phase });
  return profile && costliest(profile, { root: ROOT, limit: HOT_SPOTS });
}

/**
 * @param {Size & { contender: string, hasFingerprint: boolean, profile?: Phase }} plan
 * @returns {Promise<Run>}
 */
function measureOnce(plan) {
  const child = fork(MEASURE, [JSON.stringify(plan)], {
    execArgv: ["--expose-gc"],
    serialization: "advanced",
  });
  return new Promise((resolve, reject) => {
    /** @type {Run | undefined} */
    let run;
    child.once("message", (message) => {
      run = /** @type {Run} */ (message);
    });
    child.once("error", reject);
    child.once("exit", (code) => {
      if (code === 0 && run !== undefined) resolve(run);
      else reject(new Error(`${plan.contender} did not do its job (exit code ${code}); it says why above`));
    });
  });
}
