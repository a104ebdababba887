/** Measures the gateway, the same proxy without its layer, and claims over the API. */
import { fileURLToPath } from "node:url";
import { startApp } from "../http/application.js";
import { freshKeys, load } from "../http/load.js";
import { costliest, waitingShare } from "../profile.js";
import { median, summarise } from "../report.js";
import { api, gateway, ours, plain } from "../suites/gateway.js";

/** @typedef {import("../suites/gateway.js").Size} Size */
/** @typedef {import("../suites/gateway.js").Subject} Subject */
/** @typedef {"first" | "replay"} Phase */

/**
 * @typedef {object} Row
 * @property {Subject} subject
 * @property {Phase} phase
 * @property {import("../report.js").Summary} perSecond
 * @property {number | undefined} ratio to the plain proxy, where that is asked the same
 * @property {number} p50 in milliseconds
 * @property {number} p99
 * @property {number} processorMicroseconds
 * @property {{ waiting: number, hotSpots: readonly { place: string, share: number }[] } | undefined} explanation of a
 * row below the ratio that we aim for
 */

const SERVE = fileURLToPath(new URL("serve.js", import.meta.url));
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const HOT_SPOTS = 25;
const TOKEN = "the-access-token-of-the-benchmark-and-of-nobody-else";

/** @type {readonly (readonly [Subject, Phase])[]} */
const LINES = [
  [plain, "first"],
  [ours, "first"],
  [ours, "replay"],
  [api, "first"],
];

/**
 * Rejects if a check of one of them fails.
 *
 * @param {Size} size
 * @param {(round: number) => void} onRound
 * @returns {Promise<readonly Row[]>}
 */
export async function compareGateway(size, onRound) {
  /** @type {Awaited<ReturnType<typeof measureOnce>>[]} */
  const runs = [];
  for (let round = 0; round < size.runs; round++) {
    const subjects = [plain, ours, api];
    for (let turn = 0; turn < subjects.length; turn++)
      runs.push(await measureOnce(subjects[(turn + round) % subjects.length] ?? plain, size, undefined));
    onRound(round + 1);
  }
  /** @param {Subject} subject @param {Phase} phase */
  const of = (subject, phase) => runs.flatMap((run) => (run.subject === subject ? (run[phase] ?? []) : []));
  const base = median(of(plain, "first").map(({ perSecond }) => perSecond));
  /** @type {Row[]} */
  const rows = [];
  for (const [subject, phase] of LINES) {
    const measured = of(subject, phase);
    const perSecond = summarise(measured.map((one) => one.perSecond));
    const ratio = subject === api ? undefined : perSecond.median / base;
    const isMissed = ratio !== undefined && ratio < gateway.ratioMeant;
    rows.push({
      subject,
      phase,
      perSecond,
      ratio,
      p50: median(measured.map((one) => one.p50)),
      p99: median(measured.map((one) => one.p99)),
      processorMicroseconds: median(measured.map((one) => one.processorMicroseconds)),
      explanation: isMissed ? await explain(phase) : undefined,
    });
  }
  return rows;

  /** @param {Phase} phase */
  async function explain(phase) {
    const { [phase]: profiled } = await measureOnce(ours, size, phase);
    const [profile] = profiled?.profiles ?? [];
    if (profile === undefined) throw new Error("there is no profile");
    return { waiting: waitingShare(profile), hotSpots: costliest(profile, { root: ROOT, limit: HOT_SPOTS }) };
  }
}

/**
 * @param {Subject} subject
 * @param {Size} size
 * @param {Phase | undefined} profiled
 */
async function measureOnce(subject, { keys: count, warmup, connections }, profiled) {
  const service = await startApp({ role: "service" }, SERVE);
  const front = await startApp(
    { role: subject.role, upstream: `http://127.0.0.1:${service.port}`, accessToken: TOKEN },
    SERVE,
  );
  try {
    await measure(freshKeys(), Math.min(warmup, count), "first");
    const keys = freshKeys();
    const first = await measure(keys, count, "first");
    const replay = subject === ours ? await measure(keys, count, "replay") : undefined;
    return { subject, first, replay };
  } finally {
    await front.stop();
    await service.stop();
  }

  /**
   * @param {import("../http/load.js").Keys} keys
   * @param {number} total
   * @param {Phase} phase
   */
  async function measure(keys, total, phase) {
    /** @type {{ path?: string, body?: readonly [string, string], account?: string }} */
    const asked =
      subject === api
        ? {
            path: "/v1/claims",
            account: `Bearer ${TOKEN}`,
            body: [`{"operation":"charge","key":"${keys.prefix}`, '"}'],
          }
        : {};
    const plan = { port: front.port, keys, keyCount: total, total, connections, ...asked };
    const { answer, ran } = await service.during(async () =>
      front.during(() => load(plan), phase === profiled),
    );
    const { requests, perSecond, p50, p99 } = answer.answer;
    const least = subject === api || phase === "replay" ? 0 : requests;
    // Requests that were cut off at the end may have run, or may run now.
    if (ran < least || ran > least + connections)
      throw new Error(`the service ran ${ran} times for ${requests} requests (${subject.name}, ${phase})`);
    const { processorMicroseconds, profiles } = answer;
    return { perSecond, p50, p99, processorMicroseconds: processorMicroseconds / requests, profiles };
  }
}
