/** The tables of reservations and their migrations. They are independent of the tables of the claim store. */
import { addIndexSql, migrationScript, schemaPrefix } from "../../stores/postgres/schema.ts";

export interface TableNames {
  readonly commitments: string;
  readonly resources: string;
  readonly keys: string;
  readonly events: string;
  readonly checkpoints: string;
  readonly migrations: string;
}

const TEXT = 'text COLLATE "C"';

// A transaction locks a key or a resource that has no row by inserting a placeholder, which has only a name and is never
// visible to others. That is why many columns are not NOT NULL.
//
// Two indexes do not begin with the namespace: on an empty table the planner could not tell `(namespace, requester, id)`
// from the primary key, and would keep using it to find an id.

const HOLDING = ({ commitments, resources }: TableNames) => `CREATE TABLE ${commitments} (
      namespace ${TEXT} NOT NULL,
      id ${TEXT} NOT NULL,
      resource ${TEXT} NOT NULL,
      requester ${TEXT} NOT NULL,
      units bigint NOT NULL,
      placed_at bigint NOT NULL,
      expires_at bigint NOT NULL,
      state text NOT NULL,
      ended_at bigint,
      confirmed_units bigint,
      occupied bigint NOT NULL,
      requester_salt text NOT NULL,
      events bigint NOT NULL,
      last_hash text NOT NULL,
      PRIMARY KEY (namespace, id)
    );
    CREATE INDEX nevertwice_commitments_resource ON ${commitments} (resource, namespace, id);
    CREATE INDEX nevertwice_commitments_requester ON ${commitments} (requester, namespace, id);
    CREATE INDEX nevertwice_commitments_held ON ${commitments} (namespace, expires_at, id) WHERE state = 'held';
    CREATE INDEX nevertwice_commitments_held_of ON ${commitments} (namespace, (resource || ''), expires_at, id)
      WHERE state = 'held';
    CREATE TABLE ${resources} (
      namespace ${TEXT} NOT NULL,
      name ${TEXT} NOT NULL,
      capacity bigint,
      taken bigint,
      state text,
      is_declared boolean,
      events bigint,
      last_hash text,
      PRIMARY KEY (namespace, name)
    ) WITH (fillfactor = 50);
    COMMENT ON TABLE ${commitments} IS 'nevertwice: what is or was held. Times are milliseconds of this server''s clock.';`;

const KEYS = ({ keys }: TableNames) => `CREATE TABLE ${keys} (
      namespace ${TEXT} NOT NULL,
      id ${TEXT} NOT NULL,
      parts text,
      action text,
      digest text,
      parameters text,
      answer text,
      commitment ${TEXT},
      recorded_at bigint,
      window_ends_at bigint,
      kept_until bigint,
      written_by text,
      PRIMARY KEY (namespace, id)
    );
    CREATE INDEX nevertwice_reservation_keys_commitment ON ${keys} (namespace, commitment, id)
      WHERE commitment IS NOT NULL;
    CREATE INDEX nevertwice_reservation_keys_kept_until ON ${keys} (kept_until)
      WHERE kept_until IS NOT NULL;
    COMMENT ON TABLE ${keys} IS 'nevertwice: the key of each action and its answer; parts are scope and key.';`;

const JOURNAL = ({ events, checkpoints }: TableNames) => `CREATE TABLE ${events} (
      namespace ${TEXT} NOT NULL,
      subject ${TEXT} NOT NULL,
      number bigint NOT NULL,
      resource ${TEXT},
      entry bigint NOT NULL,
      kind text NOT NULL,
      at bigint NOT NULL,
      key_id text,
      detail text NOT NULL,
      previous text NOT NULL,
      hash text NOT NULL,
      checkpoint text NOT NULL,
      PRIMARY KEY (namespace, subject, number)
    );
    CREATE TABLE ${checkpoints} (
      namespace ${TEXT} NOT NULL,
      id ${TEXT} NOT NULL,
      at bigint NOT NULL,
      events bigint NOT NULL,
      digest text NOT NULL,
      PRIMARY KEY (namespace, id)
    );
    COMMENT ON TABLE ${events} IS 'nevertwice: append-only; each event has the hash of the one before it in the chain of its resource.';`;

/**
 * For lists by state. The state is first, so that no plan that was made for empty tables finds a commitment by the namespace in it.
 * It can be created ahead, with `CONCURRENTLY`.
 */
const STATE_INDEX = ["nevertwice_commitments_state", "state, namespace, id"] as const;

/** A released migration is never changed; a change is a new migration. */
const STEPS: readonly ((tables: TableNames) => string)[] = [HOLDING, KEYS, JOURNAL];

/** The version of the tables that this release needs. */
export const SCHEMA_VERSION = STEPS.length;

/** Without a schema, the search_path of the connection decides. */
export function tableNames(schema: string | undefined): TableNames {
  const prefix = schemaPrefix(schema);
  return {
    commitments: `${prefix}nevertwice_commitments`,
    resources: `${prefix}nevertwice_resources`,
    keys: `${prefix}nevertwice_reservation_keys`,
    events: `${prefix}nevertwice_reservation_events`,
    checkpoints: `${prefix}nevertwice_checkpoints`,
    migrations: `${prefix}nevertwice_reservation_migrations`,
  };
}

/** The SQL that `migrate` runs. */
export function migrationText(schema: string | undefined): string {
  const tables = tableNames(schema);
  const { migrations, ...made } = tables;
  const steps = STEPS.map((step) => step(tables));
  const added = [addIndexSql(tables.commitments, STATE_INDEX)];
  return migrationScript(schema, { migrations, created: Object.values(made) }, steps, added);
}
