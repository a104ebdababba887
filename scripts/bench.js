/**
 * `npm run bench`: this library on its memory store beside its two nearest peers on theirs. It prints a table and writes
 * bench/results/memory.md; `npm run bench -- --quick` does little, shows that everything works, and writes nothing.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { hotSpotsText, page, resultsText } from "../bench/document.js";
import { isInstalled } from "../bench/installed.js";
import { compare } from "../bench/rounds.js";
import { ROOT } from "./command.js";

const BENCH = `${ROOT}bench/`;
const FULL = { runs: 5, keys: 60_000, laps: 2, warmup: 20_000, inFlight: 64 };
const QUICK = { runs: 2, keys: 2_000, laps: 2, warmup: 1_000, inFlight: 64 };

const { values: flags } = parseArgs({ options: { quick: { type: "boolean", default: false } } });
const size = flags.quick ? QUICK : FULL;

npm(ROOT, "run", "--silent", "build");
installPeers();
const results = await compare(size, (round) => console.error(`run ${round} of ${size.runs} done`));
console.log(`\n${resultsText(results)}\n`);
console.log(hotSpotsText(results));
if (!flags.quick) {
  const platform = `Node ${process.versions.node}, ${process.platform} ${process.arch}, ${availableParallelism()} logical processors`;
  writeFileSync(`${BENCH}results/memory.md`, page(results, { size, versionOf, platform }));
  console.log("\nWritten to bench/results/memory.md.");
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

/** @param {string} name of a peer, or of a package of this workspace */
function versionOf(name) {
  const peer = `${BENCH}node_modules/${name}/package.json`;
  return readJson(existsSync(peer) ? peer : `${ROOT}packages/${name}/package.json`).version;
}

/** @param {string} file */
function readJson(file) {
  return JSON.parse(readFileSync(file, "utf8"));
}
