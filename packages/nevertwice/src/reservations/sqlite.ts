/**
 * Reservations in one SQLite file. `{ file }` opens it in a worker thread, in WAL mode and flushed at every commit; several
 * processes of one machine may share it. `{ database }` uses a connection that the caller opened, in the caller's thread. A
 * group of actions is one transaction and one flush. A guard's store may use the same file.
 */
import { Worker } from "node:worker_threads";
import { systemClock } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";
import type { FileSettings, SqliteDatabaseOptions, SqliteFileOptions } from "../stores/sqlite/client.ts";
import { type ConnectionCall, callInThisThread } from "../stores/sqlite/connection-calls.ts";
import { judgeDurability } from "../stores/sqlite/durability.ts";
import { restoreError } from "../stores/sqlite/errors.ts";
import { type SqliteSource, toSource } from "../stores/sqlite/source.ts";
import {
  createWorkerThread,
  type ErrorOnEnd,
  type WorkerData,
  type WorkerThread,
} from "../stores/sqlite/worker-thread.ts";
import type { Answer } from "./answer.ts";
import { type ConnectionMethod, connect, type ReservationConnection } from "./sqlite/connection.ts";
import { type ConnectionActions, MayBeWritten, NotWritten, type ReservationStore } from "./store.ts";

export type {
  SqliteDatabase,
  SqliteDatabaseOptions,
  SqliteFileOptions,
  SqliteStatement,
  SqlValue,
} from "../stores/sqlite/client.ts";
/** The file of the database, or the connection that you have opened. */
export type SqliteReservationsOptions = SqliteFileOptions | SqliteDatabaseOptions;

/** If the worker ended during a transaction, it is not known whether that transaction was committed. */
const doubtIfBegun: ErrorOnEnd = (error, hasBegun) => (hasBegun ? new MayBeWritten([], error) : error);

/**
 * Keeps reservations in a SQLite file, or through a connection that you have opened. A problem with the file is reported by the first call.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import { createReservations, WINDOWS } from "nevertwice/reservations";
 * import { sqliteReservations } from "nevertwice/reservations/sqlite";
 *
 * const store = sqliteReservations({ file: "./reservations.db" });
 * const reservations = createReservations({ store, windowMs: WINDOWS.clientReplay });
 * console.log(await reservations.resource("room 307"));
 * ```
 */
export function sqliteReservations(options: SqliteReservationsOptions): ReservationStore {
  const source = toSource(options, "for reservations in memory use memoryReservations()");
  const { clock } = { clock: systemClock, ...source };
  const runner: ReservationRunner =
    "settings" in source ? runInWorker(source.settings) : runInThisThread(source);
  let closing: Promise<void> | undefined;

  async function call<Name extends ConnectionMethod>(
    method: Name,
    values: Parameters<ReservationConnection[Name]>,
    epitaph?: ErrorOnEnd,
  ): Promise<ReturnType<ReservationConnection[Name]>> {
    if (closing !== undefined) throw new NevertwiceError("unavailable", "the SQLite store is closed.");
    return (await runner.run([method, values], epitaph)) as ReturnType<ReservationConnection[Name]>;
  }

  return {
    async transact(group, rules) {
      const { answers, doubt } = await call("transact", [group, rules], doubtIfBegun).catch((error) => {
        throw error instanceof MayBeWritten ? error : new NotWritten(error);
      });
      if (doubt !== undefined) throw new MayBeWritten(answers, restoreError(doubt));
      return answers;
    },
    inside: runner.inside,
    get: (namespace, id) => call("get", [namespace, id]),
    commitments: (query) => call("commitments", [query]),
    resources: (query) => call("resources", [query]),
    keys: (query) => call("keys", [query]),
    events: (query) => call("events", [query]),
    checkpoints: (query) => call("checkpoints", [query]),
    elapsed: (namespace, limit, after) => call("elapsed", [namespace, limit, after]),
    purge: (limit) => call("purge", [limit]),
    // The worker reads the same clock of this machine.
    now: async () => clock.now(),
    settings: async () => judgeDurability(await call("facts", [])),
    refusesAvailable:
      "settings" in source
        ? "with { file } the transactions run in a worker thread, and a function cannot be sent there; open the file yourself and pass { database }"
        : undefined,
    close() {
      closing ??= runner.close();
      return closing;
    },
  };
}

interface ReservationRunner
  extends Pick<WorkerThread<ConnectionCall<ConnectionMethod>, unknown>, "run" | "close"> {
  /** Undefined in a worker, whose connection is not the application's. */
  readonly inside?: ConnectionActions | undefined;
}

function runInWorker(settings: FileSettings): ReservationRunner {
  return createWorkerThread({
    start: (gate) =>
      new Worker(new URL("./sqlite/worker.js", import.meta.url), {
        workerData: { settings, gate } satisfies WorkerData,
        name: "nevertwice-reservations",
      }),
  });
}

/** The connection stays open on close. */
function runInThisThread(source: Extract<SqliteSource, { readonly clock: unknown }>): ReservationRunner {
  const call = callInThisThread(connect, source);
  return {
    run: async (called) => call(called),
    inside: {
      kind: "connection",
      isConnection: (given) => given === source.database,
      act: (request, rules) => call(["act", [request, rules]]) as Answer,
    },
    close: async () => {},
  };
}
