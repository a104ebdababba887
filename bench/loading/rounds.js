/** Measures how long imports take, each in its own process, and how large their bundles are. */
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "vite";
import { summarise } from "../report.js";
import { takeTurns } from "../turns.js";

const BENCH = fileURLToPath(new URL("..", import.meta.url));

/**
 * @typedef {object} LoadingRow
 * @property {string} name
 * @property {import("../report.js").Summary} milliseconds of the import
 * @property {number} minified bytes of a bundle with everything but what Node has
 * @property {number} compressed the same with gzip
 */

/**
 * @param {{ entries: readonly import("../suites/loading.js").Entry[] }} table
 * @param {{ size: import("../suites/loading.js").Size }} conditions
 * @returns {Promise<readonly LoadingRow[]>}
 */
export async function compareLoading({ entries }, { size }) {
  const times = await takeTurns(entries, size.runs, importTime);
  /** @type {LoadingRow[]} */
  const rows = [];
  for (const [i, { name }] of entries.entries())
    rows.push({ name, milliseconds: summarise(times[i] ?? []), ...(await bundleSize(name)) });
  return rows;
}

/** @param {import("../suites/loading.js").Entry} entry */
async function importTime({ name }) {
  const program = `const startedAt = performance.now();
    await import(${JSON.stringify(name)});
    process.stdout.write(String(performance.now() - startedAt));`;
  const args = ["--input-type=module", "--eval", program];
  return Number(execFileSync(process.execPath, args, { cwd: BENCH, encoding: "utf8" }));
}

const ENTRY = "virtual:entry";

/**
 * Of an application that uses all that the module exports.
 *
 * @param {string} name
 */
async function bundleSize(name) {
  const result = await build({
    root: BENCH,
    configFile: false,
    logLevel: "silent",
    ssr: { noExternal: true, target: "node" },
    plugins: [
      {
        name: "entry",
        resolveId: (id) => (id === ENTRY ? id : undefined),
        load: (id) => (id === ENTRY ? `export * as all from ${JSON.stringify(name)};` : undefined),
      },
    ],
    build: { ssr: true, write: false, minify: true, rollupOptions: { input: ENTRY } },
  });
  const outputs = /** @type {{ output: readonly { type: string, code?: string }[] }} */ (result).output;
  const text = outputs.map(({ code = "" }) => code).join("");
  return { minified: Buffer.byteLength(text), compressed: gzipSync(text).length };
}
