/** The worker thread of `pool.js`: runs ranges of schedules and reports on each. */
import { parentPort, workerData } from "node:worker_threads";

// A simulation creates thousands of timeouts, and their stacks are never read.
Error.stackTraceLimit = 0;

const { simulate } = await import(workerData.simulation);
parentPort?.on("message", async (range) => parentPort?.postMessage(await simulate(range)));
