/** How much longer leases and pauses have to be here: on a busy machine a process may not run for seconds. */
import { availableParallelism, loadavg } from "node:os";

const MOST = 4;

export function slowness(load = loadavg()[0] ?? 0, processors = availableParallelism()) {
  return Math.min(MOST, Math.max(1, Math.round(load / processors / 3)));
}
