/**
 * A worker thread that owns a connection, as the thread that asks it sees it: started with the first message, and anew
 * after it died. It keeps the process alive only while an answer is awaited.
 */
import type { Worker } from "node:worker_threads";
import { NevertwiceError } from "../../core/errors.ts";
import { type Failure, fromFailure } from "./copied-errors.ts";
import type { FileSettings } from "./file.ts";
import { createGate, type Gate, guardExit, timesPassed } from "./gate.ts";

/** What a worker is started with. */
export interface WorkerData {
  readonly settings: FileSettings;
  readonly gate: Gate;
}

/** Handled in the order in which they are sent: `run` and `close`, and what a worker of its kind knows besides. */
export type ToThread = readonly [kind: string, body?: unknown];

/** One `done` or `failed` for each `run`, in their order; `closed` as the last one. */
export type FromThread =
  | readonly [kind: "done", reply: unknown]
  | readonly [kind: "failed", failure: Failure]
  | readonly [kind: "closed"];

export interface ThreadOptions<News> {
  /** A new worker. Its file is spelt out there, so that bundlers which know workers take it along. */
  start(gate: Gate): Worker;
  /** What it is told first. */
  greet?(): ToThread | undefined;
  /** Told what a worker says without being asked. */
  hear?(news: News): void;
  onEnd?(): void;
}

/** What a call is rejected with if the thread ended; `hasBegun`: it may have been done before that. */
export type Epitaph = (error: NevertwiceError, hasBegun: boolean) => unknown;

export interface Thread<Request, Reply> {
  run(request: Request, epitaph?: Epitaph): Promise<Reply>;
  /** Tells a thread that runs; one that does not is told nothing. */
  tell(message: ToThread): void;
  /** Once all that was asked before is answered. */
  close(): Promise<void>;
}

interface Awaited {
  /** Which one it is of all messages to this worker, from 1. */
  readonly number: number;
  readonly resolve: (reply: never) => void;
  readonly reject: (error: unknown) => void;
  readonly epitaph: Epitaph;
}

interface Running {
  readonly worker: Worker;
  readonly awaited: Awaited[];
  readonly ended: Promise<void>;
  sent: number;
}

export function createThread<Request, Reply, News = never>(
  options: ThreadOptions<News>,
): Thread<Request, Reply> {
  const { start, greet, hear, onEnd } = options;
  let running: Running | undefined;
  let isClosing = false;

  function begin(): Running {
    const gate = createGate();
    const worker = start(gate);
    worker.unref();
    const awaited: Awaited[] = [];
    let cause: unknown;
    worker.on("message", (message: FromThread | News) => {
      const [kind, body] = message as FromThread;
      if (kind === "closed") return void worker.terminate();
      if (kind !== "done" && kind !== "failed") return hear?.(message as News);
      const { resolve, reject } = awaited.shift() as Awaited;
      // Whoever closes it awaits its end, and nothing else may keep the process alive until then.
      if (awaited.length === 0 && !isClosing) worker.unref();
      if (kind === "done") resolve(body as never);
      else reject(fromFailure(body as Failure));
    });
    worker.on("error", (error) => {
      cause = error;
    });
    const ended = new Promise<void>((resolve) => {
      const release = guardExit(gate);
      worker.on("exit", () => {
        release();
        if (running?.worker === worker) running = undefined;
        const begun = timesPassed(gate);
        for (const { reject, epitaph, number } of awaited) reject(epitaph(died(cause), number <= begun));
        onEnd?.();
        resolve();
      });
    });
    return { worker, awaited, ended, sent: 0 };
  }

  function send(to: Running, message: ToThread): number {
    to.worker.postMessage(message);
    return ++to.sent;
  }

  function started(): Running {
    if (running !== undefined) return running;
    running = begin();
    const greeting = greet?.();
    if (greeting !== undefined) send(running, greeting);
    return running;
  }

  return {
    run(request, epitaph = (error) => error) {
      return new Promise((resolve, reject) => {
        const to = started();
        // What cannot be copied throws here, before anything is awaited.
        const number = send(to, ["run", request]);
        if (to.awaited.push({ number, resolve, reject, epitaph }) === 1) to.worker.ref();
      });
    },
    tell(message) {
      if (running !== undefined) send(running, message);
    },
    async close() {
      if (running === undefined) return;
      const { worker, ended } = running;
      isClosing = true;
      worker.ref();
      send(running, ["close"]);
      await ended;
    },
  };
}

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
