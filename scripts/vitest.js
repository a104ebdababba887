/** Runs Vitest in this terminal and counts what it reports. */
import { spawn } from "node:child_process";
import { mkdir, readFile, rm } from "node:fs/promises";
import { ROOT } from "./command.js";
import { tallyOf } from "./tally.js";

const REPORT = `${ROOT}.cache/vitest.json`;

/**
 * @param {readonly string[]} [args] further arguments
 * @param {NodeJS.ProcessEnv} [env] further variables
 * @returns {Promise<import("./tally.js").Tally>}
 */
export async function runVitest(args = [], env = {}) {
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
  const report = await readFile(REPORT, "utf8").catch(() => "{}");
  return tallyOf(JSON.parse(report), code === 0);
}
