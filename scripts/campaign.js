/**
 * `npm run campaign`: what a test run has no time for. `-- simulation` simulates ten million schedules
 * (`--schedules N --seed S` for others), `-- stores` puts the real stores to their trials at full size, `-- reservations`
 * the reservations, `-- events` sends a storm of deliveries, `-- server` kills and fuzzes the server, `-- gateway` fuzzes and stalls its gateway, `-- next` installs Next and runs its example; without a name it does all.
 */
import { execFileSync } from "node:child_process";
import { parseArgs } from "node:util";
import { campaignOfEvents } from "./campaign/events.js";
import { campaignOfGateway } from "./campaign/gateway.js";
import { campaignOfNext } from "./campaign/next.js";
import { campaignOfReservations } from "./campaign/reservations.js";
import { campaignOfServer } from "./campaign/server.js";
import { campaignOfSimulation } from "./campaign/simulation.js";
import { campaignOfStores } from "./campaign/stores.js";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { schedules: { type: "string", default: "10000000" }, seed: { type: "string", default: "1" } },
});

/** @type {Readonly<Record<string, () => Promise<boolean>>>} each answers whether every promise was kept */
const CAMPAIGNS = {
  simulation: () => campaignOfSimulation({ schedules: Number(values.schedules), seed: Number(values.seed) }),
  stores: campaignOfStores,
  reservations: campaignOfReservations,
  events: campaignOfEvents,
  server: campaignOfServer,
  gateway: campaignOfGateway,
  next: campaignOfNext,
};

const unknown = positionals.filter((name) => !Object.hasOwn(CAMPAIGNS, name));
if (unknown.length > 0) {
  console.error(`there is no campaign called ${unknown.join(", ")}: ${Object.keys(CAMPAIGNS).join(" or ")}`);
  process.exit(1);
}

execFileSync("npm", ["run", "--silent", "build"], { stdio: "inherit" });
for (const name of positionals.length > 0 ? positionals : Object.keys(CAMPAIGNS))
  if (!(await CAMPAIGNS[name]?.())) process.exitCode = 1;
