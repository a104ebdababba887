/** The forked process of one run: its plan, its library and database, and how it measures time. */
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { startProfiles } from "./inspect.js";
import { warmUp } from "./warm-up.js";

export const plan = JSON.parse(process.argv[2]);
export const library = await import(`./libraries/${plan.library}.js`);
const { openDatabase } = await import(`./databases/${plan.store}.js`);

let target;
/** What each phase of the present run cost, by its name. */
let costs = {};

/** An empty database. */
export async function openTarget() {
  target = await openDatabase({ url: plan.urls[plan.store] });
  return target;
}

/** Warms up, runs once more to measure, and sends the last result. */
export async function sendRun(run) {
  const warmUps = await warmUp(async () => {
    costs = {};
    await run(plan.warmup);
    return Object.values(costs).reduce((sum, { client }) => sum + client, 0);
  }, plan.maxWarmUps);
  costs = {};
  const result = await run(plan.count, plan.profile);
  process.send({ ...result, costs, warmUps });
}

/** Adds what the calls of a phase took while no other was in flight. */
export function setAlone(phase, alone) {
  costs[phase].alone = alone;
}

/** Longer than the interval in which the event loop is looked at, so that a block at the end is seen. */
const LAST_LOOK_MS = 5;

/**
 * Calls `one` with 0 to `total - 1`, with `inFlight` calls at a time, and then `finish`. Only this is profiled: a flag of
 * the process would also count the warm-up and the checks. The costs are kept under the name of the phase.
 */
export async function timeLanes({ phase, total, isProfiled = false, finish }, one) {
  let next = 0;
  async function lane() {
    while (next < total) await one(next++);
  }
  global.gc();
  const stopProfiles = isProfiled ? await startProfiles() : undefined;
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const serverBefore = await target?.serverMicroseconds?.();
  const before = process.cpuUsage();
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: plan.inFlight }, lane));
  await finish?.();
  const seconds = (performance.now() - startedAt) / 1_000;
  const { user, system } = process.cpuUsage(before);
  const serverAfter = await target?.serverMicroseconds?.();
  const profiles = await stopProfiles?.();
  await sleep(LAST_LOOK_MS);
  delay.disable();
  costs[phase] = {
    client: (user + system) / total,
    ...(serverAfter !== undefined && { server: (serverAfter - serverBefore) / total }),
    blockedMs: delay.max / 1_000_000,
  };
  return { perSecond: total / seconds, profiles };
}
