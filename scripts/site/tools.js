/**
 * The tools of the site, which have an install of their own in `site/`: VitePress needs an older Vite than the tests, and only
 * those who build the site need either.
 */
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { ROOT, run } from "../command.js";

const FOLDER = `${ROOT}site/`;
const STAMP = `${FOLDER}node_modules/.installed`;

/** Installs what the lock file names, unless it is installed. */
export async function installTools() {
  const lock = createHash("sha256")
    .update(await readFile(`${FOLDER}package-lock.json`))
    .digest("hex");
  const installed = await readFile(STAMP, "utf8").catch(() => "");
  if (installed === lock) return;
  const { code, output } = await run("npm", ["ci", "--prefer-offline", "--no-audit", "--ignore-scripts"], {
    cwd: FOLDER,
  });
  if (code !== 0) throw new Error(`the tools of the site cannot be installed:\n${output.trim()}`);
  await writeFile(STAMP, lock);
}

/** @param {string} name of a package that the site has installed */
export async function importTool(name) {
  const resolved = createRequire(`${FOLDER}package.json`).resolve(name);
  return import(pathToFileURL(resolved).href);
}
