/** The campaigns that run tests at full size. If all pass, their figures are written to a page. */
import { spawn } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { describeCommit } from "../../bench/revisions.js";
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

/**
 * A row whose name begins with `fleet-` is run by `npm run campaign -- fleet --engine` and the rest of its name.
 *
 * @type {Readonly<Record<string, Trials>>}
 */
export const TRIALS = {
  stores: {
    projects: ["scale"],
    // These have their own campaigns and pages.
    tests: [
      "deliveries",
      "pipeline",
      "effects",
      "postgres-crashes",
      "commit-cuts",
      "query-builders",
      "projects",
      "web-recipes",
      "lost-leader",
      "fleet-patroni",
      "fleet-sentinel",
      "fleet-cluster",
      "fleet-galera",
      "etcd-clients",
      "operator",
      "lists",
      "list-indexes",
      "calls-alone",
      "endurance",
      "endurance-judge",
      "purge-cost",
      "faults",
    ].flatMap((name) => ["--exclude", `**/scale/${name}.test.ts`]),
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
  /** Ten million keys (`--keys N` for others), ten operators who ask without a pause, and payments beside them. */
  operators: {
    projects: ["scale"],
    tests: [`${LIBRARY_TESTS}scale/operator.test.ts`],
    page: "operators-at-scale",
    title: "Operators beside payments",
  },
  /** Five minutes in which etcd loses its leader every ten seconds, under eight processes; beside it the same on Redis. */
  etcd: {
    projects: ["scale"],
    tests: [`${LIBRARY_TESTS}scale/lost-leader.test.ts`],
    page: "lost-leader",
    title: "A store that loses its leader",
  },
  /**
   * Recorded histories and effects on every store for `--minutes` in all, while processes, networks, clocks, disks and servers
   * fail; with planted bugs, and settings that must be seen losing. `--store` takes one of them, or the URL of a server.
   */
  faults: {
    projects: ["scale"],
    tests: [`${LIBRARY_TESTS}scale/faults.test.ts`],
    page: "faults",
    title: "Linearizability under faults",
  },
  /** The package etcd3 and the HTTP gateway of etcd: how fast they are, and what they do when the leader is lost. */
  "etcd-clients": {
    projects: ["scale"],
    tests: [`${LIBRARY_TESTS}scale/etcd-clients.test.ts`],
    page: "etcd-clients",
    title: "Clients of etcd",
  },
  /** Every page of the site, in light, in dark and on a phone. */
  site: {
    projects: ["server"],
    tests: [`${SERVER_TESTS}site.test.ts`],
  },
  /** The first page of lists among ten million keys. */
  lists: {
    projects: ["scale"],
    tests: [`${LIBRARY_TESTS}scale/lists.test.ts`],
    page: "lists-at-scale",
    title: "Lists at scale",
  },
  /**
   * Steady calls on one store after another, with a long reader and faults, for `--minutes` in all: nothing happens twice, is
   * lost or grows.
   */
  endurance: {
    projects: ["scale"],
    tests: [`${LIBRARY_TESTS}scale/endurance.test.ts`],
    page: "endurance",
    title: "Endurance",
  },
  /** What purging expired records costs the claims of the same moment. */
  "purge-cost": {
    projects: ["scale"],
    tests: [`${LIBRARY_TESTS}scale/purge-cost.test.ts`],
    page: "purge-cost",
    title: "The cost of purging",
  },
  /** What the indexes of lists cost a claim among a million keys. */
  "list-indexes": {
    projects: ["scale"],
    tests: [`${LIBRARY_TESTS}scale/list-indexes.test.ts`],
    page: "list-indexes",
    title: "The indexes of lists",
  },
  /** How long a call takes on each store while no other is in flight. */
  alone: {
    projects: ["scale"],
    tests: [`${LIBRARY_TESTS}scale/calls-alone.test.ts`],
    page: "calls-alone",
    title: "Calls alone",
  },
  /** The examples of transactions with each query builder, on a fresh install of it and of the packed package. */
  builders: {
    projects: ["scale"],
    tests: [`${LIBRARY_TESTS}scale/query-builders.test.ts`],
    page: "query-builders",
    title: "The query builders on a fresh install",
  },
  /** The projects of users of each framework, on a fresh install of it and of the packed package. */
  projects: {
    projects: ["scale"],
    tests: [`${LIBRARY_TESTS}scale/projects.test.ts`],
    page: "user-projects",
    title: "User projects on a fresh install",
  },
  /** The recipes of web frameworks on a fresh install of them and of the packed package, and the form of Next. */
  recipes: {
    projects: ["scale"],
    tests: [`${LIBRARY_TESTS}scale/web-recipes.test.ts`],
    page: "web-recipes",
    title: "The recipes of web frameworks on a fresh install",
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
  /** The list of a million keys in a browser. */
  dashboard: {
    projects: ["server"],
    tests: [`${SERVER_TESTS}dashboard-many-keys.test.ts`],
    page: "dashboard-at-scale",
    title: "The dashboard at scale",
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
  /** Databases of several nodes under eight processes, whose leader is killed, paused, cut off and switched over fifty times. */
  "fleet-patroni": {
    projects: ["scale"],
    tests: [`${LIBRARY_TESTS}scale/fleet-patroni.test.ts`],
    page: "fleet-patroni",
    title: "Postgres under Patroni",
  },
  "fleet-sentinel": {
    projects: ["scale"],
    tests: [`${LIBRARY_TESTS}scale/fleet-sentinel.test.ts`],
    page: "fleet-sentinel",
    title: "Redis under Sentinel",
  },
  "fleet-cluster": {
    projects: ["scale"],
    tests: [`${LIBRARY_TESTS}scale/fleet-cluster.test.ts`],
    page: "fleet-cluster",
    title: "A Redis Cluster that fails over",
  },
  "fleet-galera": {
    projects: ["scale"],
    tests: [`${LIBRARY_TESTS}scale/fleet-galera.test.ts`],
    page: "fleet-galera",
    title: "A Galera cluster",
  },
  /** Five servers behind nginx, on Postgres and on Redis, each of which is stopped and started three times under load. */
  "fleet-servers": {
    projects: ["server"],
    tests: [`${SERVER_TESTS}fleet-servers.test.ts`],
    page: "fleet-servers",
    title: "Servers restarted one at a time",
  },
  /** Two regions that are cut off from each other, heal, and hand owners to each other, under load. */
  "fleet-regions": {
    projects: ["server"],
    tests: [`${SERVER_TESTS}fleet-regions.test.ts`],
    page: "fleet-regions",
    title: "Two regions",
  },
  /** A hundred thousand keys of each other library that `nevertwice import` reads. */
  import: {
    projects: ["server"],
    tests: [`${SERVER_TESTS}import-peers.test.ts`],
    page: "import-at-scale",
    title: "Imports at scale",
  },
};

/**
 * @param {string} campaign
 * @param {Trials} trials
 * @param {{ readonly minutes: number, readonly seed?: string | undefined, readonly store?: string | undefined }} choice of the
 *   campaigns that take a time, a seed or a store
 * @returns {Promise<boolean>} whether every check passed
 */
export async function campaignOfTrials(
  campaign,
  { projects, tests, page, title = "" },
  { minutes, seed, store },
) {
  await mkdir(`${ROOT}.cache`, { recursive: true });
  await rm(FIGURES, { force: true });
  const today = new Date().toISOString().slice(0, 10);
  const platform = `Commit ${describeCommit()}, ${today}. ${PLATFORM}`;
  const hasPassed = await runTrials(projects, tests, {
    NEVERTWICE_MINUTES: String(minutes),
    ...(seed !== undefined && { NEVERTWICE_SEED: seed }),
    ...(store !== undefined && { NEVERTWICE_FAULTS_STORE: store }),
    ...(page !== undefined && { NEVERTWICE_SCALE_FIGURES: FIGURES }),
  });
  if (page === undefined) return hasPassed;
  const file = `bench/results/${page}.md`;
  if (!hasPassed) {
    console.log(`a trial failed, so ${file} was not written`);
    return false;
  }
  const lines = (await readFile(FIGURES, "utf8").catch(() => "")).trim().split("\n");
  const figures = lines.map((line) => JSON.parse(line));
  await writeFile(ROOT + file, pageOf({ title, campaign }, figures, platform));
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
