/** Creates and migrates the tables, and checks before the first step that the server and its tables can be used. */
import { hash } from "node:crypto";
import { utf8Bytes } from "../../core/bytes.ts";
import { NevertwiceError } from "../../core/errors.ts";
import {
  cancelledAfter,
  type PostgresRow,
  type PostgresRunner,
  type RunStatement,
  type Statement,
} from "./client.ts";
import { isConnectionOver, isNotPrimary, isReasonToRecheck, notPrimaryError, toStepError } from "./errors.ts";
import { HELD_INDEX } from "./held-sql.ts";
import { type AddedIndex, LIST_INDEXES, REPLACED_INDEXES } from "./lists-sql.ts";

/** A published migration never changes; append the next one. */
const MIGRATIONS: readonly ((table: string) => string)[] = [
  // The fillfactor leaves room on each page for the completion of its records: an update within a page touches no index.
  // The thresholds keep the planner from statistics of a few records, which would make it scan the table later on.
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
  // The bytes of an id take half the room of its hex, in the table and in the index of ids.
  (table) => `ALTER TABLE ${table} ALTER COLUMN id TYPE bytea USING decode(id, 'hex');`,
];

/** The finished steps of a record (core/kept-steps.ts). */
const STEPS_COLUMN = "steps";
/** What a record remembers of its attempts (core/kept-history.ts). */
const HISTORY_COLUMN = "history";
/** Whether a process waits for the record (postgres/marks.ts). */
const AWAITED_COLUMN = "awaited";

/**
 * Columns that are added without a new version, so that releases that do not know them keep working on the same tables. Each
 * allows NULL, which means what those releases mean.
 */
const ADDED_COLUMNS: readonly (readonly [name: string, type: string])[] = [
  [STEPS_COLUMN, "text"],
  [HISTORY_COLUMN, "text"],
  [AWAITED_COLUMN, "boolean"],
];

/** Whether the table has all columns that were added to it. */
export function hasAddedColumns(table: string): string {
  const names = ADDED_COLUMNS.map(([name]) => `'${name}'`).join(", ");
  return `(SELECT count(*) = ${ADDED_COLUMNS.length} FROM pg_attribute WHERE attrelid = '${escapeLiteral(table)}'::regclass
      AND attname IN (${names}) AND NOT attisdropped)`;
}

/** The version of the tables that this library needs. */
export const SCHEMA_VERSION = MIGRATIONS.length;

/** An arbitrary number that no other application is likely to lock. */
const MIGRATION_LOCK = 7_316_824_005_127_994;

export interface RecordTables {
  readonly records: string;
  readonly migrations: string;
}

/** Quoted names. Without a schema, the search_path of the connection decides where they are. */
export function recordTables(schema: string | undefined): RecordTables {
  const prefix = schemaPrefix(schema);
  return { records: `${prefix}nevertwice_records`, migrations: `${prefix}nevertwice_migrations` };
}

/** The prefix of a table's name. */
export function schemaPrefix(schema: string | undefined): string {
  return schema === undefined ? "" : `${quoteName(schema)}.`;
}

/** The statement that `migrate` runs, up to a version. */
export function migrationText(schema: string | undefined, upTo = SCHEMA_VERSION): string {
  const { records, migrations } = recordTables(schema);
  const steps = MIGRATIONS.slice(0, upTo).map((step) => step(records));
  const added =
    upTo < SCHEMA_VERSION
      ? []
      : [
          ...ADDED_COLUMNS.map((column) => addColumnSql(records, column)),
          ...[...LIST_INDEXES, HELD_INDEX].map((index) => addIndexSql(records, index)),
          ...REPLACED_INDEXES.map((name) => dropIndexSql(schema, records, name)),
        ];
  return migrationScript(schema, { migrations, created: [records] }, steps, added);
}

/** Looks first: `ADD COLUMN IF NOT EXISTS` would lock the table each time. */
function addColumnSql(table: string, [name, type]: readonly [string, string]): string {
  return `  IF NOT EXISTS (SELECT FROM pg_attribute
      WHERE attrelid = '${escapeLiteral(table)}'::regclass AND attname = '${name}' AND NOT attisdropped) THEN
    ALTER TABLE ${table} ADD COLUMN ${name} ${type};
  END IF;`;
}

/** Looks first, for the same reason. Every release keeps an index up, so it has no version of its own. */
export function addIndexSql(table: string, [name, columns, condition]: AddedIndex): string {
  return `  IF NOT ${hasIndex(table, name)} THEN
    CREATE INDEX ${name} ON ${table} (${columns})${condition === undefined ? "" : ` WHERE ${condition}`};
  END IF;`;
}

/** Looks first, for the same reason. */
function dropIndexSql(schema: string | undefined, table: string, name: string): string {
  return `  IF ${hasIndex(table, name)} THEN
    DROP INDEX ${schemaPrefix(schema)}${name};
  END IF;`;
}

const hasIndex = (
  table: string,
  name: string,
) => `EXISTS (SELECT FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
      WHERE indrelid = '${escapeLiteral(table)}'::regclass AND relname = '${name}')`;

interface MigratedTables {
  /** The table that records which migrations were run. */
  readonly migrations: string;
  /** The tables that the migrations create. */
  readonly created: readonly string[];
}

/**
 * All migrations as one statement: it runs completely or not at all, may be run again, and may be run by several processes
 * at the same time. It skips the migrations that the table `migrations` records as done. If all tables were dropped, it
 * starts from the first one; if only some were dropped, it fails.
 */
export function migrationScript(
  schema: string | undefined,
  { migrations, created }: MigratedTables,
  steps: readonly string[],
  added: readonly string[] = [],
): string {
  const texts = steps.map(
    (step, index) => `  IF NOT EXISTS (SELECT FROM ${migrations} WHERE version = ${index + 1}) THEN
    ${step}
    INSERT INTO ${migrations} (version) VALUES (${index + 1});
  END IF;`,
  );
  return `DO $nevertwice$ BEGIN
  PERFORM pg_advisory_xact_lock(${MIGRATION_LOCK});
${schema === undefined ? "" : createSchemaSql(schema)}  IF to_regclass('${escapeLiteral(migrations)}') IS NULL THEN
    CREATE TABLE ${migrations} (
      version integer PRIMARY KEY,
      applied_at timestamptz NOT NULL DEFAULT now()
    );
  END IF;
${checkDroppedSql({ migrations, created }, steps.length)}${[...texts, ...added].join("\n")}
END $nevertwice$;
`;
}

function checkDroppedSql({ migrations, created }: MigratedTables, version: number): string {
  const missing = created
    .map((table) => `(to_regclass('${escapeLiteral(table)}') IS NULL)::integer`)
    .join(" + ");
  const names = escapeLiteral(created.join(", "));
  return `  IF ${missing} = ${created.length} THEN
    DELETE FROM ${migrations};
  ELSIF ${missing} > 0 AND EXISTS (SELECT FROM ${migrations} WHERE version = ${version}) THEN
    RAISE EXCEPTION 'some of the tables were dropped and others are there: restore them, or drop all of ${names} and run migrate() again'
      USING ERRCODE = '55000';
  END IF;
`;
}

/** `CREATE SCHEMA IF NOT EXISTS` would need the right to create a schema even if it exists. */
function createSchemaSql(schema: string): string {
  return `  IF to_regnamespace('${escapeLiteral(quoteName(schema))}') IS NULL THEN
    CREATE SCHEMA ${quoteName(schema)};
  END IF;
`;
}

function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function escapeLiteral(text: string): string {
  return text.replaceAll("'", "''");
}

/** Postgres truncates longer names, and `$` could end the dollar-quoted text of the migration. */
const SCHEMA_NAME = /^[\p{L}_][\p{L}\p{N}_-]{0,62}$/u;

export function isSchemaName(name: string, value: unknown): void {
  if (typeof value === "string" && SCHEMA_NAME.test(value) && utf8Bytes(value) <= 63) return;
  throw new NevertwiceError(
    "options-invalid",
    `${name} is ${JSON.stringify(value)}; it must be the name of a Postgres schema: a letter or _, then letters, digits, _ and -, at most 63 bytes.`,
  );
}

/** A server that was checked. */
export interface ReadyServer {
  /** Runs one statement, at READ COMMITTED. */
  readonly run: RunStatement;
  /** The channel that reports settled records: one for the tables of one schema. */
  readonly channel: string;
  /** Whether the tables have the columns that were added: for steps, history and marks. */
  readonly hasSteps: boolean;
}

/** How long a query about the server itself may take; it has no caller with a signal. */
export const CHECK_MS = 5_000;
/** A check that takes longer may be on a dead connection: later calls start another one. */
const STUCK_MS = 1_000;
/** Settings can change while connections stay open. After this time, the next call starts a check in the background. */
const RECHECK_MS = 30_000;

export interface Readiness {
  ready(): ReadyServer | Promise<ReadyServer>;
  /** Call this after connections were lost: the next one may lead to another server, or its settings may have changed. */
  recheckServer(): void;
  /** Passes an answer of the server on, and checks the server again before the next call if its error is a reason to. */
  rechecked<T>(answer: Promise<T>): Promise<T>;
  /** How often connections were lost after the server had been ready. */
  reconnects(): number;
}

/** Checks the server once, and again after a failure or a lost connection. The tables must have the version `needed`. */
export function createReadiness(
  runner: PostgresRunner,
  check: Statement,
  needed: number = SCHEMA_VERSION,
): Readiness {
  let ready: ReadyServer | undefined;
  let checking: Promise<ReadyServer> | undefined;
  let wasReady = false;
  let reconnects = 0;
  let recheckAt = 0;

  async function checkServer(): Promise<ReadyServer> {
    const [row] = await runner.run(check, [], cancelledAfter(CHECK_MS)).catch(throwStepError);
    requirePrimary(row ?? []);
    const found = toReadyServer(row ?? [], runner, needed);
    ready = { ...found, run: (...call) => rechecked(found.run(...call)) };
    wasReady = true;
    recheckAt = performance.now() + RECHECK_MS;
    return ready;
  }

  /** Before the first success it is the wrong address, later a failover. */
  function requirePrimary([, , , isReplica, isReadOnly]: PostgresRow): void {
    const problem =
      isReplica === "true"
        ? "it is a replica; connect to the primary"
        : isReadOnly === "on" &&
          "its transactions are read-only; connect to the primary, or set default_transaction_read_only off";
    if (!problem) return;
    runner.forsake?.();
    throw notPrimaryError(problem, wasReady ? "unavailable" : "store-unsafe");
  }

  function recheckServer(): void {
    if (ready === undefined) return;
    reconnects++;
    ready = undefined;
    checking = undefined;
  }

  /** Ignores a server that cannot be reached: the next call reports that. */
  function recheckInBackground(): void {
    recheckAt = performance.now() + RECHECK_MS;
    checkServer().catch((error) => isReasonToRecheck(error) && recheckServer());
  }

  /** A pool without connections has reported none as lost, and its next one may lead to another server. */
  function noticeEmptyPool(): void {
    if (runner.hasNoConnection()) recheckServer();
  }

  async function rechecked<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer.catch(throwStepError);
    } catch (error) {
      if (isNotPrimary(error)) runner.forsake?.();
      if (isReasonToRecheck(error) || isConnectionOver((error as Error).cause)) recheckServer();
      throw error;
    }
  }

  function current(): ReadyServer | Promise<ReadyServer> {
    noticeEmptyPool();
    if (ready !== undefined) {
      if (performance.now() >= recheckAt) recheckInBackground();
      return ready;
    }
    if (checking !== undefined) return checking;
    const started = checkServer();
    const forget = () => {
      if (checking === started) checking = undefined;
    };
    const stuck = setTimeout(forget, STUCK_MS);
    stuck.unref?.();
    started.finally(() => clearTimeout(stuck)).catch(forget);
    checking = started;
    return checking;
  }

  return {
    ready: current,
    recheckServer,
    rechecked,
    reconnects() {
      noticeEmptyPool();
      return reconnects;
    },
  };
}

function throwStepError(error: unknown): never {
  throw toStepError(error);
}

function toReadyServer(row: PostgresRow, runner: PostgresRunner, needed: number): ReadyServer {
  const [version, schema, isolation, , , encoding, hasStandbys, hasSteps] = row;
  if (encoding !== "UTF8")
    throw unsafe(`the database's encoding is ${encoding}, which cannot store every text; it must be UTF8`);
  const found = Number(version ?? 0);
  if (found < needed)
    throw unsafe(`its tables have version ${found}, and this library needs ${needed}; run migrate()`);
  if (found > needed)
    throw unsafe(
      `its tables have version ${found}, and this library knows only ${needed}; upgrade nevertwice`,
    );
  const run = isolation === "read committed" ? runner.run : runner.runReadCommitted;
  // Other sessions see a commit that was cancelled while it waited for its standby, although no standby has it.
  const mustNotCancel = runner.cancelsBlindly && hasStandbys === "true";
  return {
    run: mustNotCancel ? (statement, parameters) => run(statement, parameters) : run,
    hasSteps: hasSteps === "true",
    channel: `nevertwice_${hash("sha256", schema ?? "", "hex").slice(0, 16)}`,
  };
}

function unsafe(problem: string): NevertwiceError {
  return new NevertwiceError("store-unsafe", `Postgres: ${problem}.`);
}
