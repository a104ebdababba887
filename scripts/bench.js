/**
 * `npm run bench`: this library beside its nearest peers, on each ground where they meet; `npm run bench -- redis` on one.
 * It prints tables and writes bench/results/; `--quick` does little, shows that everything works, and writes nothing.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { hotSpotsText, page, resultsText } from "../bench/document.js";
import { deliveriesText, eventsPage } from "../bench/events/document.js";
import { compareConsumers } from "../bench/events/rounds.js";
import { gatewayPage, gatewaySpotsText, gatewayText } from "../bench/gateway/document.js";
import { compareGateway } from "../bench/gateway/rounds.js";
import { events } from "../bench/grounds/events.js";
import { gateway } from "../bench/grounds/gateway.js";
import { http } from "../bench/grounds/http.js";
import { pipeline } from "../bench/grounds/pipeline.js";
import { reservations } from "../bench/grounds/reservations.js";
import { grounds } from "../bench/grounds.js";
import { httpPage, layerSpotsText, layersText } from "../bench/http/document.js";
import { compareLayers } from "../bench/http/rounds.js";
import { isInstalled } from "../bench/installed.js";
import { messagesText, pipelinePage } from "../bench/pipeline/document.js";
import { comparePipelines } from "../bench/pipeline/rounds.js";
import { holdSpotsText, holdsText, reservationsPage } from "../bench/reservations/document.js";
import { compareReservations } from "../bench/reservations/rounds.js";
import { compare } from "../bench/rounds.js";
import { installLoad, startServer } from "../bench/servers.js";
import { ROOT } from "./command.js";

const BENCH = `${ROOT}bench/`;

const { values: flags, positionals } = parseArgs({
  options: { quick: { type: "boolean", default: false } },
  allowPositionals: true,
});
const names = [...grounds, http, reservations, events, pipeline, gateway].map(({ name }) => name);
const unknown = positionals.find((word) => !names.includes(word));
if (unknown !== undefined) {
  console.error(`There is no ${unknown}; choose from ${names.join(", ")}.`);
  process.exit(2);
}
const chosen = positionals.length === 0 ? names : positionals;

npm(ROOT, "run", "--silent", "build");
installPeers();
for (const ground of grounds) if (chosen.includes(ground.name)) await bench(ground);
if (chosen.includes(http.name)) await benchHttp();
if (chosen.includes(reservations.name)) await benchReservations();
if (chosen.includes(events.name)) await benchEvents();
if (chosen.includes(pipeline.name)) await benchPipeline();
if (chosen.includes(gateway.name)) await benchGateway();

/** @param {import("../bench/grounds.js").Ground} ground */
async function bench(ground) {
  /** @type {import("../bench/rounds.js").Results[]} */
  const all = [];
  for (const table of ground.tables) {
    console.error(`\n${ground.title}. ${table.durability}`);
    const results = await benchTable(ground, table);
    console.log(`\n${resultsText(ground, results)}\n`);
    console.log(hotSpotsText(ground, results));
    all.push(results);
  }
  keep(ground.name, (measurement) => page(ground, all, measurement));
}

async function benchHttp() {
  await installLoad();
  const size = flags.quick ? { ...http.size, runs: 1, keys: 2_000, warmup: 1_000 } : http.size;
  /** @type {(readonly import("../bench/http/rounds.js").Row[])[]} */
  const all = [];
  for (const table of http.tables) {
    console.error(`\n${http.title}. ${table.title}`);
    const server = table.store === "redis" ? await startServer("redis", http.settings) : undefined;
    try {
      const rows = await compareLayers(table, { size, url: server?.url }, (round) =>
        console.error(`run ${round} of ${size.runs} done`),
      );
      console.log(`\n${layersText(rows)}\n\n${layerSpotsText(table, rows)}`);
      all.push(rows);
    } finally {
      await server?.stop();
    }
  }
  keep(http.name, (measurement) => httpPage(all, measurement));
}

async function benchReservations() {
  /** @type {import("../bench/reservations/rounds.js").Results[]} */
  const all = [];
  for (const table of reservations.tables) {
    console.error(`\n${table.title}. ${table.durability}`);
    const size = flags.quick ? { ...table.size, runs: 2, holds: 1_000, warmup: 200 } : table.size;
    const server = table.server && (await startServer(table.server, table.settings));
    try {
      const results = await compareReservations(table, { size, url: server?.url }, (round) =>
        console.error(`run ${round} of ${size.runs} done`),
      );
      console.log(`\n${holdsText(table, results)}\n\n${holdSpotsText(table, results)}`);
      all.push(results);
    } finally {
      await server?.stop();
    }
  }
  keep(reservations.name, (measurement) => reservationsPage(all, measurement));
}

async function benchEvents() {
  /** @type {(readonly import("../bench/events/rounds.js").Row[])[]} */
  const all = [];
  const nats = await startServer("nats", {});
  try {
    for (const table of events.tables) {
      console.error(`\n${events.title}. ${table.title}. ${table.durability}`);
      const size = flags.quick ? { ...table.size, runs: 2, messages: 2_000, warmup: 500 } : table.size;
      const server = table.server && (await startServer(table.server, table.settings));
      try {
        const conditions = { size, url: server?.url, natsUrl: nats.url };
        const rows = await compareConsumers({ ...table, bare: events.bare }, conditions, (round) =>
          console.error(`run ${round} of ${size.runs} done`),
        );
        console.log(`\n${deliveriesText(table, rows)}`);
        all.push(rows);
      } finally {
        await server?.stop();
      }
    }
  } finally {
    await nats.stop();
  }
  keep(events.name, (measurement) => eventsPage(all, measurement));
}

async function benchPipeline() {
  /** @type {(readonly import("../bench/paired.js").Row[])[]} */
  const all = [];
  for (const table of pipeline.tables) {
    console.error(`\n${pipeline.title}. ${table.title}. ${table.durability}`);
    const size = flags.quick ? { ...table.size, runs: 2, messages: 1_000, warmup: 200 } : table.size;
    const server = table.server && (await startServer(table.server, table.settings));
    try {
      const conditions = { size, url: server?.url };
      const rows = await comparePipelines({ ...table, bare: pipeline.bare }, conditions, (round) =>
        console.error(`run ${round} of ${size.runs} done`),
      );
      console.log(`\n${messagesText(table, rows)}`);
      all.push(rows);
    } finally {
      await server?.stop();
    }
  }
  keep(pipeline.name, (measurement) => pipelinePage(all, measurement));
}

async function benchGateway() {
  await installLoad();
  const size = flags.quick ? { ...gateway.size, runs: 1, keys: 4_000, warmup: 2_000 } : gateway.size;
  console.error(`\n${gateway.title}. ${gateway.durability}`);
  const rows = await compareGateway(size, (round) => console.error(`run ${round} of ${size.runs} done`));
  console.log(`\n${gatewayText(rows)}\n\n${gatewaySpotsText(rows)}`);
  keep(gateway.name, (measurement) => gatewayPage(rows, measurement));
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
 * @param {import("../bench/grounds.js").Ground} ground
 * @param {import("../bench/grounds.js").Table} table
 */
async function benchTable(ground, { settings, fingerprints, size: full }) {
  const size = flags.quick ? quick(full) : full;
  const server = ground.server && (await startServer(ground.server, settings ?? {}));
  try {
    return await compare(ground, { fingerprints, size, url: server?.url }, (round) =>
      console.error(`run ${round} of ${size.runs} done`),
    );
  } finally {
    await server?.stop();
  }
}

/** @param {import("../bench/grounds.js").Size} full */
function quick({ keys, warmup, ...rest }) {
  return { ...rest, runs: 2, keys: Math.min(keys, 2_000), warmup: Math.min(warmup, 1_000) };
}

/** The peers are installed apart from the workspace, so that nobody who only builds or tests has to fetch them. */
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
  // It has said itself what went wrong.
  if (status !== 0) process.exit(status ?? 1);
}

/** @param {string} name of a peer, of a package of this workspace, or of a driver that the workspace has installed */
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
