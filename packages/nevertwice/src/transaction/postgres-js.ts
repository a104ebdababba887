/** Transactions on the `sql` of postgres.js. */
import type { RunText } from "../core/store-transactions.ts";
import { firstText, type TransactionDatabase } from "./database.ts";

/** The members of `sql` that are used here. `Transaction` is the `sql` inside `begin`. */
// biome-ignore lint/suspicious/noExplicitAny: a sql of any types has this shape.
export interface PostgresJsShape<Transaction = any> {
  unsafe(text: string, values?: string[], options?: { prepare?: boolean }): PromiseLike<unknown>;
  begin(options: string, work: (sql: Transaction) => unknown): Promise<unknown>;
}

export function isPostgresJs(value: unknown): value is PostgresJsShape {
  const { unsafe, begin } = (value ?? {}) as Partial<PostgresJsShape>;
  return typeof value === "function" && typeof unsafe === "function" && typeof begin === "function";
}

export function postgresJsDatabase<Transaction>(
  sql: PostgresJsShape<Transaction>,
): TransactionDatabase<Transaction> {
  return {
    source: sql,
    refusesLateStatements: true,
    transact: (body) =>
      sql.begin("", async (tx) => {
        let isOver = false;
        const ending = { isEnded: false };
        try {
          const run = runPostgresJs(tx as PostgresJsShape);
          await body(refusingAfter(ending, tx), async (statement) => {
            try {
              return await run(statement);
            } catch (error) {
              isOver = isConnectionOver(error);
              throw error;
            }
          });
        } catch (error) {
          // The driver would send ROLLBACK on the lost connection and throw an error that no caller can catch. `begin`
          // rejects by itself when the connection closes.
          if (isOver || isConnectionOver(error)) await new Promise<never>(() => {});
          throw error;
        } finally {
          ending.isEnded = true;
        }
      }),
  };
}

/** postgres.js prepares the statement once for each connection, unless the application has turned that off. */
export function runPostgresJs(tx: Pick<PostgresJsShape, "unsafe">): RunText {
  const { prepare = true } = (tx as { readonly options?: { readonly prepare?: boolean } }).options ?? {};
  return async (statement) => {
    const answer =
      typeof statement === "string"
        ? tx.unsafe(statement)
        : tx.unsafe(statement.prepared, [...statement.values], { prepare });
    return firstText([...((await answer) as unknown[])]);
  };
}

/**
 * The same `sql`, until the transaction has ended. postgres.js itself would run a later statement on the same connection,
 * outside any transaction.
 */
function refusingAfter<Transaction>(ending: { readonly isEnded: boolean }, tx: Transaction): Transaction {
  const check = () => {
    if (ending.isEnded) throw new Error("the transaction of this sql has ended");
  };
  return new Proxy(tx as object, {
    apply(target, self, args) {
      check();
      return Reflect.apply(target as () => unknown, self, args);
    },
    get(target, name) {
      check();
      return Reflect.get(target, name);
    },
  }) as Transaction;
}

/** After this error, the connection answers no further statement. */
function isConnectionOver(error: unknown): boolean {
  const { code, severity_local, severity } = (error ?? {}) as Record<string, unknown>;
  return /^CONNECTION_/.test(String(code)) || severity === "FATAL" || severity_local === "FATAL";
}
