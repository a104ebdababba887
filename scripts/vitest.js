/**
 * Runs Vitest in this terminal and counts what it reports. If up to three files fail, they run once more, after everything
 * else: thirty thousand tests with real servers on a busy machine sometimes meet a moment that a test did not foresee. What
 * fails again has failed. What passes then is printed as unstable, since the next one to see it should find the reason.
 */
import { spawn } from "node:child_process";
import { mkdir, readFile, rm } from "node:fs/promises";
import { ROOT } from "./command.js";
import { filesToRepeat, tallyAfterRepeat, tallyOf, unstableTests } from "./tally.js";

const REPORT = `${ROOT}.cache/vitest.json`;

/**
 * @param {readonly string[]} [args] further arguments
 * @param {NodeJS.ProcessEnv} [env] further variables
 * @returns {Promise<import("./tally.js").Tally>}
 */
export async function runVitest(args = [], env = {}) {
  const first = await runOnce(args, env);
  const files = filesToRepeat(first.report);
  if (files.length === 0) return first.tally;
  console.log(`\nfailed, so they run once more:\n${listOf(files)}\n`);
  const repeated = await runOnce([...args, ...files], env);
  const unstable = unstableTests(first.report, repeated.report);
  if (unstable.length > 0) console.log(`\nunstable, failed only the first time:\n${listOf(unstable)}\n`);
  return tallyAfterRepeat(first.tally, repeated.tally);
}

/** @param {readonly string[]} lines */
const listOf = (lines) => lines.map((line) => `  ${line.replaceAll(ROOT, "")}`).join("\n");

/**
 * @param {readonly string[]} args
 * @param {NodeJS.ProcessEnv} env
 */
async function runOnce(args, env) {
  await mkdir(`${ROOT}.cache`, { recursive: true });
  await rm(REPORT, { force: true });
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${REPORT}`];
  const code = await new Promise((resolve) => {
    const child = spawn(
      process.execPath,
      [`${ROOT}node_modules/vitest/vitest.mjs`, "run", ...reporters, ...args],
      { cwd: ROOT, env: { ...process.env, TESTS_ARE_BUILT: "true", ...env }, stdio: "inherit" },
    );
    child.on("error", () => resolve(1));
    child.on("close", (exitCode) => resolve(exitCode ?? 1));
  });
  /** @type {import("./tally.js").Report} */
  const report = JSON.parse(await readFile(REPORT, "utf8").catch(() => "{}"));
  return { report, tally: tallyOf(report, code === 0) };
}
