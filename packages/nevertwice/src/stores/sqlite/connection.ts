/** One connection in use by the store, whoever opened it: schema, statements and clock, ready to run calls. */
import type { Clock } from "../../core/clock.ts";
import * as sql from "../sqlite-sql.ts";
import type { Call, Reply } from "./calls.ts";
import { lookUp, prepareQuery, type SqliteDatabase } from "./driver.ts";
import { toStoreError } from "./failures.ts";
import { migrate } from "./schema.ts";
import type { Facts } from "./settings.ts";
import { runCalls } from "./steps.ts";
import { createTable, type Table } from "./table.ts";

export interface Connection {
  readonly table: Table;
  run(calls: readonly Call[]): Reply;
}

export interface ConnectOptions {
  readonly clock: Clock;
  /** Takes a step that may have to wait for the write lock. */
  waiting<Result>(step: () => Result): Result;
}

/** Fails, in the store's words, where the database cannot be used. */
export function connect(database: SqliteDatabase, { clock, waiting }: ConnectOptions): Connection {
  try {
    waiting(() => migrate(database));
    const table = createTable(database, waiting);
    const ground = { table, clock, readFacts: () => readFacts(database) };
    return { table, run: (calls) => runCalls(ground, calls) };
  } catch (error) {
    throw toStoreError(error);
  }
}

function readFacts(database: SqliteDatabase): Facts {
  const main = prepareQuery(database, sql.DATABASE_LIST)
    .all()
    .find(([, name]) => name === "main");
  return {
    version: String(lookUp(database, sql.VERSION)),
    journalMode: String(lookUp(database, sql.JOURNAL_MODE)),
    synchronous: Number(lookUp(database, sql.SYNCHRONOUS)),
    isInMemory: !main?.[2],
    isExclusive: lookUp(database, sql.LOCKING_MODE) === "exclusive",
    isFlushedToDisk: process.platform !== "darwin" || lookUp(database, sql.FULL_FSYNC) === 1,
  };
}
