/**
 * Tests the store on `node:sqlite` and on better-sqlite3, which Node 20 does not have. Needs the build and a newer Node, which is
 * installed on demand in the cache of `npm run test:matrix`.
 */
import { access, mkdir, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { ROOT, run } from "../../../../scripts/command.js";
import { CLOCK_CANNOT_GO_BACK } from "./cases.ts";

const { platform, arch } = process;
const BUILD = new URL("../../dist/", import.meta.url).href;
const PROGRAM = fileURLToPath(new URL("sqlite/on-newer-node.js", import.meta.url));

/** Installs a package in its own folder under .cache, unless it is there. Returns the path of `inside` in it. */
async function installed(folder: string, install: string, inside: string): Promise<string> {
  const home = `${ROOT}.cache/${folder}`;
  const path = `${home}/node_modules/${install.replace(/(?<=.)@.*$/, "")}/${inside}`;
  const isThere = () =>
    access(path)
      .then(() => true)
      .catch(() => false);
  if (await isThere()) return path;
  await mkdir(home, { recursive: true });
  // Without its own manifest, npm would install into the workspace above.
  await writeFile(`${home}/package.json`, JSON.stringify({ private: true }));
  const args = ["install", "--ignore-scripts", "--no-package-lock", "--force", install];
  const { code, output } = await run("npm", args, { cwd: home, timeoutMs: 100_000 });
  if (code !== 0 || !(await isThere())) throw new Error(`${install} cannot be installed:\n${output}`);
  return path;
}

test("passes every store case, and reservations, on node:sqlite and on better-sqlite3", {
  timeout: 240_000,
}, async ({ skip }) => {
  const found = await Promise.all([
    installed("runtimes/node22", `node-${platform}-${arch}@22`, "bin/node"),
    installed("better-sqlite3", "better-sqlite3@13.0.3", "package.json"),
  ]).catch((error) => String(error));
  if (typeof found === "string") return skip(found);
  const [node, manifest] = found;
  const { code, stdout, output } = await run(
    node,
    [PROGRAM, BUILD, manifest.replace(/\/package\.json$/, "")],
    { timeoutMs: 120_000 },
  );
  expect(code, output).toBe(0);
  const said = JSON.parse(stdout);
  expect(said.failed).toEqual([]);
  expect(said.skipped).toEqual(Object.keys(CLOCK_CANNOT_GO_BACK).sort());
  expect(said.passed).toBeGreaterThan(1_000);
  expect(said.title).toMatch(/^SQLite 3\.\d+\.\d+, WAL, synchronous FULL$/);
});
