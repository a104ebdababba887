/** `node bench/charts.js`: writes docs/benchmarks.md and its charts from the pages of bench/results. It measures nothing. */
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { benchmarkFiles, SOURCES } from "./charts/benchmarks-page.js";

const ROOT = new URL("../", import.meta.url);

/** What the script makes of the present results, by path. */
export function presentFiles() {
  return benchmarkFiles(
    Object.fromEntries(
      SOURCES.map((name) => [name, readFileSync(new URL(`bench/results/${name}.md`, ROOT), "utf8")]),
    ),
  );
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href)
  for (const [path, text] of Object.entries(presentFiles())) {
    writeFileSync(new URL(path, ROOT), text);
    console.log(path);
  }
