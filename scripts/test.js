/** `npm test`: build, checks, tests. Its last line says how many passed and failed; in CI a skipped test fails too. */

import { spawn } from "node:child_process";
import { mkdir, readFile, rm } from "node:fs/promises";
import { ROOT } from "./command.js";
import { runSteps } from "./steps.js";
import { isFailure, tallyLine, tallyOf } from "./tally.js";

const REPORT = `${ROOT}.cache/vitest.json`;

const steps = await runSteps();
const tests = await runVitest();
const tally = { ...tests, passed: steps.passed + tests.passed, failed: steps.failed + tests.failed };

process.exitCode = isFailure(tally, process.env.CI === "true") ? 1 : 0;
console.log(tallyLine(tally));

async function runVitest() {
  await mkdir(`${ROOT}.cache`, { recursive: true });
  await rm(REPORT, { force: true });
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${REPORT}`];
  const code = await new Promise((resolve) => {
    const args = [`${ROOT}node_modules/vitest/vitest.mjs`, "run", ...reporters];
    const child = spawn(process.execPath, args, { cwd: ROOT, stdio: "inherit" });
    child.on("error", () => resolve(1));
    child.on("close", (exitCode) => resolve(exitCode ?? 1));
  });
  const report = await readFile(REPORT, "utf8").catch(() => "{}");
  return tallyOf(JSON.parse(report), code === 0);
}
