/** The SQLite database of a Durable Object, in the shape of the connections that the SQLite store uses. */
import type { SqliteDatabase, SqliteStatement, SqlValue } from "../sqlite/client.ts";
import type { SqlStorage } from "./bindings.ts";

/** Nothing is prepared ahead: the object's storage keeps its own cache of prepared statements. */
export function objectDatabase(sql: SqlStorage): SqliteDatabase {
  function run(query: string, values: readonly SqlValue[]): unknown[][] {
    try {
      return [...sql.exec(query, ...values).raw()];
    } catch (error) {
      throw withCode(error);
    }
  }

  function prepare(query: string): SqliteStatement {
    return {
      get: (...values) => run(query, values).map(fromStorage)[0],
      all: (...values) => run(query, values).map(fromStorage),
      run(...values) {
        run(query, values);
        return {
          // Read only by those who want to know.
          get changes() {
            return Number(run("SELECT changes()", [])[0]?.[0]);
          },
        };
      },
    };
  }

  return { exec: (text) => void run(text, []), prepare };
}

function fromStorage(row: unknown[]): unknown[] {
  return row.map((value) => (value instanceof ArrayBuffer ? new Uint8Array(value) : value));
}

/** The storage reports SQLite's result code only at the end of its message. */
function withCode(error: unknown): unknown {
  const code = /\bSQLITE_[A-Z]+/.exec(String(error))?.[0];
  return code === undefined ? error : Object.assign(new Error(String(error), { cause: error }), { code });
}
