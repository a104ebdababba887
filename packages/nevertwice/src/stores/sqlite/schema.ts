/** Brings a database to the schema that this version uses, step by step, whichever process comes first. */
import { NevertwiceError } from "../../core/errors.ts";
import { lookUp, rollBack, type SqliteDatabase } from "./driver.ts";
import * as sql from "./session-sql.ts";

/**
 * The steps, and the table that keeps how many of them were taken in its one row, as `schema_version`. The first step
 * makes that table. A database may have several schemas beside each other.
 */
export interface Schema {
  readonly table: string;
  readonly migrations: readonly string[];
}

export function migrate(database: SqliteDatabase, schema: Schema): void {
  if (isLatest(database, schema)) return;
  const { table, migrations } = schema;
  database.exec(sql.BEGIN_WRITING);
  try {
    // Read again: another process may have done it while we waited for the lock.
    for (let version = versionOf(database, schema); version < migrations.length; version++) {
      database.exec(migrations[version] as string);
      database.prepare(`UPDATE ${table} SET schema_version = ?`).run(version + 1);
    }
    database.exec(sql.COMMIT);
  } catch (error) {
    rollBack(database);
    throw error;
  }
}

/** Fails with `store-unsafe` on a schema from the future: its rows may mean what we do not know. */
function isLatest(database: SqliteDatabase, schema: Schema): boolean {
  const version = versionOf(database, schema);
  const latest = schema.migrations.length;
  if (version <= latest) return version === latest;
  throw new NevertwiceError(
    "store-unsafe",
    `the SQLite file was written by a newer version of nevertwice (schema ${version}, and this one knows ${latest}); upgrade this process.`,
  );
}

function versionOf(database: SqliteDatabase, { table }: Schema): number {
  const has = `SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '${table}'`;
  return lookUp(database, has) === undefined
    ? 0
    : (lookUp(database, `SELECT schema_version FROM ${table}`) as number);
}
