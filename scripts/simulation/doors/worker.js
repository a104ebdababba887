/** The worker thread of the simulation of doors: runs ranges of schedules and reports on each. */
import { parentPort, workerData } from "node:worker_threads";
import { installVirtualTime } from "./virtual-time.js";

// A simulation creates thousands of timeouts, and their stacks are never read.
Error.stackTraceLimit = 0;
installVirtualTime();

// Afterwards: the library keeps some functions of the platform when it is loaded.
const { loadLibrary } = await import("./library.js");
const { simulateDoors } = await import("./simulate.js");
const library = await loadLibrary(workerData.build);
const { door } = workerData;
parentPort?.on("message", async (range) =>
  parentPort?.postMessage(await simulateDoors(library, { ...range, door })),
);
