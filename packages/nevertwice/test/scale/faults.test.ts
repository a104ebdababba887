/**
 * Tests that what stores answer stays linearizable, and that no effect happens twice, while processes, networks, clocks, disks and
 * servers fail; and that bugs which show only then are found. Needs the build.
 */
import { fileURLToPath } from "node:url";
import { expect, type TestContext, test } from "vitest";
import { networkFaults, PROCESS_FAULTS } from "../../../server/cli/prove/fault-kinds.ts";
import { totalsFor } from "../../../server/cli/prove/report.ts";
import { freshNamespace, type RunReport, runRounds } from "../../../server/cli/prove/rounds.ts";
import { boundsFor, repetitionsThrough } from "../../../server/cli/prove.ts";
import { startProxy } from "../services/proxy.ts";
import { type FaultStage, LOSING_STAGES, STAGES } from "./faults-stages.ts";
import { count, report as tell } from "./figures.ts";
import { startClaimants } from "./lost-leader.ts";
import { judgeLostLeader, type LostLeaderVerdict } from "./lost-leader-judge.ts";
import { FAULTS_S, IS_FULL, sizeOf } from "./sizes.ts";
import { openSubject } from "./subjects.ts";

const SEED = Number(process.env.NEVERTWICE_SEED ?? 1);
/** The name of a store, or the URL of a server of your own; default: every store. */
const ONLY = process.env.NEVERTWICE_FAULTS_STORE;
const PROVE = new URL("../../../server/", import.meta.url);
const PROGRAM = fileURLToPath(new URL("dist/cli/prove/worker-main.js", PROVE));
const OPENER = new URL("test/prove/planted-opener.js", PROVE).href;
const LEASE_MS = 250;
/** A planted bug may need several rounds. */
const MOST_ROUNDS = 60;

const NAMES = IS_FULL ? Object.keys(STAGES) : ["Redis", "Postgres"];
const isUrl = ONLY?.includes(":") === true;
const CHOSEN = ONLY === undefined ? NAMES : isUrl ? [] : [ONLY];
const isChosen = (name: string) => ONLY === undefined || ONLY === name;

if (ONLY !== undefined && !isUrl && !Object.hasOwn(STAGES, ONLY))
  throw new Error(`There is no store ${ONLY}. The stores are ${Object.keys(STAGES).join(", ")}.`);

interface FaultRun extends FaultStage {
  /** Only these kinds. */
  readonly only?: readonly string[];
  readonly planted?: string;
  readonly seconds: number;
  /** Ends the run early. */
  isEnough?(report: RunReport, rounds: number): boolean;
}

async function run(given: FaultRun): Promise<RunReport> {
  const { url, proxy, faults, env, only, planted, seconds, isEnough } = given;
  const kinds = [...PROCESS_FAULTS, ...(proxy === undefined ? [] : networkFaults(proxy)), ...faults].filter(
    ({ name }) => only === undefined || only.includes(name),
  );
  const enough = new AbortController();
  const { rounds: most, ...size } = sizeOf("faults");
  let rounds = 0;
  return runRounds({
    url,
    seconds,
    seed: SEED,
    faults: kinds,
    bounds: boundsFor(url),
    mayBeRepeated: repetitions(given),
    namespace: freshNamespace(),
    program: PROGRAM,
    opener: planted === undefined ? undefined : OPENER,
    env: { ...env, ...(planted !== undefined && { NEVERTWICE_PLANTED: planted }) },
    size: { ...size, leaseMs: LEASE_MS, lanes: 4 },
    signal: enough.signal,
    onRound(report) {
      rounds++;
      const isOver = isEnough?.(report, rounds) ?? rounds >= most * (kinds.length + 1);
      if (isOver) enough.abort();
    },
  });
}

const SLOW_US = 40_000;

/** Calls to the nodes of a cluster do not pass through one proxy, so each that took long may have been sent again. */
function repetitions({ url, proxy }: FaultStage) {
  if (proxy !== undefined) return repetitionsThrough(proxy);
  if (!/^(redis\+cluster|etcd):/.test(url)) return undefined;
  return (sentAt: number, answeredAt: number) => answeredAt - sentAt >= SLOW_US;
}

const explanations = ({ tallies }: RunReport) =>
  tallies.flatMap(({ fault, violations }) =>
    violations.flatMap(({ key, explanation }) => [`${fault}, key ${key}`, ...explanation]),
  );

async function runWithLedger(context: TestContext, stage: FaultStage, seconds: number) {
  const store = await openSubject(context, stage.url);
  const size = { processes: 1, lanes: 4, pauseMs: 20 };
  const claimants = stage.isSmall ? undefined : await startClaimants(context, { url: stage.url, ...size });
  const report = await run({ ...stage, seconds });
  const noted = await claimants?.end();
  const effects = noted && (await judgeLostLeader(store, noted.notes, noted.tries));
  const figures = [figuresFor(report), effects && effectsText(effects)].filter(Boolean).join("; ");
  await tell(store, {
    trial: "Linearizability and effects under faults",
    figures: `seed ${SEED}: ${figures}`,
  });
  return { report, effects };
}

function figuresFor({ tallies, covered }: RunReport): string {
  const { calls, keys, violations, undecided, unanswered } = totalsFor(tallies);
  const kinds = tallies.map(
    ({ fault, struck, violations: found }) => `${fault} ${count(struck)} (${found.length})`,
  );
  return `${count(calls)} calls about ${count(keys)} keys, ${count(unanswered)} without an answer, ${covered.size} kinds of steps; ${violations} violations, ${undecided} keys undecided; faults (and violations) by kind: ${kinds.join(", ")}`;
}

function effectsText({
  owners,
  outcomes,
  duplicateWinners,
  lostOutcomes,
  lostClaims,
}: LostLeaderVerdict): string {
  return `ledger: ${count(owners)} owners, ${count(outcomes)} outcomes, ${duplicateWinners.length} duplicate winners, ${lostOutcomes.length} acknowledged outcomes and ${lostClaims.length} claims lost`;
}

for (const name of CHOSEN)
  test(`on ${name}, answers are linearizable and no effect happens twice`, async (context) => {
    const stage = await (STAGES[name] as NonNullable<(typeof STAGES)[string]>)(context);
    const { report, effects } = await runWithLedger(context, stage, FAULTS_S / CHOSEN.length);
    expect(explanations(report)).toEqual([]);
    expect(totalsFor(report.tallies).undecided).toBeLessThanOrEqual(totalsFor(report.tallies).keys / 10);
    expect(effects?.duplicateWinners ?? []).toEqual([]);
    expect(effects?.lostOutcomes ?? []).toEqual([]);
    expect(effects?.fencesThatFell ?? []).toEqual([]);
  });

if (isUrl)
  test("on your own server, answers are linearizable and no effect happens twice", async (context) => {
    const url = ONLY as string;
    const proxy = /^(redis|postgres|postgresql|mysql):/.test(url) ? await startProxy(url) : undefined;
    context.onTestFinished(() => proxy?.stop());
    const stage = { url: proxy?.url ?? url, faults: [], ...(proxy !== undefined && { proxy }) };
    const { report, effects } = await runWithLedger(context, stage, FAULTS_S);
    expect(explanations(report)).toEqual([]);
    expect(effects?.duplicateWinners).toEqual([]);
    expect(effects?.lostOutcomes).toEqual([]);
  });

/** A bug for each fault that processes alone do not meet; those are planted in the tests of `nevertwice prove`. */
const PLANTED = [
  ["Redis", "clock", "a whole lease that is left counts as a clock that went back, and the key as free"],
  ["Postgres", "restart", "a claim without an answer counts as granted"],
  ["SQLite", "flush", "a completion without an answer counts as done"],
  ["SQLite", "disk-full", "a completion without an answer counts as done"],
  ["Redis Cluster", "reshard", "a slow read is answered from memory"],
  ["Redis Cluster", "master-kill", "a slow read is answered from memory"],
] as const;

for (const [name, fault, planted] of PLANTED.filter(
  ([name]) => isChosen(name) && (IS_FULL || name !== "Redis Cluster"),
))
  test(`under ${fault} on ${name} a planted bug is found: ${planted}`, async (context) => {
    const stage = await (STAGES[name] as NonNullable<(typeof STAGES)[string]>)(context);
    if (!stage.faults.some((each) => each.name === fault)) context.skip("only root can mount a small disk");
    await openSubject(context, stage.url);
    const isFound = ({ tallies }: RunReport) =>
      tallies.some((tally) => tally.fault === fault && tally.violations.length > 0);
    const report = await run({
      ...stage,
      only: [fault],
      planted,
      seconds: 600,
      isEnough: (so, rounds) => isFound(so) || rounds >= MOST_ROUNDS,
    });
    expect(isFound(report)).toBe(true);
  });

/** Stores whose settings promise less, with the fault under which they must be seen losing. */
const LOSING = [
  ["Redis without a file", "restart"],
  ["Redis without replicas", "failover"],
  ["Postgres with an asynchronous standby", "failover"],
] as const;

for (const [name, fault] of LOSING.slice(0, ONLY !== undefined ? 0 : IS_FULL ? LOSING.length : 1))
  test(`${name} is seen losing what it acknowledged under ${fault}`, async (context) => {
    const stage = await (LOSING_STAGES[name] as NonNullable<(typeof LOSING_STAGES)[string]>)(context);
    await openSubject(context, stage.url);
    const isFound = ({ tallies }: RunReport) => totalsFor(tallies).violations > 0;
    const report = await run({
      ...stage,
      only: [fault],
      seconds: 600,
      isEnough: (so, rounds) => isFound(so) || rounds >= MOST_ROUNDS,
    });
    expect(isFound(report)).toBe(true);
  });
