/**
 * `npm run test:matrix [-- --smoke | --quick] [runtime ...]`: the smoke program on every runtime that we promise, and the tests on
 * every Node. `--quick` runs only those that need no server, and `--smoke` none. It writes its table to docs/runtimes.md.
 */
import { readFile, writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { ROOT, run } from "./command.js";
import { RUNTIMES } from "./matrix/runtimes.js";
import { readTable, withTable } from "./matrix/table.js";

const PAGE = `${ROOT}docs/runtimes.md`;

const { values, positionals: asked } = parseArgs({
  allowPositionals: true,
  options: { smoke: { type: "boolean", default: false }, quick: { type: "boolean", default: false } },
});
const unknown = asked.filter((name) => !RUNTIMES.some((runtime) => runtime.name === name));
if (unknown.length > 0) throw new Error(`unknown runtime ${unknown.join(", ")}`);

const build = await run("npm", ["run", "--silent", "build"]);
if (build.code !== 0) throw new Error(build.output);

for (const runtime of RUNTIMES) {
  if (asked.length > 0 && !asked.includes(runtime.name)) continue;
  const before = readTable(await readFile(PAGE, "utf8"));
  const row = await rowOf(
    runtime,
    before.find(({ name }) => name === runtime.name),
  );
  console.log(Object.values(row).join(" | "));
  // After each, since the tests of one Node take minutes: what was found stays if the rest is interrupted.
  const rows = RUNTIMES.flatMap(({ name }) =>
    name === row.name ? row : before.filter((each) => each.name === name),
  );
  await writeFile(PAGE, withTable(await readFile(PAGE, "utf8"), rows));
}

/**
 * What was found on this runtime. The tests that an earlier run made on the same version count if they are not run now.
 *
 * @param {import("./matrix/runtimes.js").Runtime} runtime
 * @param {import("./matrix/table.js").MatrixRow | undefined} known
 * @returns {Promise<import("./matrix/table.js").MatrixRow>}
 */
async function rowOf({ name, open }, known) {
  const { version, smoke, tests } = await open();
  const row = { name, version, smoke: await cellOf(smoke) };
  if (tests === undefined) return { ...row, tests: "-" };
  const isKnown = known?.version === version;
  if (values.smoke) return { ...row, tests: isKnown ? known.tests : "not run" };
  return { ...row, tests: await cellOf(() => tests(values.quick)) };
}

/**
 * @param {() => Promise<import("./matrix/runtimes.js").Found>} find
 */
async function cellOf(find) {
  const { cell, report } = await find();
  if (report !== undefined) {
    console.error(report);
    process.exitCode = 1;
  }
  return cell;
}
