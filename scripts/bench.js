/**
 * `npm run bench`: this library beside its nearest peers, on each ground where they meet; `npm run bench -- redis` on one.
 * It prints tables and writes bench/results/; `--quick` does little, shows that everything works, and writes nothing.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { hotSpotsText, page, resultsText } from "../bench/document.js";
import { grounds } from "../bench/grounds.js";
import { isInstalled } from "../bench/installed.js";
import { compare } from "../bench/rounds.js";
import { startServer } from "../bench/servers.js";
import { ROOT } from "./command.js";

const BENCH = `${ROOT}bench/`;

const { values: flags, positionals } = parseArgs({
  options: { quick: { type: "boolean", default: false } },
  allowPositionals: true,
});
const chosen = grounds.filter(({ name }) => positionals.length === 0 || positionals.includes(name));
const unknown = positionals.find((word) => !grounds.some(({ name }) => name === word));
if (unknown !== undefined) {
  console.error(`There is no ${unknown}; choose from ${grounds.map(({ name }) => name).join(", ")}.`);
  process.exit(2);
}

npm(ROOT, "run", "--silent", "build");
installPeers();
for (const ground of chosen) await bench(ground);

/** @param {import("../bench/grounds.js").Ground} ground */
async function bench(ground) {
  const all = [];
  for (const table of ground.tables) {
    console.error(`\n${ground.title}. ${table.durability}`);
    const results = await benchTable(ground, table);
    console.log(`\n${resultsText(ground, results)}\n`);
    console.log(hotSpotsText(ground, results));
    all.push(results);
  }
  if (flags.quick) return;
  const platform = `Node ${process.versions.node}, ${process.platform} ${process.arch}, ${availableParallelism()} logical processors`;
  writeFileSync(`${BENCH}results/${ground.name}.md`, page(ground, all, { versionOf, platform }));
  console.log(`\nWritten to bench/results/${ground.name}.md.`);
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
