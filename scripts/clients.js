/**
 * `npm run test:clients`: real clients against every fault at every door, with the effects counted outside. It writes the
 * settings and the tables of docs/clients.md. `npm test` runs the cells that need no half minute.
 */
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { describeCommit } from "../bench/revisions.js";
import { withReport, withRun } from "./clients/page.js";
import { ROOT, runTool } from "./command.js";
import { PLATFORM } from "./platform.js";

const PAGE = `${ROOT}docs/clients.md`;
const REPORT = `${ROOT}.cache/clients.json`;

const commit = describeCommit();
await mkdir(`${ROOT}.cache`, { recursive: true });
await rm(REPORT, { force: true });
const test = ["run", "--project", "server", "packages/server/test/clients.test.ts"];
const env = { ...process.env, NEVERTWICE_CLIENTS_REPORT: REPORT };
const { code, output } = await runTool("vitest/vitest.mjs", test, { env, timeoutMs: 1_800_000 });
if (code === 0) {
  const report = JSON.parse(await readFile(REPORT, "utf8"));
  const run = `Commit ${commit}, ${new Date().toISOString().slice(0, 10)}. ${PLATFORM}.`;
  await writeFile(PAGE, withRun(withReport(await readFile(PAGE, "utf8"), report), run));
  console.log(`${report.cells.length} cells, written to docs/clients.md`);
} else {
  console.error(`${output}\nA cell is wrong, so docs/clients.md was not written.`);
  process.exitCode = 1;
}
