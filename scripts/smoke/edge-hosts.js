/**
 * Runs the smoke program in the runtimes of the edge. `node scripts/smoke/edge-hosts.js workerd` prints one line; a failed check
 * ends it with an error.
 */
import { fileURLToPath, pathToFileURL } from "node:url";
import { EdgeVM } from "@edge-runtime/vm";
import { Miniflare } from "miniflare";
import { bundleForEdge } from "./edge-bundle.js";

/** It decides which changes of workerd are in force. */
export const COMPATIBILITY_DATE = "2026-01-01";

/**
 * Each returns how many promises were kept, or throws with the name of one that was not.
 *
 * @type {Readonly<Record<string, () => Promise<number>>>}
 */
export const EDGE_HOSTS = {
  workerd: () => smokeInWorkerd([]),
  "workerd-nodejs-compat": () => smokeInWorkerd(["nodejs_compat"]),
  "edge-light": smokeOnEdgeLight,
};

/** @param {readonly string[]} flags */
async function smokeInWorkerd(flags) {
  const { code } = await bundleForEdge(program("worker.js"), "workerd");
  const miniflare = new Miniflare({
    modules: true,
    script: code,
    compatibilityDate: COMPATIBILITY_DATE,
    compatibilityFlags: [...flags],
  });
  try {
    const response = await miniflare.dispatchFetch("http://worker");
    const { kept, error } = /** @type {{ kept: number, error?: string }} */ (await response.json());
    if (error !== undefined) throw new Error(error);
    return kept;
  } finally {
    await miniflare.dispose();
  }
}

/** @returns {Promise<number>} */
async function smokeOnEdgeLight() {
  const { code } = await bundleForEdge(program("edge-function.js"), "edge-light", "iife");
  const vm = new EdgeVM();
  vm.evaluate(code);
  return vm.evaluate("keepPromises()");
}

/** @param {string} name */
function program(name) {
  return fileURLToPath(new URL(name, import.meta.url));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const smoke = EDGE_HOSTS[process.argv[2] ?? ""];
  if (smoke === undefined) throw new Error(`give one of ${Object.keys(EDGE_HOSTS).join(", ")}`);
  console.log(`${await smoke()} promises`);
}
