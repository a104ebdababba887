/**
 * Runs calls in a worker thread: starts it with the first message, and anew after it died. It keeps the process alive only
 * while an answer is awaited.
 */
import { Worker } from "node:worker_threads";
import { NevertwiceError } from "../../core/errors.ts";
import type { Reply } from "./calls.ts";
import type { Engine } from "./engine.ts";
import type { FileSettings } from "./file.ts";
import { createGate, guardExit } from "./gate.ts";
import { type FromWorker, fromFailure, type ToWorker, type WorkerData, withErrors } from "./messages.ts";

export interface InWorkerOptions {
  readonly settings: FileSettings;
  /** Told of records that other processes are done with, and of all that are watched if the thread died. */
  wake(ids: readonly string[]): void;
}

interface Awaited {
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: unknown) => void;
}

interface Running {
  readonly worker: Worker;
  readonly awaited: Awaited[];
  readonly ended: Promise<void>;
}

export function runInWorker({ settings, wake }: InWorkerOptions): Engine {
  const watched = new Set<string>();
  let running: Running | undefined;

  function start(): Running {
    const gate = createGate();
    // Spelt out here, so that bundlers which know workers take it along.
    const worker = new Worker(new URL("./worker.js", import.meta.url), {
      workerData: { settings, gate } satisfies WorkerData,
      name: "nevertwice-sqlite",
    });
    worker.unref();
    const awaited: Awaited[] = [];
    let cause: unknown;
    worker.on("message", (message: FromWorker) => {
      if (message[0] === "wake") return wake(message[1]);
      if (message[0] === "closed") return void worker.terminate();
      const { resolve, reject } = awaited.shift() as Awaited;
      if (awaited.length === 0) worker.unref();
      if (message[0] === "done") resolve(withErrors(message[1]));
      else reject(fromFailure(message[1]));
    });
    worker.on("error", (error) => {
      cause = error;
    });
    const ended = new Promise<void>((resolve) => {
      const release = guardExit(gate);
      worker.on("exit", () => {
        release();
        if (running?.worker === worker) running = undefined;
        for (const { reject } of awaited) reject(died(cause));
        // Nobody looks out for them any more: let them look for themselves.
        wake([...watched]);
        resolve();
      });
    });
    if (watched.size > 0) send(worker, ["watch", [...watched]]);
    return { worker, awaited, ended };
  }

  return {
    run(calls) {
      return new Promise((resolve, reject) => {
        running ??= start();
        const { worker, awaited } = running;
        // A call that cannot be copied throws here, before anything is awaited.
        send(worker, ["run", calls]);
        if (awaited.push({ resolve, reject }) === 1) worker.ref();
      });
    },
    watch(id) {
      watched.add(id);
      if (running !== undefined) send(running.worker, ["watch", [id]]);
    },
    unwatch(id) {
      watched.delete(id);
      if (running !== undefined) send(running.worker, ["unwatch", id]);
    },
    async close() {
      if (running === undefined) return;
      const { worker, ended } = running;
      worker.ref();
      send(worker, ["close"]);
      await ended;
    },
  };
}

function send(worker: Worker, message: ToWorker): void {
  worker.postMessage(message);
}

/** What was asked may have been written or not: the engine asks again, with the same token. */
function died(cause: unknown): NevertwiceError {
  const { code, message = "" } = (cause ?? {}) as { code?: unknown; message?: string };
  if (code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND")
    return new NevertwiceError(
      "driver-missing",
      `the SQLite store's worker cannot be loaded: ${message}. If a bundler left it out, let it leave nevertwice alone (external).`,
      { cause },
    );
  return new NevertwiceError(
    "unavailable",
    "the SQLite store's worker thread ended; the next call starts another.",
    {
      cause,
    },
  );
}
