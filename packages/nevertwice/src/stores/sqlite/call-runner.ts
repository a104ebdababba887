/** Runs the calls of one message on a connection, in one transaction and in order. */
import type { Clock } from "../../core/clock.ts";
import { SCHEMA } from "../sqlite-sql.ts";
import { runEach, type SequenceContext } from "./call-sequence.ts";
import type { CallReply, StoreCall } from "./calls.ts";
import { createClaimedRows } from "./claimed-rows.ts";
import type { SqliteDatabase } from "./client.ts";
import { readSettings } from "./durability.ts";
import { isBusy, toStoreError } from "./errors.ts";
import { createRecordTable, type RecordTable } from "./records.ts";
import { migrate } from "./schema.ts";

export interface CallRunner {
  readonly table: RecordTable;
  /** Throws if the transaction failed as a whole; then nothing was written. */
  run(calls: readonly StoreCall[]): CallReply;
  /** Runs the calls in a transaction that is open on the connection. */
  runInside(calls: readonly StoreCall[]): CallReply;
}

export interface CallRunnerOptions {
  readonly clock: Clock;
  /** Nothing else uses the connection, so the runner may remember what it wrote (claimed-rows.ts). */
  readonly isAlone?: boolean;
  /** Runs a step that may have to wait for the write lock. */
  waiting<Result>(step: () => Result): Result;
}

/** Migrates the database and prepares its statements. Throws one of our errors if the database cannot be used. */
export function createCallRunner(database: SqliteDatabase, options: CallRunnerOptions): CallRunner {
  const { clock, waiting, isAlone = false } = options;
  try {
    waiting(() => migrate(database, SCHEMA));
    const table = createRecordTable(database, waiting);
    const claimed = isAlone ? createClaimedRows() : undefined;
    const context = { table, clock, claimed, readSettings: () => readSettings(database) };
    return { table, run: (calls) => runCalls(context, calls), runInside: (calls) => runEach(context, calls) };
  } catch (error) {
    throw toStoreError(error);
  }
}

interface RunnerContext extends SequenceContext {
  readonly table: RecordTable;
}

/**
 * The transaction starts as a reader. Its first write requests the write lock. SQLite grants the lock immediately or not at
 * all, and only if no other connection has written since the first read. So a message of replays takes no lock and flushes
 * nothing, and every write replaces exactly what was read. If SQLite refuses the lock, all calls run again under the lock.
 *
 * A reader judges records by the time before its first read. By a later time, a record that another process renewed in the
 * meantime would look lapsed. Under the write lock no other process renews anything, so the clock may advance.
 */
function runCalls(context: RunnerContext, calls: readonly StoreCall[]): CallReply {
  const { table, clock, claimed } = context;
  const startedAt = clock.now();
  try {
    return inTransaction(table.begin, { ...context, clock: { now: () => startedAt } });
  } catch (error) {
    if (!isBusy(error)) throw toStoreError(error);
  }
  try {
    return inTransaction(table.beginWriting, context);
  } catch (error) {
    throw toStoreError(error);
  }

  function inTransaction(begin: () => void, judgedBy: RunnerContext): CallReply {
    begin();
    try {
      claimed?.begin(table.dataVersion());
      const reply = runEach(judgedBy, calls);
      table.commit();
      return reply;
    } catch (error) {
      claimed?.clear();
      table.rollback();
      throw error;
    }
  }
}
