/**
 * How `transaction/` reaches the engine of a guard that it is handed. It is stored on the guard under a symbol, since the
 * methods of a guard are for users.
 */
import { requireGuard } from "./argument-checks.ts";
import type { KeepLimits } from "./attempt.ts";
import type { Call, RunRequest } from "./request.ts";
import type { RunResult } from "./result.ts";
import type { Store } from "./store.ts";
import type { TransactionRunner } from "./transaction.ts";

export interface TransactionDoor {
  readonly store: Store;
  /** Claims, and runs the work in a transaction. Every expected ending is a value, as for `tryRun`. */
  tryRun<T>(request: RunRequest, runner: TransactionRunner): Promise<RunResult<T>>;
  /** Checks a request for a claim in the application's own transaction. */
  prepare(request: RunRequest): Call;
  limits(call: Call): KeepLimits;
  newToken(): string;
}

/** A registered symbol, so that all copies of this package share it. */
export const TRANSACTION_DOOR: unique symbol = Symbol.for("nevertwice.transaction") as never;

/** Throws `options-invalid` for an object that is not a guard. `usage` shows the call with the guard in its place. */
export function transactionDoor(guard: unknown, usage: string): TransactionDoor {
  requireGuard(guard, usage);
  return (guard as { readonly [TRANSACTION_DOOR]: TransactionDoor })[TRANSACTION_DOOR];
}
