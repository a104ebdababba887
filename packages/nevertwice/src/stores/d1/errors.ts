/** What the errors of D1 mean to the caller. D1 reports all of them as text. */
import { type DriverErrorTable, translateDriverError } from "../driver-errors.ts";

const MIGRATE =
  "its tables are missing or lack a column: call migrate() once, or apply migrationSql() with wrangler d1 migrations";

const TABLE: DriverErrorTable = {
  rules: [
    { text: /no such (?:table|column)|has no column named/, code: "store-unsafe", says: `D1: ${MIGRATE}` },
    { text: /SQLITE_TOOBIG|too big/, code: "options-invalid", says: "D1: a string is longer than D1 stores" },
    {
      text: /SQLITE_FULL|maximum DB size|exceeded .*(?:storage|size)/i,
      code: "store-full",
      says: "D1: the database has reached its size limit",
    },
    {
      text: /SQLITE_(?:CORRUPT|NOTADB|CONSTRAINT|READONLY|AUTH|MISMATCH|ERROR)/,
      code: "store-unsafe",
      says: "D1 refused a statement of the store; its tables may have been changed by hand",
    },
  ],
  codesOf: () => [],
  textOf: String,
  // Overloaded, reset, timed out, or the network failed: whether the step was taken is not known.
  otherwise: () => ({ code: "unavailable", says: "D1 did not answer" }),
};

export function toStoreError(error: unknown): unknown {
  return translateDriverError(error, TABLE);
}
