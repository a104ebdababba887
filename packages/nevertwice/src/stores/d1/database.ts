/** Runs batches on a D1 database. Each is one request to the primary and one transaction. */
import { NevertwiceError } from "../../core/errors.ts";
import type { D1Database, D1Result } from "./bindings.ts";
import { toStoreError } from "./errors.ts";

/** A statement and the values that are bound to it. */
export type BoundStatement = readonly [sql: string, ...values: unknown[]];

export interface BatchRunner {
  run(statements: readonly BoundStatement[]): Promise<readonly D1Result[]>;
  close(): void;
}

export function createBatchRunner(findDatabase: () => D1Database): BatchRunner {
  let isClosed = false;
  return {
    async run(statements) {
      if (isClosed) throw new NevertwiceError("unavailable", "the D1 store is closed.");
      const database = findDatabase();
      // Only the first request of a session goes to the primary for certain. So every batch is the first of a new one.
      const session = database.withSession?.("first-primary") ?? database;
      try {
        return await session.batch(
          statements.map(([sql, ...values]) => session.prepare(sql).bind(...values)),
        );
      } catch (error) {
        throw toStoreError(error);
      }
    },
    close() {
      isClosed = true;
    },
  };
}

/** The columns of the rows, in their order. */
export function toRows(result: D1Result | undefined): readonly (readonly unknown[])[] {
  return (result?.results ?? []).map((row) => Object.values(row as object));
}
