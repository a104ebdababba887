/** Runs trials at full size, and writes their figures to a page if all checks passed. */
import { spawn } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { ROOT } from "../command.js";
import { pageOf } from "./page.js";

const FIGURES = `${ROOT}.cache/scale.jsonl`;

/**
 * @typedef {object} Trials
 * @property {"scale" | "server"} [project] where they are; default "scale", packages/nevertwice/test/scale/
 * @property {readonly string[]} tests which of them, in the words of vitest's command line
 * @property {string} page where its figures are written, from the root of the workspace
 * @property {import("./page.js").Head} head
 */

/**
 * @param {Trials} trials
 * @returns {Promise<boolean>} whether every check passed
 */
export async function campaignOfTrials({ project = "scale", tests, page, head }) {
  await mkdir(`${ROOT}.cache`, { recursive: true });
  await rm(FIGURES, { force: true });
  const isKept = await runTrials(project, tests);
  const lines = (await readFile(FIGURES, "utf8").catch(() => "")).trim().split("\n");
  if (!isKept) {
    console.log(`a trial failed, so ${page} was not written`);
    return false;
  }
  const platform = `Node ${process.versions.node}, ${process.platform} ${process.arch}, ${availableParallelism()} logical processors`;
  await writeFile(
    ROOT + page,
    pageOf(
      head,
      lines.map((line) => JSON.parse(line)),
      platform,
    ),
  );
  console.log(`\nWritten to ${page}.`);
  return true;
}

/**
 * @param {string} project
 * @param {readonly string[]} tests
 * @returns {Promise<boolean>}
 */
function runTrials(project, tests) {
  return new Promise((resolve) => {
    const args = [`${ROOT}node_modules/vitest/vitest.mjs`, "run", "--project", project, ...tests];
    const env = { ...process.env, NEVERTWICE_SCALE: "full", NEVERTWICE_SCALE_FIGURES: FIGURES };
    const child = spawn(process.execPath, args, { cwd: ROOT, env, stdio: "inherit" });
    child.on("error", () => resolve(false));
    child.on("close", (code) => resolve(code === 0));
  });
}
