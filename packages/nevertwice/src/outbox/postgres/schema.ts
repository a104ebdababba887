/** The table of the outbox in Postgres. Its version is independent of that of other tables. */
import { migrationScript, schemaPrefix } from "../../stores/postgres/schema.ts";
import type { OutboxTables } from "../postgres-sql.ts";

const TEXT = 'text COLLATE "C"';

// `seq` gives the order, so its sequence must not hand out numbers in advance: CACHE 1. Every message is updated once and
// deleted soon, so the table is vacuumed more often than others.
const MESSAGES = ({ outbox }: OutboxTables) => `CREATE TABLE ${outbox} (
      seq bigint GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY,
      id ${TEXT} NOT NULL,
      namespace ${TEXT} NOT NULL,
      scope ${TEXT} NOT NULL,
      topic ${TEXT} NOT NULL,
      key ${TEXT},
      content text NOT NULL,
      created_at bigint NOT NULL,
      attempts integer NOT NULL DEFAULT 0,
      due_at bigint,
      token text,
      parked_at bigint,
      last_error text
    ) WITH (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 5000);
    CREATE INDEX nevertwice_outbox_id ON ${outbox} (id);
    CREATE INDEX nevertwice_outbox_due ON ${outbox} (namespace, due_at, seq);
    CREATE INDEX nevertwice_outbox_key ON ${outbox} (namespace, key, seq) WHERE key IS NOT NULL;
    CREATE INDEX nevertwice_outbox_parked ON ${outbox} (namespace, seq) WHERE parked_at IS NOT NULL;
    CREATE INDEX nevertwice_outbox_scope ON ${outbox} (namespace, scope) WHERE scope <> '';
    COMMENT ON TABLE ${outbox} IS 'nevertwice: messages that are not delivered yet. Times are microseconds of this server''s clock; due_at is 0 for at once, and NULL for a message that is parked or behind an older one of its key.';`;

/** A released migration is never changed; a change is a new migration. */
const STEPS: readonly ((tables: OutboxTables) => string)[] = [MESSAGES];

export const SCHEMA_VERSION = STEPS.length;

/** Without a schema, the search_path of the connection decides. */
export function outboxTables(schema: string | undefined): OutboxTables {
  const prefix = schemaPrefix(schema);
  return { outbox: `${prefix}nevertwice_outbox`, migrations: `${prefix}nevertwice_outbox_migrations` };
}

/** The SQL that `migrate` runs. */
export function migrationText(schema: string | undefined): string {
  const tables = outboxTables(schema);
  const steps = STEPS.map((step) => step(tables));
  return migrationScript(schema, { migrations: tables.migrations, created: [tables.outbox] }, steps);
}
