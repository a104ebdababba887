/** Migrates a database to the schema that this version uses. Several processes may start this at the same time. */
import { NevertwiceError } from "../../core/errors.ts";
import { BEGIN_WRITING, COMMIT, lookUp, prepareQuery, rollBack, type SqliteDatabase } from "./client.ts";

/** A set of tables with their own version. One database may contain several schemas. */
export interface SqliteSchema {
  /** The table with one row that stores, in `schema_version`, how many migrations were applied. */
  readonly table: string;
  /** In order. The first one creates `table`. */
  readonly migrations: readonly string[];
  /**
   * Columns, as pairs of name and type, that are added to a table that lacks them. The version stays the same, so releases
   * that do not know a column keep working on the same file: it must allow NULL, and NULL must mean what they mean.
   */
  readonly additions?: Readonly<Record<string, readonly (readonly [name: string, type: string])[]>>;
  /** Indexes by their names, which are created where they are missing, in any version. Older releases keep them up as well. */
  readonly indexes?: Readonly<Record<string, string>>;
  /** The columns of each table after the last migration, including those of `table`. */
  readonly columns?: Readonly<Record<string, readonly string[]>>;
}

/** Runs a change in one transaction, and undoes it if it throws. */
export type InTransaction = (change: () => void) => void;

/** `inTransaction` is for connections that refuse BEGIN. */
export function migrate(
  database: SqliteDatabase,
  schema: SqliteSchema,
  inTransaction: InTransaction = (change) => inWriteTransaction(database, change),
): void {
  applyMigrations(database, schema, inTransaction);
  checkColumns(database, schema);
  addMissing(database, schema, inTransaction);
}

function addMissing(database: SqliteDatabase, schema: SqliteSchema, inTransaction: InTransaction): void {
  if (missingAdditions(database, schema).length === 0) return;
  inTransaction(() => {
    // Read again: another process may have added them while this one waited for the lock.
    for (const statement of missingAdditions(database, schema)) database.exec(statement);
  });
}

/** The statements that add what is missing. */
function missingAdditions(database: SqliteDatabase, schema: SqliteSchema): readonly string[] {
  return [...missingColumns(database, schema), ...missingIndexes(database, schema)];
}

function missingIndexes(database: SqliteDatabase, { indexes = {} }: SqliteSchema): readonly string[] {
  return Object.entries(indexes)
    .filter(([name]) => !exists(database, "index", name))
    .map(([, statement]) => statement);
}

function missingColumns(database: SqliteDatabase, { additions = {} }: SqliteSchema): readonly string[] {
  return Object.entries(additions).flatMap(([table, columns]) => {
    const existing = columnNames(database, table);
    return columns
      .filter(([name]) => !existing.includes(name))
      .map(([name, type]) => `ALTER TABLE ${table} ADD COLUMN ${name} ${type}`);
  });
}

function columnNames(database: SqliteDatabase, table: string): readonly unknown[] {
  return prepareQuery(database, `PRAGMA table_info(${table})`)
    .all()
    .map(([, name]) => name);
}

function inWriteTransaction(database: SqliteDatabase, change: () => void): void {
  database.exec(BEGIN_WRITING);
  try {
    change();
    database.exec(COMMIT);
  } catch (error) {
    rollBack(database);
    throw error;
  }
}

function applyMigrations(database: SqliteDatabase, schema: SqliteSchema, inTransaction: InTransaction): void {
  if (isLatest(database, schema) && !isEmptied(database, schema)) return;
  const { table, migrations } = schema;
  inTransaction(() => {
    // All tables were dropped except the one with the version: start again with the first migration.
    if (isEmptied(database, schema)) database.exec(`DROP TABLE ${table}`);
    // Read the version again: another process may have migrated while this one waited for the lock.
    for (let version = readVersion(database, schema); version < migrations.length; version++) {
      database.exec(migrations[version] as string);
      database.prepare(`UPDATE ${table} SET schema_version = ?`).run(version + 1);
    }
  });
}

/** Throws `store-unsafe` for a schema from a later version: its rows may have a meaning that this version does not know. */
function isLatest(database: SqliteDatabase, schema: SqliteSchema): boolean {
  const version = readVersion(database, schema);
  const latest = schema.migrations.length;
  if (version <= latest) return version === latest;
  throw new NevertwiceError(
    "store-unsafe",
    `the SQLite file was written by a newer version of nevertwice (schema ${version}; this version knows ${latest}); upgrade this process.`,
  );
}

/** Whether the table with the version is the only one left of all tables. */
function isEmptied(database: SqliteDatabase, { table, columns = {} }: SqliteSchema): boolean {
  const others = Object.keys(columns).filter((name) => name !== table);
  return others.length > 0 && hasTable(database, table) && !others.some((name) => hasTable(database, name));
}

/** Throws `store-unsafe` if a table lacks a column. Additional columns do no harm. */
function checkColumns(database: SqliteDatabase, { columns = {} }: SqliteSchema): void {
  for (const [table, expected] of Object.entries(columns)) {
    const existing = columnNames(database, table);
    const missing = expected.filter((name) => !existing.includes(name));
    if (missing.length === 0) continue;
    const what =
      existing.length === 0 ? `no table ${table}` : `no ${missing.join(", ")} in its table ${table}`;
    throw new NevertwiceError(
      "store-unsafe",
      `the SQLite file has ${what}, although its version requires it: it was changed by hand. Restore it from a backup, or use another file.`,
    );
  }
}

function hasTable(database: SqliteDatabase, table: string): boolean {
  return exists(database, "table", table);
}

function exists(database: SqliteDatabase, type: "table" | "index", name: string): boolean {
  const has = `SELECT 1 FROM sqlite_master WHERE type = '${type}' AND name = '${name}'`;
  return lookUp(database, has) !== undefined;
}

function readVersion(database: SqliteDatabase, { table }: SqliteSchema): number {
  if (!hasTable(database, table)) return 0;
  const version = lookUp(database, `SELECT schema_version FROM ${table}`);
  if (Number.isSafeInteger(version) && (version as number) >= 0) return version as number;
  throw new NevertwiceError(
    "store-unsafe",
    `the table ${table} of the SQLite file contains no valid schema_version: it was changed by hand. Restore the file from a backup, or use another file.`,
  );
}
