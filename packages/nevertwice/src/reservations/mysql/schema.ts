/** The tables of reservations in MySQL and MariaDB. Their version is independent of that of the claim store's tables. */
import { MAX_PART_BYTES } from "../../core/identity.ts";
import type { MysqlTables } from "../../stores/mysql/schema.ts";
import { MAX_SHORT_BYTES, TABLE_OPTIONS, whole } from "../../stores/mysql/values.ts";

/** Text is stored as UTF-8 bytes: a collation would treat different names as equal, and a character set could lose characters. */
const SHORT = `VARBINARY(${MAX_SHORT_BYTES})`;
const PART = `VARBINARY(${MAX_PART_BYTES})`;
/** `resource:<name>` or `commitment:<id>`. */
const SUBJECT = `VARBINARY(${MAX_PART_BYTES + 16})`;

/** A row without an answer is a placeholder, visible only to the transaction that inserted it. */
const KEYS_TABLE = `CREATE TABLE IF NOT EXISTS nevertwice_reservation_keys (
  id ${SHORT} NOT NULL PRIMARY KEY,
  namespace ${PART} NOT NULL,
  scope ${PART},
  \`key\` ${PART},
  action ${SHORT},
  digest ${SHORT},
  parameters LONGBLOB,
  answer LONGBLOB,
  commitment ${SHORT},
  recorded_at BIGINT,
  window_ends_at BIGINT,
  kept_until BIGINT,
  checkpoint ${SHORT},
  INDEX nevertwice_keys_by_namespace (namespace, id),
  INDEX nevertwice_keys_by_commitment (namespace, commitment, id),
  INDEX nevertwice_keys_kept_until (kept_until)
) ${TABLE_OPTIONS}`;

/** A row without a state is a placeholder. */
const RESOURCES_TABLE = `CREATE TABLE IF NOT EXISTS nevertwice_resources (
  namespace ${PART} NOT NULL,
  name ${PART} NOT NULL,
  capacity BIGINT,
  taken BIGINT,
  state ${SHORT},
  is_declared TINYINT,
  events BIGINT,
  last_hash ${SHORT},
  PRIMARY KEY (namespace, name)
) ${TABLE_OPTIONS}`;

/** `held_until` is `expires_at` while the commitment is held, and NULL otherwise: its indexes contain only holds. */
const COMMITMENTS_TABLE = `CREATE TABLE IF NOT EXISTS nevertwice_commitments (
  namespace ${PART} NOT NULL,
  id ${SHORT} NOT NULL,
  resource ${PART} NOT NULL,
  requester ${PART} NOT NULL,
  units BIGINT NOT NULL,
  placed_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  held_until BIGINT,
  state ${SHORT} NOT NULL,
  ended_at BIGINT,
  confirmed_units BIGINT,
  occupied BIGINT NOT NULL,
  requester_salt ${SHORT} NOT NULL,
  events BIGINT NOT NULL,
  last_hash ${SHORT} NOT NULL,
  PRIMARY KEY (namespace, id),
  INDEX nevertwice_commitments_by_resource (namespace, resource, id),
  INDEX nevertwice_commitments_by_requester (namespace, requester, id),
  INDEX nevertwice_commitments_by_state (namespace, state, id),
  INDEX nevertwice_commitments_held (namespace, held_until, id),
  INDEX nevertwice_commitments_held_of (namespace, resource, held_until, id)
) ${TABLE_OPTIONS}`;

const EVENTS_TABLE = `CREATE TABLE IF NOT EXISTS nevertwice_reservation_events (
  namespace ${PART} NOT NULL,
  subject ${SUBJECT} NOT NULL,
  number BIGINT NOT NULL,
  resource ${PART},
  entry BIGINT NOT NULL,
  kind ${SHORT} NOT NULL,
  at BIGINT NOT NULL,
  key_id ${SHORT},
  detail LONGBLOB NOT NULL,
  previous ${SHORT} NOT NULL,
  hash ${SHORT} NOT NULL,
  checkpoint ${SHORT} NOT NULL,
  PRIMARY KEY (namespace, subject, number)
) ${TABLE_OPTIONS}`;

const CHECKPOINTS_TABLE = `CREATE TABLE IF NOT EXISTS nevertwice_checkpoints (
  namespace ${PART} NOT NULL,
  id ${SHORT} NOT NULL,
  at BIGINT NOT NULL,
  events BIGINT NOT NULL,
  digest ${SHORT} NOT NULL,
  PRIMARY KEY (namespace, id)
) ${TABLE_OPTIONS}`;

export const TABLE_NAMES = [
  "nevertwice_reservation_keys",
  "nevertwice_resources",
  "nevertwice_commitments",
  "nevertwice_reservation_events",
  "nevertwice_checkpoints",
] as const;

/** The migrations, in order. A released migration is never changed. */
export const TABLES: MysqlTables = {
  NAMES: TABLE_NAMES,
  VERSIONS_TABLE: `CREATE TABLE IF NOT EXISTS nevertwice_reservation_versions (
  version INT NOT NULL PRIMARY KEY
) ${TABLE_OPTIONS}`,
  VERSION_SQL: "SELECT MAX(version) AS version FROM nevertwice_reservation_versions",
  versionReachedSql: (version) =>
    `INSERT IGNORE INTO nevertwice_reservation_versions (version) VALUES (${whole(version)})`,
  MIGRATIONS: [KEYS_TABLE, RESOURCES_TABLE, COMMITMENTS_TABLE, EVENTS_TABLE, CHECKPOINTS_TABLE].map(
    (sql, index) => ({ version: index + 1, sql }),
  ),
};
