/** The checks that need no test runner, in the order in which a failure is cheapest to understand. */
import { mkdir, rm } from "node:fs/promises";
import { performance } from "node:perf_hooks";
import { ROOT, run, runTool } from "./command.js";
import { docsProblems } from "./docs.js";
import { tidyProblems } from "./tidy.js";

/** @typedef {{ name: string, problems: () => Promise<readonly string[]> }} Step no problems: the step passed */

/** @type {Step} */
const build = {
  name: "build",
  async problems() {
    const { code, output } = await run("npm", ["run", "--silent", "build"]);
    return code === 0 ? [] : [output.trim()];
  },
};

/** @type {readonly Step[]} */
const checks = [
  { name: "types", problems: tool("typescript7/bin/tsc", ["-p", "tsconfig.check.json"]) },
  { name: "pages", problems: tool("typescript/bin/tsc", ["-p", "packages/server/dashboard"]) },
  { name: "biome", problems: tool("@biomejs/biome/bin/biome", ["check", "--error-on-warnings"]) },
  { name: "tidy", problems: tidyProblems },
  { name: "docs", problems: docsProblems },
  { name: "knip", problems: tool("knip/bin/knip.js", ["--treat-config-hints-as-errors"]) },
  { name: "publint", problems: tool("publint/src/cli.js", ["packages/nevertwice", "--strict"]) },
  { name: "attw", problems: areTheTypesWrong },
];

/**
 * Runs every check, printing one line for each, and what it found if it failed. Without a build nothing else can be
 * judged, so a build that fails ends it.
 *
 * @returns {Promise<{ passed: number, failed: number }>}
 */
export async function runSteps() {
  const isBuilt = await runStep(build);
  if (!isBuilt) return { passed: 0, failed: 1 };
  let failed = 0;
  for (const step of checks) if (!(await runStep(step))) failed++;
  return { passed: 1 + checks.length - failed, failed };
}

/** @param {Step} step */
async function runStep({ name, problems }) {
  const startedAt = performance.now();
  const found = await problems().catch((error) => [
    error instanceof Error ? String(error.stack) : String(error),
  ]);
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
  console.log(`${found.length === 0 ? "ok    " : "FAILED"}  ${name.padEnd(8)} ${seconds.padStart(5)} s`);
  for (const problem of found) console.log(problem.replace(/^/gm, "        "));
  return found.length === 0;
}

/**
 * @param {string} path
 * @param {readonly string[]} args
 */
function tool(path, args) {
  return async () => {
    const { code, output } = await runTool(path, args);
    return code === 0 ? [] : [output.trim()];
  };
}

/** Judges the tarball itself: what is not in it cannot be resolved by anybody. */
async function areTheTypesWrong() {
  const folder = `${ROOT}.cache/attw`;
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const packed = await run("npm", ["pack", "--silent", "--pack-destination", folder], {
    cwd: `${ROOT}packages/nevertwice`,
  });
  if (packed.code !== 0) return [packed.output.trim()];
  const tarball = `${folder}/${packed.stdout.trim().split("\n").at(-1)}`;
  const { code, output } = await runTool("@arethetypeswrong/cli/dist/index.js", [
    tarball,
    "--profile",
    "esm-only",
    "--no-color",
  ]);
  return code === 0 ? [] : [output.trim()];
}
