/** One connection in use by the store, whoever opened it: schema, statements and clock, ready to run calls. */
import type { Clock } from "../../core/clock.ts";
import { SCHEMA } from "../sqlite-sql.ts";
import type { Call, Reply } from "./calls.ts";
import type { SqliteDatabase } from "./driver.ts";
import { readFacts } from "./facts.ts";
import { toStoreError } from "./failures.ts";
import { migrate } from "./schema.ts";
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
    waiting(() => migrate(database, SCHEMA));
    const table = createTable(database, waiting);
    const ground = { table, clock, readFacts: () => readFacts(database) };
    return { table, run: (calls) => runCalls(ground, calls) };
  } catch (error) {
    throw toStoreError(error);
  }
}
