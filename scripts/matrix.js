/**
 * `npm run test:matrix [-- runtime ...]`: the smoke program on every runtime that we promise, and the tests on every
 * Node. Runtimes are installed on demand under .cache, outside the lockfile: each is a couple of hundred megabytes.
 */
import { access, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { delimiter, dirname } from "node:path";
import { ROOT, run } from "./command.js";
import { tallyLine, tallyOf } from "./tally.js";

const { platform, arch } = process;
const isMac = platform === "darwin";

/**
 * @typedef {object} Runtime
 * @property {string} name
 * @property {string} install the npm package that holds the binary itself, so that no install script is needed
 * @property {string} binary where the binary is in that package
 * @property {readonly string[]} run what comes before the program to run
 * @property {boolean} isNode
 */

/** @type {readonly Runtime[]} */
const RUNTIMES = [
  node(22),
  node(24),
  node(26),
  {
    name: "bun",
    install: `@oven/bun-${platform}-${arch === "arm64" ? "aarch64" : arch}`,
    binary: "bin/bun",
    run: [],
    isNode: false,
  },
  {
    name: "deno",
    install: `@deno/${platform}-${arch}${isMac ? "" : "-glibc"}`,
    binary: "deno",
    run: ["run", "--allow-all", "--no-lock"],
    isNode: false,
  },
];

/**
 * @param {number} major
 * @returns {Runtime}
 */
function node(major) {
  const install = `node-${platform}-${arch}@${major}`;
  return { name: `node${major}`, install, binary: "bin/node", run: [], isNode: true };
}

const asked = process.argv.slice(2);
const unknown = asked.filter((name) => !RUNTIMES.some((runtime) => runtime.name === name));
if (unknown.length > 0) throw new Error(`unknown runtime ${unknown.join(", ")}`);

const build = await run("npm", ["run", "--silent", "build"]);
if (build.code !== 0) throw new Error(build.output);

let isPassed = true;
console.log("| runtime | version | smoke | tests |\n| --- | --- | --- | --- |");
for (const runtime of RUNTIMES.filter(({ name }) => asked.length === 0 || asked.includes(name))) {
  const binary = await installed(runtime);
  const { stdout } = await run(binary, ["--version"]);
  const smoke = await smokeOn(runtime, binary);
  const tests = runtime.isNode ? await testsOn(runtime, binary) : { cell: "not run", report: "" };
  const version = /\d+\.\d+\.\d+/.exec(stdout)?.[0] ?? "unknown";
  console.log(`| ${runtime.name} | ${version} | ${smoke.cell} | ${tests.cell} |`);
  for (const report of [smoke.report, tests.report]) {
    if (report === "") continue;
    isPassed = false;
    console.error(report);
  }
}
process.exitCode = isPassed ? 0 : 1;

/** @param {Runtime} runtime */
async function installed({ name, install, binary }) {
  const folder = `${ROOT}.cache/runtimes/${name}`;
  const path = `${folder}/node_modules/${install.replace(/(?<=.)@.*$/, "")}/${binary}`;
  if (await isThere(path)) return path;
  await mkdir(folder, { recursive: true });
  // Without its own manifest npm would install into the workspace above.
  await writeFile(`${folder}/package.json`, JSON.stringify({ private: true }));
  const { code, output } = await run("npm", ["install", "--ignore-scripts", "--no-package-lock", install], {
    cwd: folder,
  });
  if (code !== 0 || !(await isThere(path))) throw new Error(`${name} cannot be installed:\n${output}`);
  return path;
}

/** @param {string} path */
function isThere(path) {
  return access(path).then(
    () => true,
    () => false,
  );
}

/**
 * @param {Runtime} runtime
 * @param {string} binary
 */
async function smokeOn(runtime, binary) {
  const env = { ...process.env, DENO_DIR: `${ROOT}.cache/runtimes/deno/home`, DENO_NO_UPDATE_CHECK: "1" };
  const { code, stdout, output } = await run(binary, [...runtime.run, "scripts/smoke.js"], {
    env,
    timeoutMs: 120_000,
  });
  return code === 0 ? { cell: stdout.trim(), report: "" } : { cell: "FAILED", report: output };
}

/**
 * @param {Runtime} runtime
 * @param {string} binary
 */
async function testsOn({ name }, binary) {
  const report = `${ROOT}.cache/vitest-${name}.json`;
  await rm(report, { force: true });
  // First in the path, so that programs that tests start also run on this Node.
  const env = { ...process.env, PATH: `${dirname(binary)}${delimiter}${process.env.PATH}` };
  const args = ["node_modules/vitest/vitest.mjs", "run", "--reporter=dot", "--reporter=json"];
  const { code, output } = await run(binary, [...args, `--outputFile.json=${report}`], {
    env,
    timeoutMs: 1_800_000,
  });
  const tally = tallyOf(JSON.parse(await readFile(report, "utf8").catch(() => "{}")), code === 0);
  return { cell: tallyLine(tally), report: tally.failed === 0 ? "" : output };
}
