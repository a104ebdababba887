/**
 * `npm run bench`: measures this library and its nearest peers in every suite; `npm run bench -- redis` in one. It prints
 * tables and writes bench/results/. `--quick` measures little, to show that everything works, and writes nothing.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { hotSpotsText, page, resultsText } from "../bench/document.js";
import { deliveriesText, eventsPage } from "../bench/events/document.js";
import { PHASES } from "../bench/events/phases.js";
import { gatewayPage, gatewaySpotsText, gatewayText } from "../bench/gateway/document.js";
import { compareGateway } from "../bench/gateway/rounds.js";
import { httpPage, layerSpotsText, layersText } from "../bench/http/document.js";
import { compareLayers } from "../bench/http/rounds.js";
import { isInstalled } from "../bench/installed.js";
import { comparePaired } from "../bench/paired.js";
import { messagesText, pipelinePage } from "../bench/pipeline/document.js";
import { holdSpotsText, holdsText, reservationsPage } from "../bench/reservations/document.js";
import { compareReservations } from "../bench/reservations/rounds.js";
import { compare } from "../bench/rounds.js";
import { installLoad, startServer } from "../bench/servers.js";
import { events } from "../bench/suites/events.js";
import { gateway } from "../bench/suites/gateway.js";
import { http } from "../bench/suites/http.js";
import { pipeline } from "../bench/suites/pipeline.js";
import { reservations } from "../bench/suites/reservations.js";
import { transaction } from "../bench/suites/transaction.js";
import { suites } from "../bench/suites.js";
import { transactionPage, transactionsText } from "../bench/transaction/document.js";
import { compareTransactions } from "../bench/transaction/rounds.js";
import { ROOT } from "./command.js";

const BENCH = `${ROOT}bench/`;

const { values: flags, positionals } = parseArgs({
  options: { quick: { type: "boolean", default: false } },
  allowPositionals: true,
});
const names = [...suites, http, reservations, events, pipeline, gateway, transaction].map(({ name }) => name);
const unknown = positionals.find((name) => !names.includes(name));
if (unknown !== undefined) {
  console.error(`There is no suite ${unknown}. The suites are ${names.join(", ")}.`);
  process.exit(2);
}
const chosen = positionals.length === 0 ? names : positionals;

npm(ROOT, "run", "--silent", "build");
installPeers();
for (const suite of suites) if (chosen.includes(suite.name)) await bench(suite);
if (chosen.includes(http.name)) await benchHttp();
if (chosen.includes(reservations.name)) await benchReservations();
if (chosen.includes(events.name)) await benchEvents();
if (chosen.includes(pipeline.name)) await benchPipeline();
if (chosen.includes(gateway.name)) await benchGateway();
if (chosen.includes(transaction.name)) await benchTransactions();

/** @param {import("../bench/suites.js").Suite} suite */
async function bench(suite) {
  /** @type {import("../bench/rounds.js").Results[]} */
  const all = [];
  for (const table of suite.tables) {
    console.error(`\n${suite.title}. ${table.durability}`);
    const results = await benchTable(suite, table);
    console.log(`\n${resultsText(suite, results)}\n`);
    console.log(hotSpotsText(suite, results));
    all.push(results);
  }
  keep(suite.name, (measurement) => page(suite, all, measurement));
}

async function benchHttp() {
  await installLoad();
  const size = flags.quick ? { ...http.size, runs: 1, keys: 2_000, warmup: 1_000 } : http.size;
  /** @type {(readonly import("../bench/http/rounds.js").Row[])[]} */
  const all = [];
  for (const table of http.tables) {
    console.error(`\n${http.title}. ${table.title}`);
    const rows = await withServer(table.store === "redis" ? "redis" : undefined, http.settings, (url) =>
      compareLayers(table, { size, url }, onRound(size)),
    );
    console.log(`\n${layersText(rows)}\n\n${layerSpotsText(table, rows)}`);
    all.push(rows);
  }
  keep(http.name, (measurement) => httpPage(all, measurement));
}

async function benchReservations() {
  /** @type {import("../bench/reservations/rounds.js").Results[]} */
  const all = [];
  for (const table of reservations.tables) {
    console.error(`\n${table.title}. ${table.durability}`);
    const size = flags.quick ? { ...table.size, runs: 2, holds: 1_000, warmup: 200 } : table.size;
    const results = await withServer(table.server, table.settings, (url) =>
      compareReservations(table, { size, url }, onRound(size)),
    );
    console.log(`\n${holdsText(table, results)}\n\n${holdSpotsText(table, results)}`);
    all.push(results);
  }
  keep(reservations.name, (measurement) => reservationsPage(all, measurement));
}

async function benchEvents() {
  const all = await withServer("nats", {}, (natsUrl) =>
    benchPaired(
      events,
      { measure: "events", quick: { messages: 2_000, warmup: 500 }, natsUrl },
      deliveriesText,
    ),
  );
  keep(events.name, (measurement) => eventsPage(all, measurement));
}

async function benchPipeline() {
  const quickly = { messages: 1_000, warmup: 200 };
  const all = await benchPaired(pipeline, { measure: "pipeline", quick: quickly }, messagesText);
  keep(pipeline.name, (measurement) => pipelinePage(all, measurement));
}

/**
 * Measures every table of a suite with and without a guard.
 *
 * @template {import("../bench/suites/events.js").Table | import("../bench/suites/pipeline.js").Table} Table
 * @param {{ title: string, bare: { file: string }, tables: readonly Table[] }} suite
 * @param {{ measure: string, quick: { messages: number, warmup: number }, natsUrl?: string | undefined }} plan `measure`
 * is the folder of the script that measures one run
 * @param {(table: Table, rows: readonly import("../bench/paired.js").Row[]) => string} tableText
 */
async function benchPaired({ title, bare, tables }, { measure, quick: fewer, natsUrl }, tableText) {
  /** @type {(readonly import("../bench/paired.js").Row[])[]} */
  const all = [];
  for (const table of tables) {
    console.error(`\n${title}. ${table.title}. ${table.durability}`);
    const size = flags.quick ? { ...table.size, runs: 2, ...fewer } : table.size;
    const rows = await withServer(table.server, table.settings, (url) =>
      comparePaired(
        `${BENCH}${measure}/measure.js`,
        PHASES,
        { ...table, bare },
        { size, url, natsUrl },
        onRound(size),
      ),
    );
    console.log(`\n${tableText(table, rows)}`);
    all.push(rows);
  }
  return all;
}

/**
 * Starts the server, if there is one to start, and stops it after its use.
 *
 * @template T
 * @param {Parameters<typeof startServer>[0] | undefined} name
 * @param {Readonly<Record<string, string>>} settings
 * @param {(url: string | undefined) => Promise<T>} use
 */
async function withServer(name, settings, use) {
  const server = name && (await startServer(name, settings));
  try {
    return await use(server?.url);
  } finally {
    await server?.stop();
  }
}

/** @param {{ runs: number }} size */
function onRound({ runs }) {
  return (/** @type {number} */ round) => console.error(`run ${round} of ${runs} done`);
}

async function benchGateway() {
  await installLoad();
  const size = flags.quick ? { ...gateway.size, runs: 1, keys: 4_000, warmup: 2_000 } : gateway.size;
  console.error(`\n${gateway.title}. ${gateway.durability}`);
  const rows = await compareGateway(size, onRound(size));
  console.log(`\n${gatewayText(rows)}\n\n${gatewaySpotsText(rows)}`);
  keep(gateway.name, (measurement) => gatewayPage(rows, measurement));
}

async function benchTransactions() {
  const { size: full, server, settings } = transaction;
  const size = flags.quick ? { ...full, runs: 2, keys: 500, warmup: 100 } : full;
  console.error(`\n${transaction.title}. ${transaction.durability}`);
  const rows = await withServer(server, settings, (url) => compareTransactions({ size, url }, onRound(size)));
  console.log(`\n${transactionsText(rows)}`);
  keep(transaction.name, (measurement) => transactionPage(rows, measurement));
}

/**
 * Writes the page of a whole measurement.
 *
 * @param {string} name
 * @param {(measurement: { versionOf: (name: string) => string, platform: string }) => string} pageOf
 */
function keep(name, pageOf) {
  if (flags.quick) return;
  const platform = `Node ${process.versions.node}, ${process.platform} ${process.arch}, ${availableParallelism()} logical processors`;
  writeFileSync(`${BENCH}results/${name}.md`, pageOf({ versionOf, platform }));
  console.log(`\nWritten to bench/results/${name}.md.`);
}

/**
 * @param {import("../bench/suites.js").Suite} suite
 * @param {import("../bench/suites.js").Table} table
 */
async function benchTable(suite, { settings, fingerprints, size: full }) {
  const size = flags.quick ? quick(full) : full;
  return withServer(suite.server, settings ?? {}, (url) =>
    compare(suite, { fingerprints, size, url }, onRound(size)),
  );
}

/** @param {import("../bench/suites.js").Size} full */
function quick({ keys, warmup, ...rest }) {
  return { ...rest, runs: 2, keys: Math.min(keys, 2_000), warmup: Math.min(warmup, 1_000) };
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
