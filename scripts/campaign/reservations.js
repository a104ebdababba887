/**
 * Runs the tests of reservations at full size: a hundred thousand actions from eight processes that are killed, ten
 * thousand races on each store, every cell damaged in every way, and more histories and states. Prints its figures.
 */
import { spawn } from "node:child_process";
import { ROOT } from "../command.js";

const TESTS = [
  "packages/nevertwice/test/reservations/properties.test.ts",
  "packages/nevertwice/test/reservations/races.test.ts",
  "packages/nevertwice/test/reservations/exhaustive.test.ts",
  "packages/nevertwice/test/stores/reservations-corrupt-rows.test.ts",
  "packages/nevertwice/test/stores/reservations-properties.test.ts",
  "packages/nevertwice/test/scale/reservations.test.ts",
];

/** @returns {Promise<boolean>} whether every check passed */
export function campaignOfReservations() {
  return new Promise((resolve) => {
    const projects = ["tests", "stores", "scale"].flatMap((project) => ["--project", project]);
    const args = [`${ROOT}node_modules/vitest/vitest.mjs`, "run", ...projects, ...TESTS];
    const env = { ...process.env, NEVERTWICE_SCALE: "full" };
    const child = spawn(process.execPath, args, { cwd: ROOT, env, stdio: "inherit" });
    child.on("error", () => resolve(false));
    child.on("close", (code) => resolve(code === 0));
  });
}
