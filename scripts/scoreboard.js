/**
 * `npm run scoreboard`: runs thirty scenarios on this library and on its peers, and writes docs/scoreboard.md.
 * `-- --library steadykey --scenario 7` runs a part of it, and prints what happened. Exit code 1: nevertwice failed one.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { isInstalled } from "../bench/installed.js";
import { describeCommit } from "../bench/revisions.js";
import { ROOT } from "./command.js";
import { PLATFORM } from "./platform.js";

const FOLDER = `${ROOT}scoreboard/`;

npm(ROOT, "run", "--silent", "compile");
installPeers();
// Its path is made here, so that the type checker does not read the adapters: their packages are installed only now.
const { runScoreboard } = await import(`${FOLDER}run.js`);
const isWhole = await runScoreboard(process.argv.slice(2), { commit: describeCommit(), platform: PLATFORM });
process.exit(isWhole ? 0 : 1);

/** The peers are installed outside the workspace, as those of the benchmark are. */
function installPeers() {
  const hidden = `${FOLDER}node_modules/.package-lock.json`;
  if (existsSync(hidden) && isInstalled(readJson(`${FOLDER}package-lock.json`), readJson(hidden))) return;
  npm(FOLDER, "ci", "--ignore-scripts", "--no-audit", "--no-fund");
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
  if (status !== 0) process.exit(status ?? 1);
}

/** @param {string} file */
function readJson(file) {
  return JSON.parse(readFileSync(file, "utf8"));
}
