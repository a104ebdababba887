/**
 * The table and the statements of the outbox on SQLite. Times are microseconds. Only one transaction writes at a time, so no
 * row is locked here; otherwise the steps are those of the other databases.
 */
import type { SqliteSchema } from "../stores/sqlite/schema.ts";
import { MAX_COUNTED, MAX_DELAY_MS, REPAIR_MARGIN_MS } from "./store.ts";

export const SCHEMA: SqliteSchema = {
  table: "nevertwice_outbox_schema",
  migrations: [
    `CREATE TABLE nevertwice_outbox (
       seq INTEGER PRIMARY KEY AUTOINCREMENT,
       id TEXT NOT NULL,
       namespace TEXT NOT NULL,
       scope TEXT NOT NULL,
       topic TEXT NOT NULL,
       key TEXT,
       content TEXT NOT NULL,
       created_at INTEGER NOT NULL,
       attempts INTEGER NOT NULL DEFAULT 0,
       due_at INTEGER,
       token TEXT,
       parked_at INTEGER,
       last_error TEXT
     );
     CREATE INDEX nevertwice_outbox_id ON nevertwice_outbox (id);
     CREATE INDEX nevertwice_outbox_due ON nevertwice_outbox (namespace, due_at, seq);
     CREATE INDEX nevertwice_outbox_key ON nevertwice_outbox (namespace, key, seq) WHERE key IS NOT NULL;
     CREATE INDEX nevertwice_outbox_parked ON nevertwice_outbox (namespace, seq) WHERE parked_at IS NOT NULL;
     CREATE INDEX nevertwice_outbox_scope ON nevertwice_outbox (namespace, scope) WHERE scope <> '';
     CREATE TABLE nevertwice_outbox_schema (schema_version INTEGER NOT NULL);
     INSERT INTO nevertwice_outbox_schema VALUES (0);`,
  ],
};

export const INSERT = `INSERT INTO nevertwice_outbox (id, namespace, scope, topic, key, content, created_at, due_at)
  VALUES (?, ?, ?, ?, ?, ?, ?, 0)`;

/** (seq, whether an older row of its key is in front of it). */
const LOOKED = `seq, key IS NOT NULL AND EXISTS (
    SELECT 1 FROM nevertwice_outbox AS x INDEXED BY nevertwice_outbox_key
    WHERE x.namespace = c.namespace AND x.key = c.key AND x.seq < c.seq)
  FROM nevertwice_outbox AS c INDEXED BY nevertwice_outbox_due`;
/** (namespace, now, limit) */
export const LATE = `SELECT ${LOOKED} WHERE namespace = ? AND due_at > 0 AND due_at <= ? ORDER BY due_at, seq LIMIT ?`;
/** (namespace, limit) */
export const FRESH = `SELECT ${LOOKED} WHERE namespace = ? AND due_at = 0 ORDER BY due_at, seq LIMIT ?`;

export const PUT_BEHIND = "UPDATE nevertwice_outbox SET due_at = NULL, token = NULL WHERE seq = ?";
/** (due_at, token, seq) */
export const CLAIM =
  "UPDATE nevertwice_outbox SET due_at = ?, token = ?, attempts = attempts + 1 WHERE seq = ?";
export const READ =
  "SELECT seq, id, topic, key, content, created_at, attempts FROM nevertwice_outbox WHERE seq = ?";

export const DELETE_OWN = "DELETE FROM nevertwice_outbox WHERE seq = ? AND token = ?";
/** (due_at, error, seq, token) */
export const FAIL =
  "UPDATE nevertwice_outbox SET due_at = ?, token = NULL, last_error = ? WHERE seq = ? AND token = ?";
/** (parked_at, error, seq, token) */
export const PARK_OWN =
  "UPDATE nevertwice_outbox SET due_at = NULL, token = NULL, parked_at = ?, last_error = ? WHERE seq = ? AND token = ?";
export const RELEASE =
  "UPDATE nevertwice_outbox SET due_at = 1, token = NULL, attempts = max(0, attempts - 1) WHERE seq = ? AND token = ?";
/** (namespace, key) */
export const ADVANCE = `UPDATE nevertwice_outbox SET due_at = 1
  WHERE seq = (SELECT seq FROM nevertwice_outbox INDEXED BY nevertwice_outbox_key WHERE namespace = ? AND key = ? ORDER BY seq LIMIT 1)
    AND due_at IS NULL AND parked_at IS NULL`;
/** (due_at, seq, token) */
export const RENEW = "UPDATE nevertwice_outbox SET due_at = ? WHERE seq = ? AND token = ?";
/** (now, namespace, now) */
export const REPAIR = `UPDATE nevertwice_outbox SET due_at = ? + ${REPAIR_MARGIN_MS * 1_000}
  WHERE namespace = ? AND due_at > ? + ${(MAX_DELAY_MS + REPAIR_MARGIN_MS) * 1_000}`;

const ROW =
  "seq, id, topic, key, scope, created_at, attempts, due_at, token IS NOT NULL, parked_at, last_error FROM nevertwice_outbox";
/** (namespace, after, limit) */
export const LIST = `SELECT ${ROW} WHERE +namespace = ? AND seq > ? ORDER BY seq LIMIT ?`;
export const LIST_PARKED = `SELECT ${ROW} WHERE namespace = ? AND seq > ? AND parked_at IS NOT NULL ORDER BY seq LIMIT ?`;
/** (namespace, key, after, limit) */
export const LIST_KEY = `SELECT ${ROW} WHERE namespace = ? AND key = ? AND seq > ? ORDER BY seq LIMIT ?`;

/** (namespace, id, now) */
const IS_FREE = "namespace = ? AND id = ? AND (token IS NULL OR due_at <= ?)";
export const RETRY = `UPDATE nevertwice_outbox SET due_at = 1, token = NULL, parked_at = NULL, attempts = 0 WHERE ${IS_FREE}`;
/** (now, namespace, id, now) */
export const PARK = `UPDATE nevertwice_outbox SET due_at = NULL, token = NULL, parked_at = ? WHERE ${IS_FREE} AND parked_at IS NULL`;
export const FREE = `SELECT seq, key FROM nevertwice_outbox WHERE ${IS_FREE}`;
/** (namespace, scope, limit) */
export const SCOPE =
  "SELECT seq, key FROM nevertwice_outbox WHERE namespace = ? AND scope = ? AND scope <> '' LIMIT ?";
export const DELETE = "DELETE FROM nevertwice_outbox WHERE seq = ?";

/** (now, namespace, namespace, namespace). Rows of (topic, state, count, oldest), as on Postgres. */
export const FIGURES = `SELECT topic, state, count(*), min(created_at) FROM (
    SELECT * FROM (SELECT topic, CASE WHEN due_at <= ? THEN 'due' WHEN token IS NULL THEN 'planned' ELSE 'delivering' END AS state,
      created_at FROM nevertwice_outbox WHERE namespace = ? AND due_at >= 0 ORDER BY due_at, seq LIMIT ${MAX_COUNTED})
    UNION ALL
    SELECT * FROM (SELECT topic, 'parked', created_at FROM nevertwice_outbox
      WHERE namespace = ? AND parked_at IS NOT NULL ORDER BY seq LIMIT ${MAX_COUNTED})
    UNION ALL
    SELECT topic, 'behind', created_at FROM (SELECT topic, created_at, parked_at FROM nevertwice_outbox
      WHERE namespace = ? AND due_at IS NULL ORDER BY due_at, seq LIMIT ${2 * MAX_COUNTED}) WHERE parked_at IS NULL
  ) GROUP BY topic, state`;
