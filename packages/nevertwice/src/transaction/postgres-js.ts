/** Transactions on the `sql` of postgres.js. */
import type { PostgresJsShape } from "../core/database-handle.ts";
import type { RunText } from "../core/store-transactions.ts";
import { firstText, plainText, type TransactionDatabase } from "./database.ts";

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

/** The server reads the bytes of a value in the encoding that the connection has set, and all encodings share these. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern is the whole of ASCII.
const ASCII = /^[\u0000-\u007f]*$/;

/** postgres.js prepares the statement once for each connection, unless the application has turned that off. */
export function runPostgresJs(tx: Pick<PostgresJsShape, "unsafe">): RunText {
  const { prepare = true } = (tx as { readonly options?: { readonly prepare?: boolean } }).options ?? {};
  return async (statement) => {
    const isText = typeof statement === "string" || !statement.values.every((value) => ASCII.test(value));
    const answer = isText
      ? tx.unsafe(plainText(statement))
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
