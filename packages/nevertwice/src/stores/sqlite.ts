/**
 * Records in one SQLite file. `{ file }` opens the file in a worker thread, in WAL mode and flushed at every commit; several
 * processes of one machine may share it. `{ database }` uses a connection of the caller in the caller's thread. Both forms
 * commit calls that arrive together in one transaction.
 */
import { Worker } from "node:worker_threads";
import type { Clock } from "../core/clock.ts";
import { type DirectStore, offerDirect } from "../core/direct-store.ts";
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import type {
  ClaimAnswer,
  ClaimRequest,
  NamespacePage,
  Store,
  StoreRecord,
  UndecidedReport,
} from "../core/store.ts";
import type { ConnectionTransactions, TransactionalStore } from "../core/store-transactions.ts";
import { createBatch } from "./batch.ts";
import { scopeTurn } from "./call-queue.ts";
import { createTurns } from "./in-turn.ts";
import type { ListPlace } from "./listing.ts";
import { type CallRunner, createCallRunner } from "./sqlite/call-runner.ts";
import {
  type CallAnswer,
  type CallReply,
  type FromWorker,
  isFailed,
  restoreErrors,
  type StoreCall,
  settledIds,
  type ToWorker,
  toClaimCall,
  toResult,
} from "./sqlite/calls.ts";
import type {
  FileSettings,
  SqliteDatabase,
  SqliteDatabaseOptions,
  SqliteFileOptions,
} from "./sqlite/client.ts";
import { judgeDurability, type SqliteSettings } from "./sqlite/durability.ts";
import { type ListPart, readListPage } from "./sqlite/list-page.ts";
import { purgeInParts } from "./sqlite/purge.ts";
import { createReplayReader, type ReplayReader } from "./sqlite/replay-reader.ts";
import { toSource } from "./sqlite/source.ts";
import { createTransactions } from "./sqlite/transactions.ts";
import { createRecordWatch } from "./sqlite/watch.ts";
import { createWorkerThread, type WorkerData } from "./sqlite/worker-thread.ts";
import { createWatchers } from "./watchers.ts";

export type {
  SqliteDatabase,
  SqliteDatabaseOptions,
  SqliteFileOptions,
  SqliteStatement,
  SqlValue,
} from "./sqlite/client.ts";

/** The file of the database, or the connection that you have opened. */
export type SqliteStoreOptions = SqliteFileOptions | SqliteDatabaseOptions;

/** A commit of this many calls takes a few milliseconds, so renewals do not wait longer than that behind claims. */
const MAX_CALLS = 500;
const MAX_MESSAGE_LENGTH = 4 * 1_048_576;
/** Twice the engine's default timeout for a call, so that abandoned calls do not pile up while the file is locked. */
const MAX_QUEUED_MS = 10_000;

/** How many rows a list reads in one message: a few milliseconds, so that the claims behind it need not wait long. */
const LIST_ROWS = 250;
const MAX_LIST_PARTS = 40;

/** The calls of owners go before claims: their work is running. */
const URGENT: ReadonlySet<StoreCall[0]> = new Set(["complete", "abandon", "renew", "keep-step"]);

/** About how many characters a call adds to its message. */
function sizeOf(call: StoreCall): number {
  const text = call[0] === "complete" ? call[3] : call[0] === "keep-step" ? call[4] : "";
  return typeof text === "string" ? text.length : 0;
}

const GROUPING = {
  isUrgent: ([kind]: StoreCall) => URGENT.has(kind),
  turnOf: (call: StoreCall) => (call[0] === "claim" ? scopeTurn({ namespace: call[8], scope: call[9] }) : ""),
  sizeOf,
  maxCalls: MAX_CALLS,
  maxBytes: MAX_MESSAGE_LENGTH,
};

/** An answer, and the outcomes of the reply that it came with. */
interface AnsweredCall {
  readonly answer: CallAnswer;
  readonly outcomes: readonly string[];
}

/**
 * Keeps records in a SQLite file, or through a connection that you have opened.
 * @throws `options-invalid`, `driver-missing` without a driver
 * @example
 * ```ts server
 * import { createGuard } from "nevertwice";
 * import { sqliteStore } from "nevertwice/stores/sqlite";
 *
 * export const guard = createGuard({ store: sqliteStore({ file: "./nevertwice.db" }) });
 * ```
 */
export function sqliteStore(options: SqliteStoreOptions): Store & Partial<TransactionalStore> {
  const source = toSource(options, "for records in memory use memoryStore()");
  const watchers = createWatchers({
    onFirst: (id) => executor.watch(id),
    onLast: (id) => executor.unwatch(id),
  });
  const executor =
    "database" in source
      ? runInThread(source.database, source.clock, watchers.wake)
      : runInWorker(source.settings, watchers.wake);
  const batch = createBatch<StoreCall, AnsweredCall>({
    send,
    alone: async (call) => (await send([call]))[0] as AnsweredCall,
    ...GROUPING,
    // A second message would only wait in the thread behind the first one, where its calls can no longer be dropped.
    stuckMs: Number.POSITIVE_INFINITY,
    maxQueuedMs: MAX_QUEUED_MS,
    // A commit costs as much as writing dozens of rows, so one turn of the event loop is well spent on a larger group.
    gather: (next) => setImmediate(next),
  });
  let openCalls = 0;
  let onIdle: (() => void) | undefined;
  let closing: Promise<void> | undefined;

  async function send(calls: readonly StoreCall[]): Promise<readonly (AnsweredCall | undefined)[]> {
    const { answers, outcomes } = await executor.run(calls).catch((error) => toRefusals(error, calls));
    if (!watchers.isEmpty()) watchers.wake(settledIds(calls, answers));
    return answers.map((answer) => (answer === undefined ? undefined : { answer, outcomes }));
  }

  function refuseIfClosed(): void {
    if (closing !== undefined) throw new NevertwiceError("unavailable", "the SQLite store is closed.");
  }

  /** Counts the call as open, so that `close` waits for it. */
  async function accept<Value>(answer: () => Promise<Value>): Promise<Value> {
    refuseIfClosed();
    openCalls++;
    try {
      return await answer();
    } finally {
      if (--openCalls === 0) onIdle?.();
    }
  }

  async function inBatch<Value>(call: StoreCall): Promise<Value> {
    const { answer, outcomes } = await batch.run(call);
    if (isFailed(answer)) throw answer[1];
    return toResult(answer, outcomes) as Value;
  }

  const run = <Value>(call: StoreCall) => accept(() => inBatch<Value>(call));
  const inTurn = createTurns({ rest: 1 });

  async function claim(request: ClaimRequest): Promise<ClaimAnswer> {
    const replay = executor.replay?.(request);
    // Most claims are not looked up, and should not wait for a promise.
    const answer = replay instanceof Promise ? await replay : replay;
    return answer ?? inBatch(toClaimCall(request));
  }

  async function close(): Promise<void> {
    if (openCalls > 0) {
      await new Promise<void>((idle) => {
        onIdle = idle;
      });
    }
    watchers.clear();
    await executor.close();
  }

  const store: Store & Partial<TransactionalStore> = {
    ...(executor.transactions && { transactions: executor.transactions }),
    claim: (request) => accept(() => claim(request)),
    complete: ({ id, token, outcome, retentionMs }) => run(["complete", id, token, outcome, retentionMs]),
    abandon: ({ id, token, as }) => run(["abandon", id, token, as]),
    renew: ({ id, token, leaseMs }) => run(["renew", id, token, leaseMs]),
    keepStep: ({ id, token, name, outcome }) => run(["keep-step", id, token, name, outcome]),
    read: (id) => run<StoreRecord | undefined>(["read", id]),
    keepsHistory: true,
    forget: ({ id, fence, reopen = false }) => run(["forget", id, fence, reopen]),
    purge: (limit) => purgeInParts(run, limit),
    overdue: ({ limit }) => run(["overdue", limit]),
    list(request) {
      const { limit: _, after: __, signal: ___, ...filter } = request;
      // Claims go between the parts of a page, and between one list and the next.
      const read = (wanted: number, after: ListPlace | undefined) =>
        inTurn(
          () => run<ListPart>(["list", filter, wanted, after, LIST_ROWS]),
          () => request.signal?.aborted === true,
        );
      return readListPage(request, read, MAX_LIST_PARTS);
    },
    listOrder: "newest-first",
    undecided: ({ namespace, limit }) => run<UndecidedReport>(["undecided", namespace, limit]),
    namespaces: ({ limit, after }) => run<NamespacePage>(["namespaces", limit, after]),

    async watch({ id, wake }) {
      refuseIfClosed();
      return watchers.watch(id, wake);
    },

    settings: async () => judgeDurability(await run<SqliteSettings>(["settings"])),

    close() {
      closing ??= close();
      return closing;
    },
  };
  const { replayNow } = executor;
  if (replayNow === undefined) return store;
  return offerDirect(store, { claim: (request) => (closing === undefined ? replayNow(request) : undefined) });
}

/** Runs the store's calls: in a worker thread, or in the thread of the caller. */
interface CallExecutor {
  /** Runs the calls in one transaction. Rejects if the transaction failed as a whole. */
  run(calls: readonly StoreCall[]): Promise<CallReply>;
  /** The answer to a claim of a completed record, if it can be had without `run`. */
  replay?: ReplayReader["claim"];
  /** The same, for a caller that does not wait for a promise. It then calls `replay`. */
  replayNow?: DirectStore["claim"];
  /** Starts to report when another connection settles this record. */
  watch(id: string): void;
  unwatch(id: string): void;
  close(): Promise<void>;
  /** Only where the application shares the connection. */
  readonly transactions?: ConnectionTransactions;
}

type Wake = (ids: readonly string[]) => void;

/** Uses a connection of the caller, which stays open. The caller's busy timeout decides how long to wait for a lock. */
function runInThread(database: SqliteDatabase, clock: Clock, wake: Wake): CallExecutor {
  let runner: CallRunner | undefined;
  const openRunner = () => {
    runner ??= createCallRunner(database, { clock, waiting: (step) => step() });
    return runner;
  };
  const watch = createRecordWatch({ table: () => runner?.table, wake });
  return {
    transactions: createTransactions(database, openRunner, wake),
    async run(calls) {
      return openRunner().run(calls);
    },
    watch: (id) => watch.add([id]),
    unwatch: watch.remove,
    close: async () => watch.stop(),
  };
}

/**
 * Opens the file in a worker thread. If the thread dies, its calls may have been written or not: they are rejected, and the
 * engine repeats them with the same token.
 */
function runInWorker(settings: FileSettings, wake: Wake): CallExecutor {
  const watched = new Set<string>();
  const reader = createReplayReader(settings);
  const thread = createWorkerThread<readonly StoreCall[], CallReply, FromWorker>({
    start: (gate) =>
      new Worker(new URL("./sqlite/worker.js", import.meta.url), {
        workerData: { settings, gate } satisfies WorkerData,
        name: "nevertwice-sqlite",
      }),
    firstMessage: () => (watched.size > 0 ? (["watch", [...watched]] satisfies ToWorker) : undefined),
    onNews: ([kind, body]) => (kind === "wake" ? wake(body) : reader.allow(body)),
    onEnd() {
      reader.close();
      // No thread watches the records now, so every waiter checks its record itself.
      wake([...watched]);
    },
  });
  return {
    async run(calls) {
      const reply = restoreErrors(await thread.run(calls));
      for (const [index, [kind]] of calls.entries())
        if (kind === "claim") reader.learn(isReplay(reply.answers[index]));
      return reply;
    },
    replay: reader.claim,
    replayNow: reader.claimNow,
    watch(id) {
      watched.add(id);
      thread.post(["watch", [id]] satisfies ToWorker);
    },
    unwatch(id) {
      watched.delete(id);
      thread.post(["unwatch", id] satisfies ToWorker);
    },
    close() {
      reader.close();
      return thread.close();
    },
  };
}

/**
 * An error that concerns the whole store rejects every call of the message. Any other error may be caused by a single call:
 * it is thrown, and the batch repeats each call separately.
 */
function toRefusals(error: unknown, calls: readonly StoreCall[]): CallReply {
  if (!isNevertwiceError(error) || error.code === "store-full") throw error;
  return { answers: calls.map(() => ["failed", error]), outcomes: [] };
}

function isReplay(answer: CallReply["answers"][number]): boolean {
  return Array.isArray(answer) && answer[0] === "completed";
}
