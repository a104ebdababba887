/** Puts the real stores to their trials at full size, and writes the page that is kept: bench/results/stores-at-scale.md. */
import { spawn } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { ROOT } from "../command.js";
import { pageOf } from "./page.js";

const FIGURES = `${ROOT}.cache/scale.jsonl`;
const PAGE = "bench/results/stores-at-scale.md";

/** @returns {Promise<boolean>} whether every promise was kept */
export async function campaignOfStores() {
  await mkdir(`${ROOT}.cache`, { recursive: true });
  await rm(FIGURES, { force: true });
  const isKept = await runTrials();
  const lines = (await readFile(FIGURES, "utf8").catch(() => "")).trim().split("\n");
  if (!isKept) {
    console.log(`a trial failed, so ${PAGE} was not written`);
    return false;
  }
  const platform = `Node ${process.versions.node}, ${process.platform} ${process.arch}, ${availableParallelism()} logical processors`;
  await writeFile(
    ROOT + PAGE,
    pageOf(
      lines.map((line) => JSON.parse(line)),
      platform,
    ),
  );
  console.log(`\nWritten to ${PAGE}.`);
  return true;
}

/** @returns {Promise<boolean>} */
function runTrials() {
  return new Promise((resolve) => {
    const args = [`${ROOT}node_modules/vitest/vitest.mjs`, "run", "--project", "scale"];
    const env = { ...process.env, NEVERTWICE_SCALE: "full", NEVERTWICE_SCALE_FIGURES: FIGURES };
    const child = spawn(process.execPath, args, { cwd: ROOT, env, stdio: "inherit" });
    child.on("error", () => resolve(false));
    child.on("close", (code) => resolve(code === 0));
  });
}
