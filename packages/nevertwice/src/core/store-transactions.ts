/**
 * What a store offers for transactions of the application: its statements for one record, to be run on a connection of the
 * application, so that the work and the completion of its record commit together. A store without it cannot do that.
 */

import type { ClaimAnswer, ClaimRequest, CompleteRequest, KeepStepRequest, Store } from "./store.ts";

/** What is stored when the work has ended. */
export type AttemptEnd = Pick<CompleteRequest, "outcome" | "retentionMs">;

/** What is stored when a step of the work has ended. The work goes on, so the record stays pending. */
export interface StepEnd {
  readonly step: string;
  readonly outcome: string;
}

/** What the last statement of a transaction writes to the record. */
export type TransactionWrite = AttemptEnd | StepEnd;

/** A statement that a driver may prepare once for each connection. */
export interface PreparableStatement {
  /** The statement with its values as literals: query builders have no common form of parameters. */
  toText(): string;
  /** Names the text, so that two texts never share a name on a connection. */
  readonly name: string;
  /** The statement with `$1`, `$2` and so on, and the values for them. */
  readonly prepared: string;
  readonly values: readonly string[];
  /** The text that runs the statement once a connection has prepared it by its name. */
  toExecution(): string;
  /**
   * All statements that may follow in the same transaction, this one included: a driver prepares them together. Empty if the
   * store must not prepare statements.
   */
  readonly family: readonly Pick<PreparableStatement, "name" | "prepared">[];
}

/** Runs one statement in the application's transaction. Returns the first column of the first row as text, if there is one. */
export type RunText = (statement: string | PreparableStatement) => Promise<string | undefined>;

/**
 * Runs the last statement of a transaction. If it `commits`, COMMIT is sent in the same message, which saves a round trip:
 * then a statement after which the transaction must not commit has to fail.
 */
export interface LastRun {
  readonly run: RunText;
  readonly commits: boolean;
}

export interface LockRequest {
  readonly id: string;
  readonly token: string;
  /** After this time the server ends the transaction, where it can. */
  readonly transactionMs: number;
}

/** `none`: the server of this transaction has no such record, or another attempt owns it. */
export type LockAnswer = { readonly status: "locked"; readonly mark: string } | { readonly status: "none" };

/**
 * `completed`: the record is completed, or the step is kept; `lost`: this token does not own the record, or the step was kept
 * before; `left`: the work ended the transaction in which the record was locked, so a part of it has committed by itself.
 */
export type CompletionAnswer = "completed" | "lost" | "left";

/**
 * The record after a COMMIT without an answer, read after its lock was free. `completed`: what the transaction was to write
 * is there. `pending`: the token still owns the record, which lacks it. `locked`: the lock was not free in time, so the
 * transaction may still commit.
 */
export type SettledState = "completed" | "pending" | "lost" | "locked";

/** `repeat`: a conflict with another transaction; the same transaction may succeed. `rolled-back`: certainly nothing was written. */
export type CommitFailure = "repeat" | "rolled-back" | "ambiguous";

/** A store whose statements can be run on any connection to its database. */
export interface StatementTransactions {
  readonly kind: "statements";
  /** The clients whose connections the store itself uses, once for each connection that it needs at any time. */
  readonly clients: readonly unknown[];
  /** Locks the record that the token owns. While it is locked, no other claim takes it over. */
  lock(run: RunText, request: LockRequest): Promise<LockAnswer>;
  /** Completes the record in the transaction of this lock. `mark` is undefined for a record that `claim` claimed in it. */
  complete(last: LastRun, request: CompleteRequest, mark: string | undefined): Promise<CompletionAnswer>;
  /** Keeps a step of the pending record in the transaction of this lock. */
  keepStep(last: LastRun, request: KeepStepRequest, mark: string): Promise<CompletionAnswer>;
  /** Throws `options-invalid` if the connection has no open transaction, where the server would not notice by itself. */
  requireOpen?(run: RunText): Promise<void>;
  /** Claims in the application's transaction. */
  claim(run: RunText, request: ClaimRequest): Promise<ClaimAnswer>;
  /** Reads the record on the store's own client, after its lock is free. Waits up to `waitMs` for that. */
  settle(request: {
    readonly id: string;
    readonly token: string;
    readonly waitMs: number;
    /** The step that the transaction was to keep. Undefined if it was to complete the record. */
    readonly step?: string | undefined;
  }): Promise<SettledState>;
  /** Whether the transaction is still the one in which the record was locked with this mark. */
  isSame(run: RunText, mark: string): Promise<boolean>;
  /** Puts back what `lock` changed for the whole session, before COMMIT or ROLLBACK. */
  restore?(run: RunText): Promise<void>;
  /** Ends the connection of the transaction on the server, which rolls it back. */
  endConnection(run: RunText): Promise<unknown>;
  /** What an error of a statement, or of COMMIT, says about the transaction. */
  judgeFailure(error: unknown): CommitFailure;
  /** Wakes the waiters of a record that was completed in a transaction of the application. */
  announce(id: string): void;
}

/** A store that lives on the application's own connection, where everything is synchronous. */
export interface ConnectionTransactions {
  readonly kind: "connection";
  /** Whether this is the connection that the store uses. */
  isConnection(database: unknown): boolean;
  /**
   * Runs `work` in one transaction with what it returns for the record. Rolls back and throws what it throws. `left`: the
   * work ended the transaction itself.
   */
  transact(
    request: { readonly id: string; readonly token: string },
    work: () => TransactionWrite,
  ): LockAnswer["status"] | "left";
  /** The same steps inside a transaction that the application has open. */
  claim(request: ClaimRequest): ClaimAnswer;
  complete(request: CompleteRequest): boolean;
}

export type StoreTransactions = StatementTransactions | ConnectionTransactions;

/** A store that can take part in transactions of the application. */
export interface TransactionalStore extends Store {
  /** How the store takes part in them. */
  readonly transactions: StoreTransactions;
}

/** Undefined for a store whose records are not in the application's database. */
export function storeTransactions(store: Store): StoreTransactions | undefined {
  return (store as Partial<TransactionalStore>).transactions;
}
