/**
 * A database in which transactions can run, as an adapter describes it. An adapter translates and decides nothing: it begins,
 * commits, rolls back, and runs a text in the transaction. `transaction-runner.ts` owns the control flow.
 */
import type { PreparableStatement, RunText } from "../core/store-transactions.ts";

/** What an adapter tells the library about a database: how to run a transaction on it. */
export interface TransactionDatabase<Tx> {
  /** What the application handed in. Two adapters with the same source use the same connections. */
  readonly source: object;
  /** After the transaction has ended, its object refuses statements. Without it, the connection is ended instead. */
  readonly refusesLateStatements?: boolean;
  /**
   * Begins a transaction, runs `body`, and commits if it resolves or rolls back if it rejects. If this rejects after `body`
   * has resolved, COMMIT failed. An adapter that can send COMMIT together with the last statement gives `body` a second way
   * to run one.
   */
  transact(body: TransactionBody<Tx>, limits: TransactionLimitsMs): Promise<unknown>;
}

/** What an adapter runs inside a transaction. */
export type TransactionBody<Tx> = (tx: Tx, run: RunText, runAndCommit?: RunText) => Promise<void>;

/** The time limits of a transaction. */
export interface TransactionLimitsMs {
  /** How long to wait for a connection, for adapters that must say it. */
  readonly waitMs: number;
  /** How long the transaction may take, in milliseconds. */
  readonly transactionMs: number;
}

/** The statement with its values, for drivers and query builders that cannot prepare it here. */
export function plainText(statement: string | PreparableStatement): string {
  return typeof statement === "string" ? statement : statement.toText();
}

/** Where drivers keep their rows: `{ rows }`, `[rows, fields]`, or the rows themselves. */
export function firstText(answer: unknown): string | undefined {
  const rows = (answer as { readonly rows?: unknown } | null)?.rows ?? answer;
  if (!Array.isArray(rows)) return undefined;
  const row: unknown = Array.isArray(rows[0]) ? rows[0][0] : rows[0];
  // An array of rows of arrays looks like `[rows, fields]`: its first element is then the value itself.
  const value: unknown = typeof row === "object" && row !== null ? Object.values(row)[0] : row;
  return value === undefined || value === null ? undefined : String(value);
}

/** How long to wait for ROLLBACK before the connection is closed, which rolls back as well. */
export const ROLLBACK_MS = 1_000;

/** Settles as `answer` does, or rejects after `ms`: a connection that does not answer must not be kept for ever. */
export function answerWithin<T>(ms: number, answer: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`the database did not answer within ${ms} ms`)), ms);
    answer.then(
      (value) => {
        clearTimeout(timer);
        resolve(value);
      },
      (error: unknown) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}
