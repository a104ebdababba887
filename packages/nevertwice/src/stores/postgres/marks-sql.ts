/** The mark of a record that a process waits for (`marks.ts` says when it is set). */
import { input, LOCK_LIMIT, UNFLUSHED } from "./record-sql.ts";

/**
 * Marks the pending records with the ids of the array `$1`. Changes nothing if a record is marked, has ended, or is locked.
 * Answers rows of (position; `awaited`, `ended` or `locked`). A crash of the server that loses the mark also ends the
 * connection that listens, and then every waiter claims again; so the commit need not be on disk.
 */
export function markSql(records: string): string {
  return `WITH ${input({ id: "text" }, [LOCK_LIMIT, UNFLUSHED])}, look AS MATERIALIZED (
    SELECT input.id, position, state, awaited FROM input
    LEFT JOIN LATERAL (SELECT state, awaited FROM ${records} WHERE id = input.id LIMIT 1) AS r ON true
  ), locked AS MATERIALIZED (
    SELECT unmarked.id, position, r.*
    FROM (SELECT id, position FROM look WHERE state = 'pending' AND awaited IS NOT TRUE ORDER BY id OFFSET 0) AS unmarked
    CROSS JOIN LATERAL (
      SELECT ctid AS place, CASE state WHEN 'pending' THEN 'write' ELSE 'no' END AS verdict
      FROM ${records} WHERE id = unmarked.id FOR UPDATE SKIP LOCKED
    ) AS r
  ), marked AS (
    UPDATE ${records} AS r SET awaited = true FROM locked AS d
    WHERE r.ctid = d.place AND r.id = d.id AND d.verdict = 'write'
    RETURNING d.position
  )
  SELECT position::text, CASE
      WHEN state IS DISTINCT FROM 'pending' THEN 'ended'
      WHEN awaited OR position IN (SELECT position FROM marked) THEN 'awaited'
      WHEN position IN (SELECT position FROM locked) THEN 'ended'
      ELSE 'locked'
    END
  FROM look`;
}
