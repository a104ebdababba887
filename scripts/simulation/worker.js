/** Runs ranges of schedules in a thread of its own, and reports on each: the worker of `pool.js`. */
import { parentPort, workerData } from "node:worker_threads";

// Timeouts are made by the thousand here, and nobody reads where they were thrown.
Error.stackTraceLimit = 0;

const { simulate } = await import(workerData.simulation);
parentPort?.on("message", async (range) => parentPort?.postMessage(await simulate(range)));
