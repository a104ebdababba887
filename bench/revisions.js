/** Compares this revision of the library with another one: the same benchmark, on both builds in turn. */
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { medianCosts } from "./costs.js";
import { formatRatio, formatSummary, formatTable, ratioToBest, summarise } from "./report.js";
import { runForked } from "./run.js";
import { takeTurns } from "./turns.js";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** @param {readonly string[]} words */
export function git(...words) {
  return execFileSync("git", words, { cwd: ROOT, encoding: "utf8" }).trim();
}

/** What is measured: "1a2b3c4", or "1a2b3c4 with uncommitted changes". The pages of results do not count. */
export function describeCommit() {
  const changes = git("status", "--porcelain", "--", ".", ":!bench/results");
  const commit = git("rev-parse", "--short", "HEAD");
  return changes === "" ? commit : `${commit} with uncommitted changes`;
}

/**
 * Checks a revision out in a temporary folder and builds it. The benchmark in that folder is the present one, so that only
 * the library differs. `remove` deletes the folder.
 *
 * @param {string} revision
 */
export function checkOut(revision) {
  const commit = git("rev-parse", "--verify", "--short", `${revision}^{commit}`);
  const folder = join(mkdtempSync(join(tmpdir(), "nevertwice-revision-")), "tree");
  const remove = () => {
    git("worktree", "remove", "--force", folder);
    rmSync(join(folder, ".."), { recursive: true, force: true });
  };
  git("worktree", "add", "--detach", folder, commit);
  try {
    npmIn(folder, "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund");
    npmIn(folder, "run", "--silent", "build");
    rmSync(join(folder, "bench"), { recursive: true, force: true });
    cpSync(join(ROOT, "bench"), join(folder, "bench"), { recursive: true, verbatimSymlinks: true });
  } catch (error) {
    remove();
    throw error;
  }
  return { commit, home: pathToFileURL(`${join(folder, "bench")}/`), remove };
}

/**
 * @param {string} folder
 * @param {readonly string[]} words
 */
function npmIn(folder, ...words) {
  execFileSync("npm", words, {
    cwd: folder,
    stdio: ["ignore", "ignore", "inherit"],
    shell: process.platform === "win32",
  });
}

/**
 * One line of a comparison: operations per second, and the processor time of one.
 *
 * @typedef {object} RevisionRow
 * @property {string} title
 * @property {import("./report.js").Summary} here
 * @property {import("./report.js").Summary} there
 * @property {import("./costs.js").Costs} costsHere
 * @property {import("./costs.js").Costs} costsThere
 */

/**
 * @param {import("./suites.js").Suite} suite
 * @param {import("./suites.js").Table} table
 * @param {{ size: import("./suites.js").Size, urls: import("./servers.js").Urls, home: URL }} conditions `home` of the other revision
 * @returns {Promise<readonly RevisionRow[]>}
 */
export async function compareRevisions({ script, phases: all }, table, { size, urls, home }) {
  const { store, ours, phases = all } = table;
  /** @type {RevisionRow[]} */
  const rows = [];
  for (const hasFingerprint of new Set(phases.map((phase) => phase.hasFingerprint ?? false))) {
    const plan = { ...size, hasFingerprint, store, urls, library: ours.file };
    const [here = [], there = []] = await takeTurns([undefined, home], size.runs, (side) =>
      runForked(script, plan, side),
    );
    for (const { name, title } of phases.filter(
      (phase) => (phase.hasFingerprint ?? false) === hasFingerprint,
    )) {
      /** @param {readonly import("./run.js").Run[]} runs */
      const figures = (runs) => ({
        speed: summarise(runs.map((run) => run.perSecond[name] ?? Number.NaN)),
        costs: /** @type {import("./costs.js").Costs} */ (medianCosts(runs.map((run) => run.costs[name]))),
      });
      const [mine, theirs] = [figures(here), figures(there)];
      rows.push({
        title,
        here: mine.speed,
        there: theirs.speed,
        costsHere: mine.costs,
        costsThere: theirs.costs,
      });
    }
  }
  return rows;
}

/**
 * Ratios above 1 are better for this revision: more operations, and less processor time.
 *
 * @param {string} commit of the other revision
 * @param {readonly RevisionRow[]} rows
 */
export function revisionsText(commit, rows) {
  return formatTable(
    ["per second", "here", commit, "ratio", "CPU here, µs", `CPU ${commit}, µs`, "ratio"],
    rows.map(({ title, here, there, costsHere, costsThere }) => {
      const [mine, theirs] = [costsHere, costsThere].map(({ client, server = 0 }) => client + server);
      return [
        title,
        formatSummary(here),
        formatSummary(there),
        formatRatio(ratioToBest(here, [there])),
        (mine ?? Number.NaN).toFixed(1),
        (theirs ?? Number.NaN).toFixed(1),
        formatRatio((theirs ?? Number.NaN) / (mine ?? Number.NaN)),
      ];
    }),
  );
}
