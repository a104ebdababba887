/** Runs calls in a worker thread, and looks out there for what other processes do. */
import { Worker } from "node:worker_threads";
import type { Call, Reply } from "./calls.ts";
import type { Engine } from "./engine.ts";
import type { FileSettings } from "./file.ts";
import { type FromWorker, type ToWorker, withErrors } from "./messages.ts";
import { createThread, type WorkerData } from "./thread.ts";

export interface InWorkerOptions {
  readonly settings: FileSettings;
  /** Told of records that other processes are done with, and of all that are watched if the thread died. */
  wake(ids: readonly string[]): void;
}

export function runInWorker({ settings, wake }: InWorkerOptions): Engine {
  const watched = new Set<string>();
  // What was asked of a thread that died may have been written or not: the engine asks again, with the same token.
  const thread = createThread<readonly Call[], Reply, FromWorker>({
    start: (gate) =>
      new Worker(new URL("./worker.js", import.meta.url), {
        workerData: { settings, gate } satisfies WorkerData,
        name: "nevertwice-sqlite",
      }),
    greet: () => (watched.size > 0 ? (["watch", [...watched]] satisfies ToWorker) : undefined),
    hear: ([, ids]) => wake(ids),
    // Nobody looks out for them any more: let them look for themselves.
    onEnd: () => wake([...watched]),
  });
  return {
    run: async (calls) => withErrors(await thread.run(calls)),
    watch(id) {
      watched.add(id);
      thread.tell(["watch", [id]] satisfies ToWorker);
    },
    unwatch(id) {
      watched.delete(id);
      thread.tell(["unwatch", id] satisfies ToWorker);
    },
    close: thread.close,
  };
}
