/**
 * Transactions on the SQLite connection that the store itself uses. Everything is synchronous: between BEGIN and COMMIT no
 * other call of the store can use the connection.
 */
import type { SqliteConnection } from "../core/database-handle.ts";
import { enqueueWithinSync } from "../core/enqueue.ts";
import { NevertwiceError } from "../core/errors.ts";
import type { ConnectionTransactions } from "../core/store-transactions.ts";
import type { TransactionRunner } from "../core/transaction-port.ts";
import { leftEnd, type TransactionWork } from "./transaction-runner.ts";

export function isConnection(value: unknown): value is SqliteConnection {
  const { exec, prepare } = (value ?? {}) as Partial<SqliteConnection>;
  return typeof exec === "function" && typeof prepare === "function";
}

/**
 * Throws `options-invalid` without an open transaction, where the driver says it: `node:sqlite` and better-sqlite3 have
 * different names for it.
 */
export function requireOpen(database: object, instead: string): void {
  const { isTransaction, inTransaction } = database as { isTransaction?: boolean; inTransaction?: boolean };
  if ((isTransaction ?? inTransaction) !== false) return;
  throw new NevertwiceError(
    "options-invalid",
    `the connection has no open transaction, so nothing was run: begin one first, or ${instead}.`,
  );
}

export function createConnectionRunner(
  transactions: ConnectionTransactions,
  database: SqliteConnection,
  work: TransactionWork<SqliteConnection, unknown>,
): TransactionRunner {
  return {
    async run({ id, token, attempt, encode }) {
      let isWorking = false;
      try {
        const status = transactions.transact({ id, token }, () => {
          isWorking = true;
          return encode(refusePromise(enqueueWithinSync(attempt, database, () => work(database, attempt))));
        });
        if (status === "left") return leftEnd(undefined);
        return status === "locked" ? { status: "committed" } : { status: "not-found" };
      } catch (error) {
        return isWorking ? { status: "threw", thrown: error } : { status: "failed", error };
      }
    },
  };
}

/** What a promise does later would run outside the transaction. */
export function refusePromise(value: unknown): unknown {
  if (typeof (value as { readonly then?: unknown } | null | undefined)?.then !== "function") return value;
  // The promise belongs to work that is refused. Its rejection is not the caller's concern.
  (value as Promise<unknown>).then(ignore, ignore);
  throw new NevertwiceError(
    "options-invalid",
    "the work returned a promise, and a transaction of SQLite is synchronous: it was rolled back. Do the asynchronous part before the transaction.",
  );
}

function ignore(): void {}
