/** The tables of reservations in SQLite: their columns and their migrations. */
import type { SqliteSchema } from "../../stores/sqlite/schema.ts";
import { COMMITMENT_DETAILS, COMMITMENT_TERMS, KEY_DETAILS, RESOURCE_DETAILS } from "../columns.ts";

export interface TableShape {
  readonly table: string;
  /** In the order in which they are read and written. */
  readonly columns: readonly string[];
  /** The unique key of a row. */
  readonly key: readonly string[];
  /** The columns that may change; none if the table is append-only. */
  readonly changing: readonly string[];
  /** The columns with hashes, which are stored as bytes. */
  readonly hashes: readonly string[];
}

export const KEYS: TableShape = {
  table: "nevertwice_reservation_keys",
  columns: ["namespace", "id", "scope", "key", ...KEY_DETAILS],
  key: ["namespace", "id"],
  changing: KEY_DETAILS,
  hashes: ["id", "digest"],
};

export const COMMITMENTS: TableShape = {
  table: "nevertwice_commitments",
  columns: [...COMMITMENT_TERMS, ...COMMITMENT_DETAILS],
  key: ["namespace", "id"],
  changing: ["requester", ...COMMITMENT_DETAILS],
  hashes: ["last_hash"],
};

export const RESOURCES: TableShape = {
  table: "nevertwice_resources",
  columns: ["namespace", "name", ...RESOURCE_DETAILS],
  key: ["namespace", "name"],
  changing: RESOURCE_DETAILS,
  hashes: ["last_hash"],
};

export const EVENTS: TableShape = {
  table: "nevertwice_reservation_events",
  columns: [
    "namespace",
    "subject",
    "number",
    "resource",
    "entry",
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
  hashes: ["key_id", "previous", "hash"],
};

export const CHECKPOINTS: TableShape = {
  table: "nevertwice_reservation_checkpoints",
  columns: ["namespace", "id", "at", "events", "digest"],
  key: ["namespace", "id"],
  changing: [],
  hashes: ["digest"],
};

/**
 * A released migration is never edited; a change is a new migration. Ids of keys are hashes, so tables with a rowid and
 * narrow indexes touch far fewer pages than tables sorted by id. The partial indexes on holds stay as small as the number of holds.
 */
const MIGRATIONS: readonly string[] = [
  `CREATE TABLE nevertwice_reservation_keys (
     namespace TEXT NOT NULL,
     id BLOB NOT NULL,
     scope TEXT NOT NULL,
     key TEXT NOT NULL,
     action TEXT NOT NULL,
     digest BLOB NOT NULL,
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
     requester_salt TEXT NOT NULL,
     events INTEGER NOT NULL,
     last_hash BLOB NOT NULL
   );
   CREATE UNIQUE INDEX nevertwice_commitments_by_id ON nevertwice_commitments (namespace, id);
   CREATE INDEX nevertwice_commitments_by_resource ON nevertwice_commitments (namespace, resource, id);
   CREATE INDEX nevertwice_commitments_by_requester ON nevertwice_commitments (namespace, requester, id);
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
     last_hash BLOB NOT NULL,
     PRIMARY KEY (namespace, name)
   ) WITHOUT ROWID;

   CREATE TABLE nevertwice_reservation_events (
     namespace TEXT NOT NULL,
     subject TEXT NOT NULL,
     number INTEGER NOT NULL,
     resource TEXT,
     entry INTEGER NOT NULL,
     kind TEXT NOT NULL,
     at INTEGER NOT NULL,
     key_id BLOB,
     detail TEXT NOT NULL,
     previous BLOB NOT NULL,
     hash BLOB NOT NULL,
     checkpoint TEXT NOT NULL
   );
   CREATE UNIQUE INDEX nevertwice_reservation_events_by_subject
     ON nevertwice_reservation_events (namespace, subject, number);

   CREATE TABLE nevertwice_reservation_checkpoints (
     namespace TEXT NOT NULL,
     id TEXT NOT NULL,
     at INTEGER NOT NULL,
     events INTEGER NOT NULL,
     digest BLOB NOT NULL
   );
   CREATE UNIQUE INDEX nevertwice_reservation_checkpoints_by_id
     ON nevertwice_reservation_checkpoints (namespace, id);

   CREATE TABLE nevertwice_reservations (schema_version INTEGER NOT NULL);
   INSERT INTO nevertwice_reservations VALUES (0);`,
];

export const SCHEMA: SqliteSchema = {
  table: "nevertwice_reservations",
  migrations: MIGRATIONS,
  indexes: {
    // For lists by state, those of holds among them.
    nevertwice_commitments_by_state:
      "CREATE INDEX IF NOT EXISTS nevertwice_commitments_by_state ON nevertwice_commitments (namespace, state, id)",
  },
};
