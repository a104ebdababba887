/** The program of a process of `nevertwice prove`: it gets its options as JSON, and its orders as messages. */
import { runWorker } from "./worker.ts";

// Ctrl-C reaches every process of a terminal. The one that started this one ends the run.
process.on("SIGINT", () => {}).on("SIGTERM", () => {});
process.on("disconnect", () => process.exit());
await runWorker(JSON.parse(process.argv[2] ?? "{}"));
