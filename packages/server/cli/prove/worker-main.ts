/** The program of a process of `nevertwice prove`: the first message that it gets has its options, the others are its orders. */
import { runWorker, type WorkerOptions } from "./worker.ts";

// Ctrl-C reaches every process of a terminal. The one that started this one ends the run.
process.on("SIGINT", () => {}).on("SIGTERM", () => {});
process.on("disconnect", () => process.exit());
process.once("message", (options: WorkerOptions) => void runWorker(options));
