/** `guard.transaction`: checks that store and database fit together, and chooses how the transaction runs. */
import type { DatabaseHandle, SqliteConnection } from "../core/database-handle.ts";
import { NevertwiceError } from "../core/errors.ts";
import { isFunction } from "../core/option-checks.ts";
import type { RunRequest } from "../core/request.ts";
import { toError } from "../core/result.ts";
import type { Store } from "../core/store.ts";
import { storeTransactions } from "../core/store-transactions.ts";
import { transactionDoor } from "../core/transaction-door.ts";
import type { TransactionRunner } from "../core/transaction-port.ts";
import type { TransactionDatabase } from "./database.ts";
import { refuseNested } from "./nesting.ts";
import { toDatabase } from "./recognition.ts";
import { createConnectionRunner, isConnection } from "./sqlite.ts";
import { createTransactionRunner, type TransactionWork } from "./transaction-runner.ts";

/** Runs `work` and the completion of its record in one transaction. Returns the value, or throws as `guard.run` does. */
export async function transaction<T>(
  guard: object,
  request: RunRequest,
  database: DatabaseHandle,
  work: TransactionWork<never, T>,
): Promise<T> {
  isFunction("the work", work);
  const door = transactionDoor(guard, "guard.transaction(request, database, work)");
  const runner = runnerFor(door.store, database, work as TransactionWork<unknown, T>);
  const result = await door.tryRun<T>(request, runner);
  if (result.status === "ran" || result.status === "replayed") return result.value;
  throw toError(result, true);
}

/** Throws `options-invalid` for a database in which the store's records cannot be. Engines get it as a port. */
export function runnerFor(
  store: Store,
  handle: unknown,
  work: TransactionWork<unknown, unknown>,
): TransactionRunner {
  const transactions = storeTransactions(store);
  const database = toDatabase(handle);
  refuseNested(isConnection(database) ? database : (database as TransactionDatabase<unknown>).source);
  if (transactions === undefined)
    throw invalid(
      "this store cannot share a transaction: its records are not in the application's database. Use postgresStore, mysqlStore, or sqliteStore({ database }) with the application's connection.",
    );
  if (transactions.kind === "connection") {
    if (!isConnection(database) || !transactions.isConnection(database))
      throw invalid(
        "the database is not the connection of the store: hand the same object to sqliteStore({ database }) and to guard.transaction.",
      );
    return createConnectionRunner(transactions, database as SqliteConnection, work);
  }
  if (isConnection(database))
    throw invalid("the database is a SQLite connection, and the store's records are in another database.");
  return createTransactionRunner(transactions, database, work);
}

function invalid(message: string): NevertwiceError {
  return new NevertwiceError("options-invalid", message);
}
