/** Puts many newer keys beside a record, in the tables of SQLite, D1 and Durable Objects. */
import { ALL_COLUMNS } from "../../../src/stores/sqlite-sql.ts";

/** More than a page of a list looks at. */
export const NEWER_KEYS = 12_000;

/** A statement that copies the record with this token under other ids and keys, each claimed later than the one before. */
export function newerKeysSql(token: string, key: string): string {
  const changed: Readonly<Record<string, string>> = {
    claimed_at: "claimed_at + n",
    parts: `replace(parts, '"${key}"', '"newer-' || n || '"')`,
  };
  return `INSERT INTO nevertwice_records (id, ${ALL_COLUMNS.join(", ")})
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${NEWER_KEYS})
    SELECT randomblob(32), ${ALL_COLUMNS.map((column) => changed[column] ?? column).join(", ")}
    FROM nevertwice_records JOIN numbers WHERE token = '${token}'`;
}
