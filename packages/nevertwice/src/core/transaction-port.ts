/**
 * How core has work run in transactions of the application's database. `transaction/` implements it, since core knows no
 * database; a guard hands it to its engine.
 */
import type { Timer } from "./clock.ts";
import type { Store } from "./store.ts";
import type { TransactionWrite } from "./store-transactions.ts";
import type { Attempt } from "./work.ts";

/** Runs the work and the write of its record in one transaction. `transaction/` implements it for each kind of database. */
export interface TransactionRunner {
  run(claimed: ClaimedAttempt): Promise<TransactionEnd>;
}

/** Throws `options-invalid` for a database in which the records of the store cannot be. */
export type CreateTransactionRunner = (
  store: Store,
  database: unknown,
  work: (tx: unknown, attempt: Attempt) => unknown,
) => TransactionRunner;

/** An attempt with its claim, as the runner gets it. */
export interface ClaimedAttempt {
  readonly timer: Timer;
  readonly random: () => number;
  readonly id: string;
  readonly operation: string;
  readonly token: string;
  readonly attempt: Attempt;
  /** How long the transaction may take, and how long to wait for a connection or for an answer about its end. */
  readonly transactionMs: number;
  readonly waitMs: number;
  /** Encodes what the work returned, for the record. Never throws. */
  encode(value: unknown): TransactionWrite;
  /** The transaction ran out of time. */
  expire(): void;
  /** Gives the claim a new lease for another transaction. False if the claim is lost. */
  renew(): Promise<boolean>;
}

/** How the transaction ended. */
export type TransactionEnd =
  | { readonly status: "committed" }
  /** The work threw, or one of its statements made COMMIT fail. The transaction is rolled back. */
  | { readonly status: "threw"; readonly thrown: unknown }
  /** The transaction is rolled back for a reason outside the work, or never began. */
  | { readonly status: "failed"; readonly error: unknown }
  /** The record was not found in the transaction's database, so nothing was run. */
  | { readonly status: "not-found" }
  /** Another attempt owned the record when the work had ended. The transaction is rolled back. */
  | { readonly status: "lost" }
  /** Whether the work's effect is committed is not known. */
  | { readonly status: "unknown"; readonly cause: unknown };
