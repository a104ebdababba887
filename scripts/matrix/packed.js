/** The packed package in an empty folder, as its users get it: a Node requires and imports every subpath. */
import { mkdir, rm, writeFile } from "node:fs/promises";
import { ROOT, run } from "../command.js";

const FOLDER = `${ROOT}.cache/runtimes/packed`;
const PROGRAM = "load.cjs";

/** These use a package that their users have installed. */
const NEED_A_PEER = ["./http/nest", "./opentelemetry", "./package.json"];

/**
 * The subpaths that each Node loads.
 * @param {{ exports: Readonly<Record<string, unknown>> }} manifest
 */
export function loadedSubpaths({ exports }) {
  return Object.keys(exports).filter((subpath) => !NEED_A_PEER.includes(subpath));
}

const LOAD = `const { exports: subpaths } = require("nevertwice/package.json");
const needAPeer = ${JSON.stringify(NEED_A_PEER)};

async function load() {
  let count = 0;
  for (const subpath of Object.keys(subpaths).filter((each) => !needAPeer.includes(each))) {
    const path = subpath.replace(".", "nevertwice");
    const required = require(path);
    const imported = await import(path);
    const names = Object.keys(required);
    if (names.length === 0 || names.some((name) => required[name] !== imported[name]))
      throw new Error(path + " is not the same if it is imported");
    count++;
  }
  console.log(count + " subpaths required");
}

load();
`;

/** @type {Promise<void> | undefined} */
let installed;

/**
 * @param {string} node the path of its program
 * @returns {Promise<import("./runtimes.js").Found>}
 */
export async function loadPacked(node) {
  installed ??= installPacked();
  await installed;
  const { code, stdout, output } = await run(node, [PROGRAM], { cwd: FOLDER });
  return code === 0 ? { cell: stdout.trim() } : { cell: "FAILED", report: output };
}

/** Packs the build as it is. */
async function installPacked() {
  await rm(FOLDER, { recursive: true, force: true });
  await mkdir(FOLDER, { recursive: true });
  await writeFile(`${FOLDER}/package.json`, JSON.stringify({ private: true }));
  await writeFile(`${FOLDER}/${PROGRAM}`, LOAD);
  const pack = ["pack", "--silent", "--ignore-scripts", "--pack-destination", FOLDER];
  const packed = await npm(pack, `${ROOT}packages/nevertwice`);
  const tarball = packed.trim().split("\n").at(-1);
  await npm(["install", "--prefer-offline", "--no-audit", "--no-fund", "--no-package-lock", `./${tarball}`]);
}

/** @param {readonly string[]} args */
async function npm(args, cwd = FOLDER) {
  const { code, stdout, output } = await run("npm", args, { cwd });
  if (code !== 0) throw new Error(output);
  return stdout;
}
