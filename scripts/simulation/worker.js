/** Runs a range of schedules in a thread of its own and reports once: the worker of `pool.js`. */
import { parentPort, workerData } from "node:worker_threads";

// Timeouts are made by the thousand here, and nobody reads where they were thrown.
Error.stackTraceLimit = 0;

const { simulate } = await import(workerData.simulation);
parentPort?.postMessage(await simulate({ seed: workerData.seed, schedules: workerData.schedules }));
