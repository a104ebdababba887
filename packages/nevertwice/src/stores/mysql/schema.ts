/** Creates and migrates the tables, one process at a time, and checks their version. */
import { NevertwiceError } from "../../core/errors.ts";
import {
  type ColumnAddition,
  countColumnSql,
  enginesSql,
  LOCK_SQL,
  type Migration,
  UNLOCK_SQL,
} from "../mysql-sql.ts";
import { change, type MysqlClient, type MysqlConnection, type MysqlRow, queryRows } from "./client.ts";
import { isDuplicateChange, missingTablesError, toStoreError } from "./errors.ts";
import { readNumber } from "./values.ts";

/** A set of tables with one version. */
export interface MysqlTables {
  /** Every table except the one that stores the version. */
  readonly NAMES: readonly string[];
  readonly VERSIONS_TABLE: string;
  readonly VERSION_SQL: string;
  versionReachedSql(version: number): string;
  /** In order. The version of the tables is that of the last migration. */
  readonly MIGRATIONS: readonly Migration[];
  readonly ADDITIONS?: readonly ColumnAddition[];
  /** Statements that create the indexes which were added without a new version. */
  readonly INDEXES?: readonly string[];
}

type QueryRows = (sql: string) => Promise<readonly MysqlRow[]>;

/** Every statement that `migrate` runs on an empty database, for operators that run migrations themselves. */
export function migrationScript(tables: MysqlTables): string {
  const { VERSIONS_TABLE, MIGRATIONS, ADDITIONS = [], INDEXES = [], versionReachedSql } = tables;
  const statements = MIGRATIONS.flatMap(({ version, sql }) => [sql, versionReachedSql(version)]);
  const added = ADDITIONS.map(({ sql }) => sql);
  return [VERSIONS_TABLE, ...statements, ...added, ...INDEXES].map((sql) => `${sql};\n`).join("\n");
}

export async function migrate(client: MysqlClient, tables: MysqlTables): Promise<void> {
  try {
    // The lock belongs to a connection, so the whole migration runs on one.
    const connection = await client.getConnection();
    try {
      await withLock(connection, () => migrateAlone(connection, tables));
    } finally {
      connection.release();
    }
  } catch (error) {
    throw toStoreError(error);
  }
}

async function withLock(connection: MysqlConnection, action: () => Promise<void>): Promise<void> {
  const [row] = await queryRows(connection, LOCK_SQL);
  if (row === undefined || readNumber(row, "is_locked") !== 1) {
    throw new NevertwiceError(
      "unavailable",
      "another process has been migrating these tables for a minute; try again when it has finished.",
    );
  }
  try {
    await action();
  } finally {
    // If this fails, the connection is broken, and the server has released the lock with it.
    await queryRows(connection, UNLOCK_SQL).catch(() => {});
  }
}

async function migrateAlone(connection: MysqlConnection, tables: MysqlTables): Promise<void> {
  await change(connection, tables.VERSIONS_TABLE);
  const reached = await lastMigration(connection, tables);
  for (const { version, sql } of tables.MIGRATIONS) {
    if (version <= reached) continue;
    await changeOnce(connection, sql);
    await change(connection, tables.versionReachedSql(version));
  }
  for (const addition of tables.ADDITIONS ?? []) {
    const [row] = await queryRows(connection, countColumnSql(addition));
    if (row !== undefined && readNumber(row, "columns_found") === 0)
      await changeOnce(connection, addition.sql);
  }
  for (const sql of tables.INDEXES ?? []) await changeOnce(connection, sql);
}

/** Does nothing if the statement creates a column or an index that exists. */
async function changeOnce(connection: MysqlConnection, sql: string): Promise<void> {
  try {
    await change(connection, sql);
  } catch (error) {
    if (!isDuplicateChange(error)) throw error;
  }
}

/** The version of the tables, or 0 if one of them was dropped: every migration can be repeated. */
async function lastMigration(connection: MysqlConnection, tables: MysqlTables): Promise<number> {
  const reached = await readVersion((sql) => queryRows(connection, sql), tables);
  // Tables of a later version cannot be created by this one.
  if (reached > tables.MIGRATIONS.length) return reached;
  const existing = await queryRows(connection, enginesSql(tables.NAMES));
  return existing.length === tables.NAMES.length ? reached : 0;
}

/**
 * Throws `store-unsafe` unless the tables have exactly this version. Returns how many of the columns exist that were added
 * without a new version.
 */
export async function checkVersion(query: QueryRows, tables: MysqlTables): Promise<number> {
  const [row] = await query(tables.VERSION_SQL);
  const reached = row === undefined ? 0 : readNumber(row, "version");
  const ours = tables.MIGRATIONS.length;
  if (reached === 0) throw missingTablesError();
  if (reached === ours) return row === undefined ? 0 : readNumber(row, "additions");
  const [needs, toDo] =
    reached > ours ? ["knows", "Upgrade nevertwice here."] : ["needs", "Run migrate() once."];
  throw new NevertwiceError(
    "store-unsafe",
    `the tables have version ${reached}; this version of nevertwice ${needs} ${ours}. ${toDo}`,
  );
}

async function readVersion(query: QueryRows, { VERSION_SQL }: MysqlTables): Promise<number> {
  const [row] = await query(VERSION_SQL);
  return row === undefined ? 0 : readNumber(row, "version");
}
