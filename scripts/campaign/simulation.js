/** Simulates very many schedules on every core; a failure prints the seed that replays it. */
import { simulateOnAllCores } from "../simulation/pool.js";

const SIMULATION = new URL("../../packages/nevertwice/build/testing/simulation.js", import.meta.url);

/**
 * @param {{ schedules: number, seed: number }} size
 * @returns {Promise<boolean>} whether every check passed
 */
export async function campaignOfSimulation({ schedules, seed }) {
  const startedAt = performance.now();
  let shown = 0;
  const report = await simulateOnAllCores({
    simulation: SIMULATION,
    seed,
    schedules,
    onProgress(done) {
      if (done - shown < 100_000) return;
      shown = done;
      const rate = done / ((performance.now() - startedAt) / 1_000);
      console.log(
        `${done.toLocaleString("en")} schedules, ${Math.round(rate).toLocaleString("en")} a second`,
      );
    },
  });
  const seconds = (performance.now() - startedAt) / 1_000;
  console.log(
    `\n${report.schedules.toLocaleString("en")} schedules, ${report.events.toLocaleString("en")} events in ${seconds.toFixed(0)} s`,
  );
  for (const [what, times] of Object.entries(report.counts).sort())
    console.log(`  ${what}: ${times.toLocaleString("en")}`);
  const { failure } = report;
  if (failure === undefined) {
    // Zero failures in n trials put the rate under 3/n with 95 % confidence.
    console.log(
      `no promise was broken: fewer than ${(3 / report.schedules).toExponential(1)} of such schedules break one (95 % confidence)`,
    );
    return true;
  }
  console.log(
    `\nBROKEN ${failure.invariant}: ${failure.what}\nreplay it: npm run campaign -- simulation --schedules 1 --seed ${failure.seed}\n`,
  );
  console.log(failure.story.join("\n"));
  return false;
}
