/** `npm run campaign`: ten million schedules, more than a test run has time for. `-- --schedules N --seed S` for others. */
import { execFileSync } from "node:child_process";
import { parseArgs } from "node:util";
import { simulateOnAllCores } from "./simulation/pool.js";

const { values } = parseArgs({
  options: { schedules: { type: "string", default: "10000000" }, seed: { type: "string", default: "1" } },
});
const schedules = Number(values.schedules);
const seed = Number(values.seed);
const simulation = new URL("../packages/nevertwice/dist/testing/simulation.js", import.meta.url);

execFileSync("npm", ["run", "--silent", "build"], { stdio: "inherit" });
const startedAt = performance.now();
let shown = 0;
const report = await simulateOnAllCores({
  simulation,
  seed,
  schedules,
  onProgress(done) {
    if (done - shown < 100_000) return;
    shown = done;
    const rate = done / ((performance.now() - startedAt) / 1_000);
    console.log(`${done.toLocaleString("en")} schedules, ${Math.round(rate).toLocaleString("en")} a second`);
  },
});
const seconds = (performance.now() - startedAt) / 1_000;
console.log(
  `\n${report.schedules.toLocaleString("en")} schedules, ${report.events.toLocaleString("en")} events in ${seconds.toFixed(0)} s`,
);
for (const [what, times] of Object.entries(report.counts).sort())
  console.log(`  ${what}: ${times.toLocaleString("en")}`);
if (report.failure === undefined) {
  // Zero failures in n trials put the rate under 3/n with 95 % confidence.
  console.log(
    `no promise was broken: fewer than ${(3 / report.schedules).toExponential(1)} of such schedules break one (95 % confidence)`,
  );
} else {
  const { failure } = report;
  console.log(
    `\nBROKEN ${failure.invariant}: ${failure.what}\nreplay it: npm run campaign -- --schedules 1 --seed ${failure.seed}\n`,
  );
  console.log(failure.story.join("\n"));
  process.exitCode = 1;
}
