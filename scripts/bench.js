/**
 * `npm run bench`: measures this library and its nearest peers in every suite; `npm run bench -- redis` in one. It prints
 * tables and writes bench/results/, where each page names the commit. `--quick` measures little, to show that everything
 * works, and writes nothing. `--compare REV` measures this revision and another one in turn, and writes nothing either.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { parseBenchArguments } from "../bench/arguments.js";
import { capacityPage, capacityTexts, coefficientsModule } from "../bench/capacity/document.js";
import { measureCapacity } from "../bench/capacity/rounds.js";
import { hotSpotsText, page, tableText } from "../bench/document.js";
import { gatewayPage, gatewaySpotsText, gatewayText } from "../bench/gateway/document.js";
import { compareGateway } from "../bench/gateway/rounds.js";
import { httpPage, layerSpotsText, layersText } from "../bench/http/document.js";
import { compareLayers } from "../bench/http/rounds.js";
import { isInstalled } from "../bench/installed.js";
import { loadingPage, loadingText } from "../bench/loading/document.js";
import { compareLoading } from "../bench/loading/rounds.js";
import { outboxPage, outboxText } from "../bench/outbox/document.js";
import { compareOutbox } from "../bench/outbox/rounds.js";
import { median } from "../bench/report.js";
import { checkOut, compareRevisions, describeCommit, revisionsText } from "../bench/revisions.js";
import { compare } from "../bench/rounds.js";
import { installLoad, withServers } from "../bench/servers.js";
import { capacity } from "../bench/suites/capacity.js";
import { gateway } from "../bench/suites/gateway.js";
import { http } from "../bench/suites/http.js";
import { loading } from "../bench/suites/loading.js";
import { outbox } from "../bench/suites/outbox.js";
import { transaction } from "../bench/suites/transaction.js";
import { suites } from "../bench/suites.js";
import { transactionPage, transactionsText } from "../bench/transaction/document.js";
import { compareTransactions } from "../bench/transaction/rounds.js";
import { ROOT } from "./command.js";
import { PLATFORM } from "./platform.js";

const BENCH = `${ROOT}bench/`;

/**
 * One page of results, and how its tables are measured and shown.
 *
 * @typedef {object} Benchmark
 * @property {string} name
 * @property {string} title
 * @property {boolean} [usesLoad] whether wrk is needed
 * @property {object} quick the size of a quick run
 * @property {readonly any[]} tables
 * @property {(table: any, conditions: { size: any, urls: import("../bench/servers.js").Urls }) => Promise<any>} compare
 * @property {(table: any, results: any) => readonly string[]} texts
 * @property {(all: readonly any[], measurement: import("../bench/page.js").LoadedMeasurement) => string} page
 * @property {(all: readonly any[], platform: string) => void} [write] what else is written
 */

/** @type {readonly Benchmark[]} */
const BENCHMARKS = [
  ...suites.map((suite) => ({
    ...suite,
    compare: (/** @type {any} */ table, /** @type {any} */ conditions) => compare(suite, table, conditions),
    texts: (/** @type {any} */ table, /** @type {any} */ results) => [
      tableText(suite, table, results),
      hotSpotsText(suite, results),
    ],
    page: (/** @type {readonly any[]} */ all, /** @type {any} */ measurement) =>
      page(suite, all, measurement),
  })),
  {
    ...http,
    compare: compareLayers,
    texts: (_, rows) => [layersText(rows), layerSpotsText(rows)],
    page: httpPage,
  },
  {
    ...gateway,
    compare: compareGateway,
    texts: (_, rows) => [gatewayText(rows), gatewaySpotsText(rows)],
    page: gatewayPage,
  },
  {
    ...transaction,
    compare: compareTransactions,
    texts: (_, rows) => [transactionsText(rows)],
    page: transactionPage,
  },
  {
    ...outbox,
    compare: compareOutbox,
    texts: (_, rows) => [outboxText(rows)],
    page: outboxPage,
  },
  {
    ...loading,
    compare: compareLoading,
    texts: (_, rows) => [loadingText(rows)],
    page: loadingPage,
  },
  {
    ...capacity,
    compare: measureCapacity,
    texts: (_, coefficients) => capacityTexts(coefficients),
    page: capacityPage,
    write: writeCoefficients,
  },
];

const { names, isQuick, compare: revision } = readArguments();
const commit = describeCommit();
npm(ROOT, "run", "--silent", "build");
installPeers();
if (revision === undefined) {
  for (const benchmark of BENCHMARKS) if (names.includes(benchmark.name)) await bench(benchmark);
} else await benchRevisions(revision);

function readArguments() {
  try {
    return parseBenchArguments(process.argv.slice(2), {
      all: BENCHMARKS.map(({ name }) => name),
      comparable: suites.map(({ name }) => name),
    });
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exit(2);
  }
}

/** @param {string} other */
async function benchRevisions(other) {
  const { commit: otherCommit, home, remove } = checkOut(other);
  try {
    for (const suite of suites.filter(({ name }) => names.includes(name)))
      for (const table of suite.tables) {
        console.error(`\n${suite.title}. ${[table.title, table.durability].filter(Boolean).join(". ")}`);
        const size = isQuick ? { ...table.size, ...suite.quick } : table.size;
        const rows = await withServers(table.servers, (urls) =>
          compareRevisions(suite, table, { size, urls, home }),
        );
        console.log(`\n${commit} and ${otherCommit}\n\n${revisionsText(otherCommit, rows)}`);
      }
  } finally {
    remove();
  }
}

/** @param {Benchmark} benchmark */
async function bench({
  name,
  title,
  usesLoad,
  quick,
  tables,
  compare: compareSides,
  texts,
  page: pageOf,
  write,
}) {
  if (usesLoad) await installLoad();
  const all = [];
  /** @type {number[]} */
  const loads = [];
  for (const table of tables) {
    console.error(`\n${title}. ${[table.title, table.durability].filter(Boolean).join(". ")}`);
    const size = isQuick ? { ...table.size, ...quick } : table.size;
    const results = await withServers(table.servers, (urls) => compareSides(table, { size, urls }));
    console.log(`\n${texts(table, results).join("\n\n")}`);
    all.push(results);
    loads.push(loadavg()[0] ?? 0);
  }
  if (isQuick) return;
  writeFileSync(
    `${BENCH}results/${name}.md`,
    pageOf(all, { versionOf, platform: `Commit ${commit}. ${PLATFORM}`, load: median(loads) }),
  );
  write?.(all, PLATFORM);
  console.log(`\nWritten to bench/results/${name}.md.`);
}

/** @type {NonNullable<Benchmark["write"]>} */
function writeCoefficients(all, platform) {
  const file = `${ROOT}packages/server/cli/plan/coefficients.ts`;
  const date = new Date().toISOString().slice(0, 10);
  writeFileSync(file, coefficientsModule(all, { date, platform }));
  npm(ROOT, "exec", "--", "biome", "format", "--write", file);
}

/** The peers are installed outside the workspace, so that building and testing need not fetch them. */
function installPeers() {
  const hidden = `${BENCH}node_modules/.package-lock.json`;
  if (existsSync(hidden) && isInstalled(readJson(`${BENCH}package-lock.json`), readJson(hidden))) return;
  npm(BENCH, "ci", "--ignore-scripts", "--no-audit", "--no-fund");
}

/**
 * @param {string} folder
 * @param {readonly string[]} words
 */
function npm(folder, ...words) {
  const { status } = spawnSync("npm", words, {
    cwd: folder,
    stdio: "inherit",
    shell: process.platform === "win32",
  });
  // npm has printed what went wrong.
  if (status !== 0) process.exit(status ?? 1);
}

/** @param {string} name of a peer, of a package of this workspace, or of an installed driver */
function versionOf(name) {
  const files = [
    `${BENCH}node_modules/${name}`,
    `${ROOT}packages/${name}`,
    `${ROOT}node_modules/${name}`,
  ].map((folder) => `${folder}/package.json`);
  return readJson(files.find((file) => existsSync(file)) ?? "").version;
}

/** @param {string} file */
function readJson(file) {
  return JSON.parse(readFileSync(file, "utf8"));
}
