/** The checks that need no test runner. They run two at a time, since most of them use one core. */
import { mkdir, rm } from "node:fs/promises";
import { performance } from "node:perf_hooks";
import { ROOT, run, runTool } from "./command.js";
import { publicCommentProblems } from "./docs/doc-comments.js";
import { docsProblems } from "./docs.js";
import { tidyProblems } from "./tidy.js";

/** @typedef {{ name: string, problems: () => Promise<readonly string[]> }} Step a step without problems has passed */

const AT_ONCE = 2;

/** The checks of `npm run test:quick`. */
const QUICK = ["types", "biome", "tidy"];

const build = script("build");
const compile = script("compile");

/** @type {readonly Step[]} the longest first */
const checks = [
  { name: "docs", problems: docsProblems },
  { name: "comments", problems: publicCommentProblems },
  { name: "types", problems: tool("typescript7/bin/tsc", ["-p", "tsconfig.check.json"]) },
  { name: "biome", problems: tool("@biomejs/biome/bin/biome", ["check", "--error-on-warnings"]) },
  { name: "knip", problems: tool("knip/bin/knip.js", ["--treat-config-hints-as-errors"]) },
  { name: "tidy", problems: tidyProblems },
  { name: "pages", problems: tool("typescript/bin/tsc", ["-p", "packages/server/dashboard"]) },
];

/**
 * Packing rewrites the build, which other checks read, so this comes after them.
 *
 * @type {Step}
 */
const packaging = { name: "package", problems: packageProblems };

/**
 * Builds and runs every check, printing one line for each, and what it found if it failed. The other checks read the
 * build, so none runs if it fails.
 *
 * @returns {Promise<{ passed: number, failed: number }>}
 */
export async function runSteps() {
  const isBuilt = await runStep(build);
  if (!isBuilt) return { passed: 0, failed: 1 };
  const { passed, failed } = await runAll(checks);
  const isPacked = await runStep(packaging);
  return { passed: passed + (isPacked ? 2 : 1), failed: failed + (isPacked ? 0 : 1) };
}

/** Compiles what has changed, which types are checked against, and runs the quick checks. */
export async function runQuickSteps() {
  const isBuilt = await runStep(compile);
  if (!isBuilt) return { passed: 0, failed: 1 };
  const { passed, failed } = await runAll(checks.filter(({ name }) => QUICK.includes(name)));
  return { passed: passed + 1, failed };
}

/**
 * @param {readonly Step[]} steps
 * @returns {Promise<{ passed: number, failed: number }>}
 */
async function runAll(steps) {
  const waiting = [...steps];
  let failed = 0;
  const lane = async () => {
    for (let step = waiting.shift(); step !== undefined; step = waiting.shift())
      if (!(await runStep(step))) failed++;
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  return { passed: steps.length - failed, failed };
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
 * @param {string} name of a script of package.json
 * @returns {Step}
 */
function script(name) {
  return {
    name,
    async problems() {
      const { code, output } = await run("npm", ["run", "--silent", name]);
      return code === 0 ? [] : [output.trim()];
    },
  };
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

/** Checks the tarball itself, since that is what users install: its manifest, and the types of every subpath. */
async function packageProblems() {
  const folder = `${ROOT}.cache/packed`;
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const packed = await run("npm", ["pack", "--silent", "--pack-destination", folder], {
    cwd: `${ROOT}packages/nevertwice`,
  });
  if (packed.code !== 0) return [packed.output.trim()];
  const tarball = `${folder}/${packed.stdout.trim().split("\n").at(-1)}`;
  const found = await Promise.all([
    tool("publint/src/cli.js", [tarball, "--strict"])(),
    tool("@arethetypeswrong/cli/dist/index.js", [tarball, "--no-color"])(),
  ]);
  return found.flat();
}
