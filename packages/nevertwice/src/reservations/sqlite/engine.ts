/** What runs the calls of a store of reservations: a worker thread, or the thread that asks. */
import { Worker } from "node:worker_threads";
import type { FileSettings } from "../../stores/sqlite/file.ts";
import type { Source } from "../../stores/sqlite/options.ts";
import { createThread, type Thread, type WorkerData } from "../../stores/sqlite/thread.ts";
import { type Call, runOn } from "./calls.ts";
import { connect } from "./connection.ts";

export type Engine = Pick<Thread<Call, unknown>, "run" | "close">;

export function engineFor(source: Source): Engine {
  return "settings" in source ? inWorker(source.settings) : inThread(source);
}

function inWorker(settings: FileSettings): Engine {
  return createThread({
    start: (gate) =>
      new Worker(new URL("./worker.js", import.meta.url), {
        workerData: { settings, gate } satisfies WorkerData,
        name: "nevertwice-reservations",
      }),
  });
}

/** How long to wait for a lock is set on the caller's connection, and that stays open. */
function inThread({ database, clock }: Extract<Source, { readonly clock: unknown }>): Engine {
  let run: ((call: Call) => unknown) | undefined;
  return {
    async run(call) {
      run ??= runOn(() => connect(database, { clock, waiting: (step) => step() }));
      return run(call);
    },
    close: async () => {},
  };
}
