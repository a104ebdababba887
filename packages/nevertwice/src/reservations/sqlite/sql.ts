/**
 * The tables of reservations in SQLite, and every statement on them. No statement knows the rules: reservations.ts decides
 * between the reads and the writes of one transaction. Values are bound by plain question marks, since better-sqlite3
 * takes a numbered one for a name.
 */
import type { Schema } from "../../stores/sqlite/schema.ts";

/** A table as it is read and written: its columns in order, what names a row, and what of a row may change. */
export interface TableShape {
  readonly table: string;
  readonly columns: readonly string[];
  readonly key: readonly string[];
  readonly changing: readonly string[];
}

const CHAIN = ["events", "last_hash"];
const KEY_DETAILS = [
  "action",
  "digest",
  "parameters",
  "answer",
  "commitment",
  "recorded_at",
  "window_ends_at",
  "kept_until",
];
const COMMITMENT_DETAILS = ["state", "ended_at", "confirmed_units", "occupied", ...CHAIN];
const RESOURCE_DETAILS = ["capacity", "taken", "state", "is_declared", ...CHAIN];

export const KEYS: TableShape = {
  table: "nevertwice_reservation_keys",
  columns: ["namespace", "id", "scope", "key", ...KEY_DETAILS],
  key: ["namespace", "id"],
  changing: KEY_DETAILS,
};

export const COMMITMENTS: TableShape = {
  table: "nevertwice_commitments",
  columns: [
    "namespace",
    "id",
    "resource",
    "requester",
    "units",
    "placed_at",
    "expires_at",
    ...COMMITMENT_DETAILS,
  ],
  key: ["namespace", "id"],
  changing: COMMITMENT_DETAILS,
};

export const RESOURCES: TableShape = {
  table: "nevertwice_resources",
  columns: ["namespace", "name", ...RESOURCE_DETAILS],
  key: ["namespace", "name"],
  changing: RESOURCE_DETAILS,
};

export const EVENTS: TableShape = {
  table: "nevertwice_reservation_events",
  columns: [
    "namespace",
    "subject",
    "number",
    "kind",
    "at",
    "key_id",
    "detail",
    "previous",
    "hash",
    "checkpoint",
  ],
  key: ["namespace", "subject", "number"],
  changing: [],
};

export const CHECKPOINTS: TableShape = {
  table: "nevertwice_reservation_checkpoints",
  columns: ["namespace", "id", "at", "events", "digest"],
  key: ["namespace", "id"],
  changing: [],
};

/**
 * A step is never edited, only followed by another. Ids are random: rows in order of arrival with narrow indexes beside
 * them touch far fewer pages than a table sorted by id. The indexes of what is held stay as small as that is.
 */
const MIGRATIONS: readonly string[] = [
  `CREATE TABLE nevertwice_reservation_keys (
     namespace TEXT NOT NULL,
     id TEXT NOT NULL,
     scope TEXT NOT NULL,
     key TEXT NOT NULL,
     action TEXT NOT NULL,
     digest TEXT NOT NULL,
     parameters TEXT NOT NULL,
     answer TEXT NOT NULL,
     commitment TEXT,
     recorded_at INTEGER NOT NULL,
     window_ends_at INTEGER NOT NULL,
     kept_until INTEGER NOT NULL
   );
   CREATE UNIQUE INDEX nevertwice_reservation_keys_by_id ON nevertwice_reservation_keys (namespace, id);
   CREATE INDEX nevertwice_reservation_keys_by_commitment
     ON nevertwice_reservation_keys (namespace, commitment, id) WHERE commitment IS NOT NULL;
   CREATE INDEX nevertwice_reservation_keys_by_kept_until ON nevertwice_reservation_keys (kept_until);

   CREATE TABLE nevertwice_commitments (
     namespace TEXT NOT NULL,
     id TEXT NOT NULL,
     resource TEXT NOT NULL,
     requester TEXT NOT NULL,
     units INTEGER NOT NULL,
     placed_at INTEGER NOT NULL,
     expires_at INTEGER NOT NULL,
     state TEXT NOT NULL,
     ended_at INTEGER,
     confirmed_units INTEGER,
     occupied INTEGER NOT NULL,
     events INTEGER NOT NULL,
     last_hash TEXT NOT NULL
   );
   CREATE UNIQUE INDEX nevertwice_commitments_by_id ON nevertwice_commitments (namespace, id);
   CREATE INDEX nevertwice_commitments_by_resource ON nevertwice_commitments (namespace, resource, id);
   CREATE INDEX nevertwice_commitments_by_requester ON nevertwice_commitments (namespace, requester, id);
   CREATE INDEX nevertwice_commitments_held ON nevertwice_commitments (namespace, id) WHERE state = 'held';
   CREATE INDEX nevertwice_commitments_held_by_expires_at
     ON nevertwice_commitments (namespace, expires_at) WHERE state = 'held';
   CREATE INDEX nevertwice_commitments_held_by_resource
     ON nevertwice_commitments (namespace, resource, expires_at) WHERE state = 'held';

   CREATE TABLE nevertwice_resources (
     namespace TEXT NOT NULL,
     name TEXT NOT NULL,
     capacity INTEGER NOT NULL,
     taken INTEGER NOT NULL,
     state TEXT NOT NULL,
     is_declared INTEGER NOT NULL,
     events INTEGER NOT NULL,
     last_hash TEXT NOT NULL,
     PRIMARY KEY (namespace, name)
   ) WITHOUT ROWID;

   CREATE TABLE nevertwice_reservation_events (
     namespace TEXT NOT NULL,
     subject TEXT NOT NULL,
     number INTEGER NOT NULL,
     kind TEXT NOT NULL,
     at INTEGER NOT NULL,
     key_id TEXT,
     detail TEXT NOT NULL,
     previous TEXT NOT NULL,
     hash TEXT NOT NULL,
     checkpoint TEXT NOT NULL
   );
   CREATE UNIQUE INDEX nevertwice_reservation_events_by_subject
     ON nevertwice_reservation_events (namespace, subject, number);

   CREATE TABLE nevertwice_reservation_checkpoints (
     namespace TEXT NOT NULL,
     id TEXT NOT NULL,
     at INTEGER NOT NULL,
     events INTEGER NOT NULL,
     digest TEXT NOT NULL
   );
   CREATE UNIQUE INDEX nevertwice_reservation_checkpoints_by_id
     ON nevertwice_reservation_checkpoints (namespace, id);

   CREATE TABLE nevertwice_reservations (schema_version INTEGER NOT NULL);
   INSERT INTO nevertwice_reservations VALUES (0);`,
];

export const SCHEMA: Schema = { table: "nevertwice_reservations", migrations: MIGRATIONS };

/** The rows for which all of `conditions` hold. */
function select({ table, columns }: TableShape, ...conditions: readonly string[]): string {
  return `SELECT ${columns.join(", ")} FROM ${table} WHERE ${conditions.join(" AND ")}`;
}

/** The row with this key. */
export function find(shape: TableShape): string {
  return select(shape, ...shape.key.map((column) => `${column} = ?`));
}

/** The next rows by key, at most so many. */
export function page(shape: TableShape, ...conditions: readonly string[]): string {
  return `${select(shape, "namespace = ?", ...conditions)} ORDER BY ${shape.key.slice(1).join(", ")} LIMIT ?`;
}

/** Inserts a row; over one that is there, it writes what may change. Without that, a row that is there is an error. */
export function write({ table, columns, key, changing }: TableShape): string {
  const insert = `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`;
  if (changing.length === 0) return insert;
  const changes = changing.map((column) => `${column} = excluded.${column}`).join(", ");
  return `${insert} ON CONFLICT (${key.join(", ")}) DO UPDATE SET ${changes}`;
}

/** A literal, since an index of held rows is used for nothing else. */
export const IS_HELD = "state = 'held'";

/** Bound to namespace, resource, now and the limit: its holds whose time is over, the oldest first. */
export const ELAPSED_OF = `${select(COMMITMENTS, "namespace = ?", "resource = ?", IS_HELD, "expires_at <= ?")}
  ORDER BY expires_at LIMIT ?`;

/** Bound to namespace, now and the limit. */
export const ELAPSED = `SELECT id FROM ${COMMITMENTS.table}
  WHERE namespace = ? AND ${IS_HELD} AND expires_at <= ? ORDER BY expires_at LIMIT ?`;

/** Bound to now: whether anything may be purged, a look before the write lock is asked for. */
export const HAS_PURGEABLE = `SELECT 1 FROM ${KEYS.table} WHERE kept_until <= ? LIMIT 1`;

/** Bound to now and the limit. */
export const PURGE = `DELETE FROM ${KEYS.table}
  WHERE rowid IN (SELECT rowid FROM ${KEYS.table} WHERE kept_until <= ? ORDER BY kept_until LIMIT ?)`;
