/**
 * The outbox in one SQLite file. `{ database }` uses the connection of the application, in its thread: `send` needs it.
 * `{ file }` opens the file in a worker thread, for relays and operators.
 */
import { Worker } from "node:worker_threads";
import { NevertwiceError } from "../core/errors.ts";
import type { SqliteDatabase, SqliteDatabaseOptions, SqliteFileOptions } from "../stores/sqlite/client.ts";
import { type ConnectionCall, callInThisThread } from "../stores/sqlite/connection-calls.ts";
import { type SqliteSource, toSource } from "../stores/sqlite/source.ts";
import { createWorkerThread, type WorkerData } from "../stores/sqlite/worker-thread.ts";
import { connect, createInsert, type OutboxConnection, type OutboxMethod } from "./sqlite/connection.ts";
import type { OutboxStore } from "./store.ts";

interface OutboxCallRunner {
  run(call: ConnectionCall<OutboxMethod>): Promise<unknown>;
  close(): Promise<void>;
}

export function sqliteOutbox(options: SqliteFileOptions | SqliteDatabaseOptions): OutboxStore {
  const source = toSource(options, "an outbox needs a file that outlives the process");
  const runner = "settings" in source ? runInWorker(source) : runInThisThread(source);
  let closing: Promise<void> | undefined;

  async function call<Name extends OutboxMethod>(
    method: Name,
    ...values: Parameters<OutboxConnection[Name]>
  ): Promise<ReturnType<OutboxConnection[Name]>> {
    if (closing !== undefined) throw new NevertwiceError("unavailable", "the outbox is closed.");
    return (await runner.run([method, values])) as ReturnType<OutboxConnection[Name]>;
  }

  return {
    insertText() {
      throw new NevertwiceError("options-invalid", "on SQLite, the transaction is the connection itself.");
    },
    insertOn: insertOn(source),
    claim: (request) => call("claim", request),
    settle: (request) => call("settle", request),
    renew: (held, leaseMs) => call("renew", held, leaseMs),
    repair: (namespace) => call("repair", namespace),
    list: (namespace, query) => call("list", namespace, query),
    retry: (namespace, id) => call("retry", namespace, id),
    park: (namespace, id) => call("park", namespace, id),
    discard: (namespace, id) => call("discard", namespace, id),
    forget: (namespace, scope, limit) => call("forget", namespace, scope, limit),
    figures: (namespace) => call("figures", namespace),
    migrate: () => call("migrate"),
    close() {
      closing ??= runner.close();
      return closing;
    },
  };
}

function insertOn(source: SqliteSource): OutboxStore["insertOn"] {
  if ("settings" in source)
    return () => {
      throw new NevertwiceError(
        "options-invalid",
        "send needs an outbox that was created with { database }: one with { file } has a connection of its own, outside your transaction.",
      );
    };
  const insert = createInsert(source.database, source.clock);
  return (database, namespace, messages) => {
    if (database !== (source.database as SqliteDatabase))
      throw new NevertwiceError(
        "options-invalid",
        "the transaction is on another connection than the one that the outbox was created with.",
      );
    insert(namespace, messages);
  };
}

function runInWorker({ settings }: Extract<SqliteSource, { readonly settings: unknown }>): OutboxCallRunner {
  return createWorkerThread<ConnectionCall<OutboxMethod>, unknown>({
    start: (gate) =>
      new Worker(new URL("./sqlite/worker.js", import.meta.url), {
        workerData: { settings, gate } satisfies WorkerData,
        name: "nevertwice-outbox",
      }),
  });
}

/** The connection stays open on close. */
function runInThisThread(source: Extract<SqliteSource, { readonly clock: unknown }>): OutboxCallRunner {
  const call = callInThisThread(connect, source);
  return { run: async (called) => call(called), close: async () => {} };
}
