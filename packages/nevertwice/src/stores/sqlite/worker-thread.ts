/**
 * A worker thread that owns a SQLite connection, as seen by the thread that started it. The first message starts the
 * worker, and the next message after its death starts another one. It keeps the process alive only while a reply is due.
 */
import type { Worker } from "node:worker_threads";
import { NevertwiceError } from "../../core/errors.ts";
import type { FileSettings } from "./client.ts";
import { type CopiedError, restoreError } from "./errors.ts";

/** What a worker is started with. */
export interface WorkerData {
  readonly settings: FileSettings;
  readonly gate: ExitGate;
}

/** Messages to the worker, handled in order: `run`, `close`, and others that one kind of worker understands. */
export type ToThread = readonly [kind: string, body?: unknown];

/** Messages from the worker: one `done` or `failed` for each `run`, in their order, and `closed` as the last message. */
export type FromThread =
  | readonly [kind: "done", reply: unknown]
  | readonly [kind: "failed", error: CopiedError]
  | readonly [kind: "closed"];

export interface WorkerThreadOptions<News> {
  /** Creates the worker. The caller spells out the worker's file, so that bundlers that support workers include it. */
  start(gate: ExitGate): Worker;
  /** A message to send to a new worker before any other. */
  firstMessage?(): ToThread | undefined;
  /** Receives messages that the worker sends without a request. */
  onNews?(news: News): void;
  onEnd?(): void;
}

/** The error for a request whose thread ended. `hasBegun`: the worker had started it, so it may have been executed. */
export type ErrorOnEnd = (error: NevertwiceError, hasBegun: boolean) => unknown;

export interface WorkerThread<Request, Reply> {
  run(request: Request, errorOnEnd?: ErrorOnEnd): Promise<Reply>;
  /** Sends a message if the worker is running; does nothing otherwise. */
  post(message: ToThread): void;
  /** Resolves once all earlier requests are answered and the worker has ended. */
  close(): Promise<void>;
}

interface UnansweredRequest {
  /** The position among all messages to this worker, from 1. */
  readonly number: number;
  readonly resolve: (reply: never) => void;
  readonly reject: (error: unknown) => void;
  readonly errorOnEnd: ErrorOnEnd;
}

interface RunningWorker {
  readonly worker: Worker;
  readonly unanswered: UnansweredRequest[];
  readonly ended: Promise<void>;
  sent: number;
}

export function createWorkerThread<Request, Reply, News = never>(
  options: WorkerThreadOptions<News>,
): WorkerThread<Request, Reply> {
  const { start, firstMessage, onNews, onEnd } = options;
  let running: RunningWorker | undefined;
  let isClosing = false;

  function startWith(gate: ExitGate): Worker {
    try {
      return start(gate);
    } catch (error) {
      // A bundle as an ES module has no name for its own file, so there is no path to begin with.
      throw isOutOfResources(error) ? error : workerMissing(error);
    }
  }

  function startWorker(): RunningWorker {
    const gate = createExitGate();
    const worker = startWith(gate);
    worker.unref();
    const unanswered: UnansweredRequest[] = [];
    let cause: unknown;
    worker.on("message", (message: FromThread | News) => {
      const [kind, body] = message as FromThread;
      if (kind === "closed") return void worker.terminate();
      if (kind !== "done" && kind !== "failed") return onNews?.(message as News);
      const { resolve, reject } = unanswered.shift() as UnansweredRequest;
      // close() awaits the worker's end, and only the worker may keep the process alive until then.
      if (unanswered.length === 0 && !isClosing) worker.unref();
      if (kind === "done") resolve(body as never);
      else reject(restoreError(body as CopiedError));
    });
    worker.on("error", (error) => {
      cause = error;
    });
    const ended = new Promise<void>((resolve) => {
      const release = guardExit(gate);
      worker.on("exit", () => {
        release();
        if (running?.worker === worker) running = undefined;
        const begun = gatePasses(gate);
        for (const { reject, errorOnEnd, number } of unanswered)
          reject(errorOnEnd(threadEnded(cause, begun > 0), number <= begun));
        onEnd?.();
        resolve();
      });
    });
    return { worker, unanswered, ended, sent: 0 };
  }

  function send(to: RunningWorker, message: ToThread): number {
    to.worker.postMessage(message);
    return ++to.sent;
  }

  function started(): RunningWorker {
    if (running !== undefined) return running;
    running = startWorker();
    const message = firstMessage?.();
    if (message !== undefined) send(running, message);
    return running;
  }

  return {
    run(request, errorOnEnd = (error) => error) {
      return new Promise((resolve, reject) => {
        const to = started();
        // A request that cannot be cloned throws here, before a reply is awaited.
        const number = send(to, ["run", request]);
        if (to.unanswered.push({ number, resolve, reject, errorOnEnd }) === 1) to.worker.ref();
      });
    },
    post(message) {
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

function isOutOfResources(error: unknown): boolean {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  return code === "ERR_WORKER_INIT_FAILED" || code === "ERR_WORKER_OUT_OF_MEMORY";
}

function workerMissing(cause: unknown): NevertwiceError {
  const reason = cause instanceof Error ? cause.message.split("\n")[0] : String(cause);
  return new NevertwiceError(
    "options-invalid",
    `the file of the SQLite store's worker thread cannot be loaded: ${reason}. A bundler has left it out or changed it: mark nevertwice as external, bundle the worker too, or use sqliteStore({ database }). See docs/bundlers.md.`,
    { cause },
  );
}

/** An error before the worker has begun any request is that of loading its file, which no retry cures. */
function threadEnded(cause: unknown, hasBegun: boolean): NevertwiceError {
  if (cause !== undefined && !hasBegun && !isOutOfResources(cause)) return workerMissing(cause);
  return new NevertwiceError(
    "unavailable",
    "the SQLite store's worker thread ended; the next call starts another.",
    { cause },
  );
}

/**
 * Lets the process exit only while the worker is outside SQLite. A process that exits tears its threads down wherever they
 * are, and a native driver that is torn down inside a call aborts the whole process: exit code 134 instead of its own.
 *
 * Each side writes one cell and then reads the other's. The worker writes IS_INSIDE, then reads IS_SHUT. The process writes
 * IS_SHUT, then reads IS_INSIDE. Whichever writes second sees the write of the other.
 */
export type ExitGate = Int32Array<SharedArrayBuffer>;

const IS_INSIDE = 0;
const IS_SHUT = 1;
const PASSES = 2;
const YES = 1;
const NO = 0;

/** Longer than any wait for a lock, so the worker always gets out in time. */
const MAX_WAIT_MS = 10_000;

function createExitGate(): ExitGate {
  return new Int32Array(new SharedArrayBuffer(12));
}

/** For the worker: runs `work`, unless the process is exiting. */
export function passGate(gate: ExitGate, work: () => void): void {
  Atomics.store(gate, IS_INSIDE, YES);
  Atomics.add(gate, PASSES, 1);
  try {
    if (Atomics.load(gate, IS_SHUT) === NO) work();
  } finally {
    Atomics.store(gate, IS_INSIDE, NO);
    Atomics.notify(gate, IS_INSIDE);
  }
}

/** How often the worker went in, for messages and for checks. A message with a higher number than this has not begun. */
function gatePasses(gate: ExitGate): number {
  return Atomics.load(gate, PASSES);
}

const guarded = new Set<ExitGate>();

/** For the process: on exit, shuts the gate and waits until the worker is outside. The returned function undoes this. */
function guardExit(gate: ExitGate): () => void {
  if (guarded.size === 0) process.on("exit", shutGates);
  guarded.add(gate);
  return () => {
    guarded.delete(gate);
    if (guarded.size === 0) process.off("exit", shutGates);
  };
}

function shutGates(): void {
  for (const gate of guarded) {
    Atomics.store(gate, IS_SHUT, YES);
    Atomics.wait(gate, IS_INSIDE, YES, MAX_WAIT_MS);
  }
}
