/**
 * `npm run campaign`: tests at full size, for which `npm test` has no time. `-- simulation` simulates ten million
 * schedules (`--schedules N --seed S` for others), `-- stores`, `-- reservations`, `-- events` and `-- effects` run their trials,
 * `-- server` kills and fuzzes the server, `-- gateway` fuzzes and stalls its gateway, `-- next` installs Next and runs
 * its example, `-- builders` installs each query builder and runs its example. Without a name all of them run.
 */
import { execFileSync } from "node:child_process";
import { parseArgs } from "node:util";
import { campaignOfNext } from "./campaign/next.js";
import { campaignOfSimulation } from "./campaign/simulation.js";
import { campaignOfTrials, TRIALS } from "./campaign/trials.js";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { schedules: { type: "string", default: "10000000" }, seed: { type: "string", default: "1" } },
});

/** @type {Readonly<Record<string, () => Promise<boolean>>>} each resolves to whether every check passed */
const CAMPAIGNS = {
  simulation: () => campaignOfSimulation({ schedules: Number(values.schedules), seed: Number(values.seed) }),
  ...Object.fromEntries(
    Object.entries(TRIALS).map(([name, trials]) => [name, () => campaignOfTrials(name, trials)]),
  ),
  next: campaignOfNext,
};

const unknown = positionals.filter((name) => !Object.hasOwn(CAMPAIGNS, name));
if (unknown.length > 0) {
  console.error(
    `There is no campaign ${unknown.join(", ")}. The campaigns are ${Object.keys(CAMPAIGNS).join(", ")}.`,
  );
  process.exit(1);
}

execFileSync("npm", ["run", "--silent", "build"], { stdio: "inherit" });
for (const name of positionals.length > 0 ? positionals : Object.keys(CAMPAIGNS))
  if (!(await CAMPAIGNS[name]?.())) process.exitCode = 1;
