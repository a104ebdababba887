/**
 * `npm run campaign`: tests at full size, for which `npm test` has no time. `-- simulation` simulates ten million
 * schedules, and goes on where it was stopped (`--schedules N` for fewer, `--seed S` for those from a seed on, `--store etcd`
 * on a model of etcd whose clients have wrong clocks, `--doors` a million of the doors), `-- stores`, `-- reservations`, `-- events` and `-- effects` run their
 * trials, `-- etcd` takes its leader from a store every ten seconds, `-- etcd-clients` compares
 * two clients of etcd, `-- alone` measures calls alone on each store,
 * `-- operators` asks stores of ten million keys (`--keys N`) what operators ask, beside payments,
 * `-- lists` pages through ten million keys, `-- list-indexes` measures what their indexes cost a claim,
 * `-- faults` checks the answers of every store under faults for `--minutes M` in all (`--store NAME` or a URL, `--seed S`),
 * `-- endurance` calls three stores for `--minutes M` in all (60), while they fail, `-- purge-cost` measures what a purge costs
 * claims, `-- dashboard` shows a million keys in a browser, `-- server` kills and fuzzes the server, `-- gateway` fuzzes and stalls its
 * gateway, `-- fleet` has the servers of a fleet fail and restart under load (`--engine E` for one engine),
 * `-- import` imports a hundred thousand keys of each other library, `-- next` installs Next and runs its example,
 * `-- builders` installs each query builder and runs its example, `-- projects` installs the example projects of each
 * framework and runs their tests, `-- recipes` installs five web frameworks and runs their recipes. Without a name all of
 * them run.
 */
import { execFileSync } from "node:child_process";
import { parseArgs } from "node:util";
import { campaignOfNext } from "./campaign/next.js";
import { campaignOfSimulation, resumeSimulation } from "./campaign/simulation.js";
import { campaignOfTrials, TRIALS } from "./campaign/trials.js";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    schedules: { type: "string" },
    doors: { type: "boolean", default: false },
    seed: { type: "string" },
    minutes: { type: "string", default: "60" },
    store: { type: "string" },
    keys: { type: "string" },
    engine: { type: "string" },
  },
});

const minutes = Number(values.minutes);
if (!(minutes > 0)) {
  console.error(`--minutes ${values.minutes}: expected a number above 0.`);
  process.exit(1);
}

const drawn = { minutes, seed: values.seed, store: values.store };

const FLEET = "fleet-";
const ENGINES = Object.keys(TRIALS).flatMap((name) =>
  name.startsWith(FLEET) ? [name.slice(FLEET.length)] : [],
);
if (values.engine !== undefined && !ENGINES.includes(values.engine)) {
  console.error(`--engine ${values.engine}: expected one of ${ENGINES.join(", ")}.`);
  process.exit(1);
}

/** @type {Readonly<Record<string, () => Promise<boolean>>>} each resolves to whether every check passed */
const CAMPAIGNS = {
  simulation() {
    const subject = values.doors ? "doors" : values.store === "etcd" ? "etcd" : "memory";
    const schedules = Number(values.schedules ?? (values.doors ? 1_000_000 : 10_000_000));
    if (values.seed === undefined) return resumeSimulation(schedules, subject);
    return campaignOfSimulation({ schedules, seed: Number(values.seed), subject });
  },
  ...Object.fromEntries(
    Object.entries(TRIALS)
      .filter(([name]) => !name.startsWith(FLEET))
      .map(([name, trials]) => [name, () => campaignOfTrials(name, trials, drawn)]),
  ),
  async fleet() {
    let hasPassed = true;
    for (const engine of values.engine === undefined ? ENGINES : [values.engine]) {
      const trials = /** @type {import("./campaign/trials.js").Trials} */ (TRIALS[FLEET + engine]);
      hasPassed = (await campaignOfTrials(`fleet --engine ${engine}`, trials, drawn)) && hasPassed;
    }
    return hasPassed;
  },
  next: campaignOfNext,
};

const unknown = positionals.filter((name) => !Object.hasOwn(CAMPAIGNS, name));
if (unknown.length > 0) {
  console.error(
    `There is no campaign ${unknown.join(", ")}. The campaigns are ${Object.keys(CAMPAIGNS).join(", ")}.`,
  );
  process.exit(1);
}

if (values.keys !== undefined) process.env.NEVERTWICE_SCALE_KEYS = values.keys;
execFileSync("npm", ["run", "--silent", "build"], { stdio: "inherit" });
for (const name of positionals.length > 0 ? positionals : Object.keys(CAMPAIGNS))
  if (!(await CAMPAIGNS[name]?.())) process.exitCode = 1;
