/** The campaigns that run tests at full size. If all pass, their figures are written to a page. */
import { spawn } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { ROOT } from "../command.js";
import { PLATFORM } from "../platform.js";
import { pageOf } from "./page.js";

const FIGURES = `${ROOT}.cache/scale.jsonl`;
const LIBRARY_TESTS = "packages/nevertwice/test/";
const SERVER_TESTS = "packages/server/test/";

/**
 * @typedef {object} Trials
 * @property {readonly ("tests" | "stores" | "scale" | "server")[]} projects of vitest
 * @property {readonly string[]} tests which of them, in the words of vitest's command line
 * @property {string} [page] in bench/results; without one the figures are only printed
 * @property {string} [title] of the page
 */

/** @type {Readonly<Record<string, Trials>>} */
export const TRIALS = {
  stores: {
    projects: ["scale"],
    // Deliveries, pipelines, effects and query builders have their own campaigns and pages.
    tests: ["deliveries", "pipeline", "effects", "postgres-crashes", "commit-cuts", "query-builders"].flatMap(
      (name) => ["--exclude", `**/scale/${name}.test.ts`],
    ),
    page: "stores-at-scale",
    title: "The stores at scale",
  },
  /**
   * A hundred thousand actions from eight processes that are killed, ten thousand races on each store, every cell damaged
   * in every way, and more histories and states.
   */
  reservations: {
    projects: ["tests", "stores", "scale"],
    tests: [
      `${LIBRARY_TESTS}reservations/properties.test.ts`,
      `${LIBRARY_TESTS}reservations/races.test.ts`,
      `${LIBRARY_TESTS}reservations/exhaustive.test.ts`,
      `${LIBRARY_TESTS}stores/reservations-corrupt-rows.test.ts`,
      `${LIBRARY_TESTS}stores/reservations-properties.test.ts`,
      `${LIBRARY_TESTS}scale/reservations.test.ts`,
    ],
  },
  /** A hundred thousand deliveries on each broker to consumers that are killed, and pipelines killed at every stage. */
  events: {
    projects: ["scale"],
    tests: [`${LIBRARY_TESTS}scale/deliveries.test.ts`, `${LIBRARY_TESTS}scale/pipeline.test.ts`],
    page: "deliveries-at-scale",
    title: "Deliveries at scale",
  },
  /**
   * Twenty thousand processes killed in transactions, steps, sagas and outboxes, a Postgres killed a thousand times, and
   * thousands of COMMITs cut.
   */
  effects: {
    projects: ["scale"],
    tests: [
      `${LIBRARY_TESTS}scale/effects.test.ts`,
      `${LIBRARY_TESTS}scale/postgres-crashes.test.ts`,
      `${LIBRARY_TESTS}scale/commit-cuts.test.ts`,
    ],
    page: "effects-at-scale",
    title: "Effects at scale",
  },
  /** The examples of transactions with each query builder, on a fresh install of it and of the packed package. */
  builders: {
    projects: ["scale"],
    tests: [`${LIBRARY_TESTS}scale/query-builders.test.ts`],
    page: "query-builders",
    title: "The query builders on a fresh install",
  },
  /** Servers killed every two seconds, a hundred thousand requests generated from the API's description, and the image. */
  server: {
    projects: ["server"],
    tests: [
      `${SERVER_TESTS}chaos.test.ts`,
      `${SERVER_TESTS}fuzz.test.ts`,
      `${SERVER_TESTS}packaging.test.ts`,
    ],
    page: "server-at-scale",
    title: "The server at scale",
  },
  /**
   * In front of node:http and of nginx: a hundred thousand generated requests and as many generated answers, and two
   * thousand connections that stall in each of nine ways.
   */
  gateway: {
    projects: ["server"],
    tests: [`${SERVER_TESTS}gateway-fuzz.test.ts`, `${SERVER_TESTS}gateway-stalls.test.ts`],
    page: "gateway-at-scale",
    title: "The gateway at scale",
  },
};

/**
 * @param {string} campaign
 * @param {Trials} trials
 * @returns {Promise<boolean>} whether every check passed
 */
export async function campaignOfTrials(campaign, { projects, tests, page, title = "" }) {
  await mkdir(`${ROOT}.cache`, { recursive: true });
  await rm(FIGURES, { force: true });
  const hasPassed = await runTrials(
    projects,
    tests,
    page === undefined ? {} : { NEVERTWICE_SCALE_FIGURES: FIGURES },
  );
  if (page === undefined) return hasPassed;
  const file = `bench/results/${page}.md`;
  if (!hasPassed) {
    console.log(`a trial failed, so ${file} was not written`);
    return false;
  }
  const lines = (await readFile(FIGURES, "utf8").catch(() => "")).trim().split("\n");
  const figures = lines.map((line) => JSON.parse(line));
  await writeFile(ROOT + file, pageOf({ title, campaign }, figures, PLATFORM));
  console.log(`\nWritten to ${file}.`);
  return true;
}

/**
 * @param {Trials["projects"]} projects
 * @param {readonly string[]} tests
 * @param {Readonly<Record<string, string>>} more variables of the environment
 * @returns {Promise<boolean>}
 */
function runTrials(projects, tests, more) {
  return new Promise((resolve) => {
    const flags = projects.flatMap((project) => ["--project", project]);
    const args = [`${ROOT}node_modules/vitest/vitest.mjs`, "run", ...flags, ...tests];
    const env = { ...process.env, NEVERTWICE_SCALE: "full", ...more };
    const child = spawn(process.execPath, args, { cwd: ROOT, env, stdio: "inherit" });
    child.on("error", () => resolve(false));
    child.on("close", (code) => resolve(code === 0));
  });
}
