/**
 * Runs the scoreboard on the build and on the installed peers. The whole run writes docs/scoreboard.md; a part of it, chosen
 * with `--library` and `--scenario`, prints what happened and writes nothing. `npm run scoreboard` builds and installs first.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { loadavg } from "node:os";
import { withServers } from "../bench/servers.js";
import { parseScoreboardArguments } from "./arguments.js";
import { loadLibraries } from "./libraries.js";
import { runMatrix, serversFor } from "./matrix.js";
import { scoreboardPage } from "./page.js";
import { scenarios as allScenarios } from "./scenarios.js";

const PAGE = new URL("../docs/scoreboard.md", import.meta.url);

export async function runScoreboard(words, { commit, platform }) {
  const allLibraries = await loadLibraries();
  const { libraries, scenarios, isWhole, backlog } = parseScoreboardArguments(words, {
    libraries: allLibraries,
    scenarios: allScenarios,
  });
  const pairs = libraries.flatMap((library) => scenarios.map((scenario) => ({ library, scenario })));
  const startedAt = performance.now();
  const results = await withServers(serversFor(libraries, pairs), (urls) =>
    runMatrix(pairs, { urls, backlog, onResult: (result) => print(result, !isWhole) }),
  );
  const minutes = (performance.now() - startedAt) / 60_000;
  const failed = results.filter(({ verdict }) => verdict === "fail");
  const ours = failed.filter(({ library }) => library.name.startsWith("nevertwice-"));
  console.log(
    `${results.length} runs in ${minutes.toFixed(1)} minutes: ${failed.length} failed, ${ours.length} of them of nevertwice.`,
  );
  if (isWhole) {
    writeFileSync(
      PAGE,
      scoreboardPage({
        libraries,
        scenarios,
        results,
        versionOf,
        commit,
        platform,
        minutes,
        load: loadavg()[0],
      }),
    );
    console.log("Written to docs/scoreboard.md.");
  }
  return ours.length === 0;
}

function print({ library, scenario, verdict, evidence, seconds, errors, stack, unhandled }, isDetailed) {
  console.log(
    `${verdict.padEnd(14)} ${String(scenario.number).padStart(2)} ${library.name} (${seconds.toFixed(1)} s): ${evidence}`,
  );
  if (!isDetailed || verdict !== "fail") return;
  console.log(`  ${scenario.title}. Settings: ${library.settings}`);
  for (const text of [stack, unhandled && `unhandled: ${unhandled}`, errors?.trim()].filter(Boolean))
    console.log(text.replace(/^/gm, "  "));
}

function versionOf(name) {
  if (name === "nevertwice")
    return readVersion(new URL("../packages/nevertwice/package.json", import.meta.url));
  const [file] = createRequire(import.meta.url)
    .resolve.paths(name)
    .map((folder) => `${folder}/${name}/package.json`)
    .filter((path) => {
      try {
        readFileSync(path);
        return true;
      } catch {
        return false;
      }
    });
  return readVersion(file);
}

function readVersion(file) {
  return JSON.parse(readFileSync(file, "utf8")).version;
}
