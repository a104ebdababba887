/** Compares applications under load: each run puts load on an application in its own process. */
import { explain } from "../explanation.js";
import { meantFor, median, summarise } from "../report.js";
import { takeTurns } from "../turns.js";
import { load } from "./load.js";

/** @typedef {"first" | "replay"} Phase */
/** @typedef {Awaited<ReturnType<typeof import("./application.js").startApp>>} App */

/**
 * The measurements of one phase of one run. The latencies are in milliseconds.
 *
 * @typedef {object} Measurement
 * @property {number} perSecond
 * @property {number} p50
 * @property {number} p99
 * @property {number} [aloneP50] for one caller alone
 * @property {number} [aloneP99]
 * @property {number} processorMicroseconds of the application's process, for one request under load
 * @property {import("../profile.js").Profile[] | undefined} [profiles]
 */

/** @typedef {Partial<Record<Phase, Measurement>>} Run */

/**
 * One line of the table. `ratio` compares it with the base. There is an explanation if the line is ours and its ratio is
 * below the one that we aim for.
 *
 * @template Side
 * @typedef {object} Row
 * @property {Side} side
 * @property {Phase} phase
 * @property {import("../report.js").Summary} perSecond
 * @property {number} ratio
 * @property {{ p50: number, p99: number, aloneP50: number, aloneP99: number }} latency
 * @property {number} processorMicroseconds
 * @property {import("../explanation.js").Explanation | undefined} explanation
 */

const HOT_SPOTS = 25;
/** @type {readonly Phase[]} */
const PHASES = ["first", "replay"];

/**
 * Rejects if a check of a side fails. Ours has to reach the ratio, and to be faster than any peer; the others are only
 * measured.
 *
 * @template Side
 * @param {{ base: Side, ours: Side, peers?: readonly Side[], others?: readonly Side[], ratioMeant: import("../report.js").Meant, runs: number }} sides
 * @param {(side: Side, profiled?: Phase) => Promise<Run>} measure
 * @returns {Promise<readonly Row<Side>[]>}
 */
export async function compareLoads({ base, ours, peers = [], others = [], ratioMeant, runs }, measure) {
  const sides = [base, ours, ...peers, ...others];
  const all = await takeTurns(sides, runs, (side) => measure(side));
  const lines = sides.flatMap((side, i) =>
    PHASES.flatMap((phase) => {
      const measured = (all[i] ?? []).flatMap((run) => run[phase] ?? []);
      return measured.length === 0 ? [] : [{ side, phase, ...middleOf(measured) }];
    }),
  );
  const whole = lines[0]?.perSecond.median ?? Number.NaN;
  /** @type {Row<Side>[]} */
  const rows = [];
  for (const line of lines) {
    const ratio = line.perSecond.median / whole;
    const rivals = lines.filter(({ side, phase }) => peers.includes(side) && phase === line.phase);
    const best = Math.max(...rivals.map(({ perSecond }) => perSecond.median));
    const isFast =
      line.side !== ours || (ratio >= meantFor(ratioMeant, line.phase) && line.perSecond.median > best);
    rows.push({ ...line, ratio, explanation: isFast ? undefined : await explainPhase(line.phase) });
  }
  return rows;

  /**
   * From a run that no table counts: profiling slows it down.
   *
   * @param {Phase} phase
   */
  async function explainPhase(phase) {
    const run = await measure(ours, phase);
    return explain(run[phase]?.profiles, HOT_SPOTS)[0];
  }
}

/** @param {readonly Measurement[]} measured */
function middleOf(measured) {
  /** @param {(one: Measurement) => number | undefined} pick */
  const middle = (pick) => median(measured.map((one) => pick(one) ?? Number.NaN));
  return {
    perSecond: summarise(measured.map((one) => one.perSecond)),
    latency: {
      p50: middle((one) => one.p50),
      p99: middle((one) => one.p99),
      aloneP50: middle((one) => one.aloneP50),
      aloneP99: middle((one) => one.aloneP99),
    },
    processorMicroseconds: middle((one) => one.processorMicroseconds),
  };
}

/**
 * Puts load on `front`. Throws unless `worker`, which may be the same application, ran once for each request of the first
 * phase, and not again for a replay.
 *
 * @param {{ front: App, worker: App, request: Omit<Parameters<typeof load>[0], "port" | "total">, phase: Phase, runsWork?: boolean, isProfiled: boolean }} plan
 * @returns {Promise<Measurement>}
 */
export async function measureLoad({ front, worker, request, phase, runsWork = true, isProfiled }) {
  const { connections, keyCount } = request;
  const counted = await worker.during(() =>
    front.during(() => load({ ...request, port: front.port, total: keyCount }), isProfiled),
  );
  const { answer, processorMicroseconds, profiles } = counted.answer;
  const { requests, ...speed } = answer;
  // Requests that were cut off at the end of the first calls may have run, or may run now.
  const least = phase === "first" && runsWork ? requests : 0;
  if (counted.ran < least || counted.ran > least + connections)
    throw new Error(`the work ran ${counted.ran} times for ${requests} requests (${phase})`);
  return { ...speed, processorMicroseconds: processorMicroseconds / requests, profiles };
}
