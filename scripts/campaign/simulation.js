/** Simulates very many schedules on every core; a failure prints the seed that replays it. */
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";
import { ROOT, run } from "../command.js";
import { PLATFORM } from "../platform.js";
import { MODULES } from "../simulation/doors/library.js";
import { simulateDoorsOnAllCores, simulateOnAllCores } from "../simulation/pool.js";
import { nextSeed, partsOf, schedulesOf, simulationPage, withPart } from "./simulation-page.js";

const BUILD = new URL("../../packages/nevertwice/build/", import.meta.url);
const SIMULATION = new URL("testing/simulation.js", BUILD);

/** @typedef {import("./simulation-page.js").Simulated} Simulated */
/** @typedef {{ readonly seed: number, readonly schedules: number, readonly onProgress?: (done: number) => void }} Range */

/** @type {Readonly<Record<Simulated, { page: string, sources: readonly URL[] }>>} */
const SUBJECTS = {
  memory: { page: `${ROOT}bench/results/simulation.md`, sources: [SIMULATION] },
  etcd: {
    page: `${ROOT}bench/results/etcd-simulation.md`,
    sources: [
      SIMULATION,
      new URL("../stores/etcd.js", SIMULATION),
      new URL("../simulation/etcd-clients.js", import.meta.url),
    ],
  },
  doors: {
    page: `${ROOT}bench/results/doors-simulation.md`,
    sources: [
      ...Object.keys(MODULES).map((file) => new URL(file, BUILD)),
      new URL("../simulation/doors/simulate.js", import.meta.url),
    ],
  },
};
/** Not part of what is simulated. */
const EXTERNAL = ["@photostructure/sqlite"];
/** What is lost at most when the campaign is stopped. */
const PART = 100_000;

/** @param {Simulated} subject @param {Range} range */
function simulateSubject(subject, range) {
  if (subject === "doors") return simulateDoorsOnAllCores({ build: BUILD, ...range });
  return simulateOnAllCores({ simulation: SIMULATION, store: subject, ...range });
}

/**
 * Simulates until the page lists so many schedules of today's engine. A campaign that was stopped goes on where it was.
 * @param {number} schedules
 * @param {Simulated} subject
 * @returns {Promise<boolean>} whether every check passed
 */
export async function resumeSimulation(schedules, subject) {
  const { page, sources } = SUBJECTS[subject];
  let parts = partsOf(await readFile(page, "utf8").catch(emptyIfMissing));
  const engine = await digestOf(sources);
  const commit = (await run("git", ["rev-parse", "--short=8", "HEAD"])).stdout.trim();
  for (;;) {
    const left = schedules - schedulesOf(parts, engine);
    if (left <= 0) return true;
    const firstSeed = nextSeed(parts, engine);
    const size = Math.min(PART, left);
    const report = await simulateSubject(subject, { seed: firstSeed, schedules: size });
    if (report.failure !== undefined) {
      printFailure(report.failure, subject);
      return false;
    }
    const lastSeed = firstSeed + size - 1;
    parts = withPart(parts, { engine, commit, firstSeed, lastSeed, events: report.events });
    await writeFile(page, simulationPage(parts, { engine, platform: PLATFORM, subject }));
    console.log(
      `${schedulesOf(parts, engine).toLocaleString("en")} of ${schedules.toLocaleString("en")} schedules`,
    );
  }
}

/**
 * A digest of all code that the simulation runs, without comments: other code needs schedules of its own.
 * @param {readonly URL[]} sources
 */
async function digestOf(sources) {
  const input = sources.map((source) => fileURLToPath(source));
  const bundle = await rolldown({ input, platform: "node", external: EXTERNAL });
  const { output } = await bundle.generate({
    format: "esm",
    minify: { compress: false, mangle: false, codegen: { removeWhitespace: true } },
  });
  await bundle.close();
  const digest = createHash("sha256");
  for (const each of output) if (each.type === "chunk") digest.update(each.code);
  return digest.digest("hex").slice(0, 12);
}

/**
 * @param {NodeJS.ErrnoException} error
 * @returns {string}
 */
function emptyIfMissing(error) {
  if (error.code !== "ENOENT") throw error;
  return "";
}

/**
 * Simulates the given seeds and prints what happened in them.
 * @param {{ schedules: number, seed: number, subject: Simulated }} size
 * @returns {Promise<boolean>} whether every check passed
 */
export async function campaignOfSimulation({ schedules, seed, subject }) {
  const startedAt = performance.now();
  let shown = 0;
  const report = await simulateSubject(subject, {
    seed,
    schedules,
    onProgress(done) {
      if (done - shown < 100_000) return;
      shown = done;
      const rate = done / ((performance.now() - startedAt) / 1_000);
      console.log(
        `${done.toLocaleString("en")} schedules, ${Math.round(rate).toLocaleString("en")} a second`,
      );
    },
  });
  const seconds = (performance.now() - startedAt) / 1_000;
  console.log(
    `\n${report.schedules.toLocaleString("en")} schedules, ${report.events.toLocaleString("en")} events in ${seconds.toFixed(0)} s`,
  );
  for (const [what, times] of Object.entries(report.counts).sort())
    console.log(`  ${what}: ${times.toLocaleString("en")}`);
  const { failure } = report;
  if (failure === undefined) {
    // Zero failures in n trials put the rate under 3/n with 95 % confidence.
    console.log(
      `no promise was broken: fewer than ${(3 / report.schedules).toExponential(1)} of such schedules break one (95 % confidence)`,
    );
    return true;
  }
  printFailure(failure, subject);
  return false;
}

/**
 * @param {NonNullable<import("../../packages/nevertwice/src/testing/simulation.ts").SimulationReport["failure"]>} failure
 * @param {Simulated} subject
 */
function printFailure(failure, subject) {
  const options = subject === "doors" ? "--doors" : `--store ${subject}`;
  console.log(
    `\nBROKEN ${failure.invariant}: ${failure.what}\nreplay it: npm run campaign -- simulation ${options} --schedules 1 --seed ${failure.seed}\n`,
  );
  console.log(failure.story.join("\n"));
}
