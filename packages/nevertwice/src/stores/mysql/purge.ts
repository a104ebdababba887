/** Removes expired records: finds some without a lock, and deletes those of them that are still expired. */
import type { Store } from "../../core/store.ts";
import * as sql from "../mysql-sql.ts";
import { toStoreError } from "./errors.ts";
import type { StatementRunner } from "./statement-runner.ts";
import { readText } from "./values.ts";

/** The most records that one purge statement removes; the caller purges again while there are more. */
const MAX_PURGED = 1_000;
/**
 * With a backlog, each purge takes one of so many parts of what it finds, at random: several processes that find the same
 * records seldom delete the same ones, of which the second would wait for the locks of the first.
 */
const PARTS = 4;

/**
 * Each purge continues where the last one has begun to find records, until nothing is left: it need not step over the records
 * that wait for a decision, nor over the deleted ones that an old transaction keeps the server from cleaning up.
 */
export function createPurge(
  statements: Pick<StatementRunner, "rows" | "change">,
  ready: (signal: AbortSignal | undefined) => Promise<void>,
): Store["purge"] {
  let from = 0n;
  return async (limit, { signal } = {}) => {
    await ready(signal);
    const count = Math.min(limit, MAX_PURGED);
    const rows = await statements.rows(sql.expiredSql(from, count * PARTS), signal);
    const [first] = rows;
    const hasBacklog = rows.length === count * PARTS;
    const more = rows.length > count || from > 0n;
    from = hasBacklog && first !== undefined ? BigInt(readText(first, "kept_until")) : 0n;
    if (rows.length === 0) return { removed: 0, more };
    const start = hasBacklog ? Math.floor(Math.random() * PARTS) * count : 0;
    const ids = rows.slice(start, start + count).map((row) => readText(row, "id"));
    try {
      return { removed: (await statements.change(sql.purgeSql(ids), signal)).affectedRows, more };
    } catch (error) {
      throw toStoreError(error);
    }
  };
}
