/**
 * The tables, step by step. All steps together are one statement: whoever runs it, a store or a DBA by hand, runs all of
 * it or nothing, as often as they like, and however many at once.
 */
import { utf8Bytes } from "../../core/bytes.ts";
import { NevertwiceError } from "../../core/errors.ts";

/** A step is never changed once it is published; the next one is added. */
const STEPS: readonly ((table: string) => string)[] = [
  // Room on each page for the completion of the records on it: an update that stays on its page touches no index.
  // Statistics of a handful of records would make plans that scan the table, and outlive the handful.
  (table) => `CREATE TABLE ${table} (
      id text COLLATE "C" PRIMARY KEY,
      state text NOT NULL,
      token text NOT NULL,
      spent boolean NOT NULL,
      hold boolean NOT NULL,
      took_over boolean NOT NULL,
      number bigint NOT NULL,
      fence bigint NOT NULL,
      claimed_at bigint NOT NULL,
      lease bigint NOT NULL,
      lease_ends_at bigint NOT NULL,
      retention bigint NOT NULL,
      kept_until bigint NOT NULL,
      completed_at bigint,
      purge_at bigint,
      fingerprint text,
      parts text,
      outcome text
    ) WITH (fillfactor = 50, autovacuum_analyze_threshold = 2000, autovacuum_vacuum_threshold = 2000,
      autovacuum_vacuum_insert_threshold = 2000);
    COMMENT ON TABLE ${table} IS 'nevertwice: one record a key. Times and durations are microseconds of this server''s clock; parts are namespace, scope, operation and key.';`,
  (table) => `CREATE INDEX nevertwice_records_purge_at ON ${table} (purge_at);`,
];

/** The version of the tables that this library works on. */
export const SCHEMA_VERSION = STEPS.length;

/** Any number that nobody else is likely to lock. */
const MIGRATION_LOCK = 7_316_824_005_127_994;

export interface Tables {
  readonly records: string;
  readonly migrations: string;
}

/** Checked and quoted names. Without a schema they are found where the connection's search_path says. */
export function tablesIn(schema: string | undefined): Tables {
  const prefix = prefixOf(schema);
  return { records: `${prefix}nevertwice_records`, migrations: `${prefix}nevertwice_migrations` };
}

/** What stands before the name of a table. */
export function prefixOf(schema: string | undefined): string {
  return schema === undefined ? "" : `${quoted(schema)}.`;
}

/** The text that `migrate` runs, up to a version. */
export function migrationText(schema: string | undefined, upTo = SCHEMA_VERSION): string {
  const { records, migrations } = tablesIn(schema);
  const steps = STEPS.slice(0, upTo).map((step) => step(records));
  return migrationOf(schema, migrations, steps);
}

/** The steps that are not in the table `migrations` yet, each written down there when it is done. */
export function migrationOf(
  schema: string | undefined,
  migrations: string,
  steps: readonly string[],
): string {
  const texts = steps.map(
    (step, index) => `  IF NOT EXISTS (SELECT FROM ${migrations} WHERE version = ${index + 1}) THEN
    ${step}
    INSERT INTO ${migrations} (version) VALUES (${index + 1});
  END IF;`,
  );
  return `DO $nevertwice$ BEGIN
  PERFORM pg_advisory_xact_lock(${MIGRATION_LOCK});
${schema === undefined ? "" : schemaText(schema)}  IF to_regclass('${literal(migrations)}') IS NULL THEN
    CREATE TABLE ${migrations} (
      version integer PRIMARY KEY,
      applied_at timestamptz NOT NULL DEFAULT now()
    );
  END IF;
${texts.join("\n")}
END $nevertwice$;
`;
}

/** `CREATE SCHEMA IF NOT EXISTS` would ask for the right to create one even where it exists. */
function schemaText(schema: string): string {
  return `  IF to_regnamespace('${literal(quoted(schema))}') IS NULL THEN
    CREATE SCHEMA ${quoted(schema)};
  END IF;
`;
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function literal(text: string): string {
  return text.replaceAll("'", "''");
}

/** Longer names are cut short by Postgres, and `$` could end the text that the migration is written in. */
const SCHEMA_NAME = /^[\p{L}_][\p{L}\p{N}_-]{0,62}$/u;

export function isSchemaName(name: string, value: unknown): void {
  if (typeof value === "string" && SCHEMA_NAME.test(value) && utf8Bytes(value) <= 63) return;
  throw new NevertwiceError(
    "options-invalid",
    `${name} is ${JSON.stringify(value)}; it must be the name of a Postgres schema: a letter or _, then letters, digits, _ and -, at most 63 bytes.`,
  );
}
