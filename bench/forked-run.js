/** The forked process of one run: its plan, its library and database, and how it measures time. */
import { startProfiles } from "./inspect.js";

export const plan = JSON.parse(process.argv[2]);
export const library = await import(`./libraries/${plan.library}.js`);
const { openDatabase } = await import(`./databases/${plan.store}.js`);

/** An empty database. */
export function openTarget() {
  return openDatabase({ url: plan.urls[plan.store] });
}

/** Runs once to warm up and once to measure, and sends the second result. */
export async function sendRun(run) {
  await run(plan.warmup);
  process.send(await run(plan.count, plan.profile));
}

/**
 * Calls `one` with 0 to `total - 1`, with `inFlight` calls at a time, and then `finish`. Only this is profiled: a flag of
 * the process would also count the warm-up and the checks.
 */
export async function timeLanes({ total, isProfiled = false, finish }, one) {
  let next = 0;
  async function lane() {
    while (next < total) await one(next++);
  }
  global.gc();
  const stopProfiles = isProfiled ? await startProfiles() : undefined;
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: plan.inFlight }, lane));
  await finish?.();
  const seconds = (performance.now() - startedAt) / 1_000;
  return { perSecond: total / seconds, profiles: await stopProfiles?.() };
}
