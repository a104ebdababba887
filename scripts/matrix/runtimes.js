/**
 * The runtimes of `npm run test:matrix`. Node, Bun and Deno are installed on demand under .cache, outside the lockfile: each
 * is a couple of hundred megabytes. The runtimes of the edge are dependencies of the tests.
 */
import { access, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { delimiter, dirname } from "node:path";
import { ROOT, run } from "../command.js";
import { tallyLine, tallyOf } from "../tally.js";
import { smokeInJest } from "./jest.js";
import { loadPacked } from "./packed.js";

/** @typedef {{ cell: string, report?: string }} Found what the table says, and a report if something failed */

/**
 * @typedef {object} Runtime
 * @property {string} name
 * @property {() => Promise<{ version: string, smoke: () => Promise<Found>, tests?: (isQuick: boolean) => Promise<Found> }>} open
 */

/**
 * A program that is installed: the npm package that holds the binary itself, so that no install script is needed, where the
 * binary is in it, and what comes before the program to run. A Node also loads the packed package, and runs the tests.
 *
 * @typedef {{ name: string, install: string, binary: string, args?: readonly string[], isNode?: boolean }} Installed
 */

const { platform, arch } = process;
const SMOKE_MS = 120_000;
const RUNTIMES_FOLDER = `${ROOT}.cache/runtimes/`;

/** @type {readonly Runtime[]} */
export const RUNTIMES = [
  ...[20, 22, 24, 26].map((major) =>
    installed({
      name: `node${major}`,
      install: `node-${platform}-${arch}@${major}`,
      binary: "bin/node",
      isNode: true,
    }),
  ),
  installed({
    name: "bun",
    install: `@oven/bun-${platform}-${arch === "arm64" ? "aarch64" : arch}`,
    binary: "bin/bun",
  }),
  installed({
    name: "deno",
    install: `@deno/${platform}-${arch}${platform === "darwin" ? "" : "-glibc"}`,
    binary: "deno",
    args: ["run", "--allow-all", "--no-lock"],
  }),
  hosted("workerd", "workerd"),
  hosted("workerd-nodejs-compat", "workerd"),
  hosted("edge-light", "@edge-runtime/vm"),
  jest(),
];

/**
 * @param {Installed} installable
 * @returns {Runtime}
 */
function installed(installable) {
  const { name, args = [], isNode = false } = installable;
  return {
    name,
    async open() {
      const binary = await install(installable);
      const { stdout } = await run(binary, ["--version"]);
      return {
        version: /\d+\.\d+\.\d+/.exec(stdout)?.[0] ?? "unknown",
        smoke: () => (isNode ? smokeOnNode(binary) : runSmoke(binary, [...args, "scripts/smoke.js"])),
        ...(isNode ? { tests: (/** @type {boolean} */ isQuick) => runTests(name, binary, isQuick) } : {}),
      };
    },
  };
}

/**
 * A runtime that this Node starts.
 *
 * @param {string} name
 * @param {string} dependency the package that holds it
 * @returns {Runtime}
 */
function hosted(name, dependency) {
  return {
    name,
    async open() {
      const manifest = await readFile(`${ROOT}node_modules/${dependency}/package.json`, "utf8");
      return {
        version: JSON.parse(manifest).version,
        smoke: () => runSmoke(process.execPath, ["scripts/smoke/edge-hosts.js", name]),
      };
    },
  };
}

/** @returns {Runtime} */
function jest() {
  const name = "jest-cjs";
  return {
    name,
    async open() {
      const program = await install({ name, install: "jest@30", binary: "bin/jest.js" });
      const manifest = await readFile(`${dirname(dirname(program))}/package.json`, "utf8");
      return {
        version: JSON.parse(manifest).version,
        smoke: () => smokeInJest(program, `${RUNTIMES_FOLDER}${name}`),
      };
    },
  };
}

/** @param {Installed} installable */
async function install({ name, install: wanted, binary }) {
  const folder = `${RUNTIMES_FOLDER}${name}`;
  const path = `${folder}/node_modules/${wanted.replace(/(?<=.)@.*$/, "")}/${binary}`;
  if (await isThere(path)) return path;
  await mkdir(folder, { recursive: true });
  // Without its own manifest npm would install into the workspace above.
  await writeFile(`${folder}/package.json`, JSON.stringify({ private: true }));
  const { code, output } = await run("npm", ["install", "--ignore-scripts", "--no-package-lock", wanted], {
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
 * @param {string} binary
 * @param {readonly string[]} args
 * @returns {Promise<Found>}
 */
async function runSmoke(binary, args) {
  const env = { ...process.env, DENO_DIR: `${ROOT}.cache/runtimes/deno/home`, DENO_NO_UPDATE_CHECK: "1" };
  const { code, stdout, output } = await run(binary, args, { env, timeoutMs: SMOKE_MS });
  return code === 0 ? { cell: stdout.trim() } : { cell: "FAILED", report: output };
}

/**
 * @param {string} binary
 * @returns {Promise<Found>}
 */
async function smokeOnNode(binary) {
  const program = await runSmoke(binary, ["scripts/smoke.js"]);
  if (program.report !== undefined) return program;
  const { cell, report } = await loadPacked(binary);
  return report === undefined ? { cell: `${program.cell}, ${cell}` } : { cell, report };
}

/**
 * @param {string} name
 * @param {string} binary
 * @param {boolean} isQuick whether only those tests run that need no server, as in `npm run test:quick`
 * @returns {Promise<Found>}
 */
async function runTests(name, binary, isQuick) {
  const report = `${ROOT}.cache/vitest-${name}.json`;
  await rm(report, { force: true });
  // First in the path, so that programs that tests start also run on this Node.
  const env = {
    ...process.env,
    PATH: `${dirname(binary)}${delimiter}${process.env.PATH}`,
    ...(isQuick && { QUICK_TESTS: "true" }),
  };
  const args = ["node_modules/vitest/vitest.mjs", "run", "--reporter=dot", "--reporter=json"];
  if (isQuick) args.push("--project", "tests");
  const { code, output } = await run(binary, [...args, `--outputFile.json=${report}`], {
    env,
    timeoutMs: 1_800_000,
  });
  const tally = tallyOf(JSON.parse(await readFile(report, "utf8").catch(() => "{}")), code === 0);
  const which = isQuick ? "without servers: " : "";
  return { cell: `${which}${tallyLine(tally)}`, ...(tally.failed === 0 ? {} : { report: output }) };
}
