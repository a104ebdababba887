/** Brings a database to the schema that this version uses, step by step, whichever process comes first. */
import { NevertwiceError } from "../../core/errors.ts";
import * as sql from "../sqlite-sql.ts";
import { lookUp, rollBack, type SqliteDatabase } from "./driver.ts";

const LATEST = sql.MIGRATIONS.length;

export function migrate(database: SqliteDatabase): void {
  if (isLatest(database)) return;
  database.exec(sql.BEGIN_WRITING);
  try {
    // Read again: another process may have done it while we waited for the lock.
    for (let version = versionOf(database); version < LATEST; version++) {
      database.exec(sql.MIGRATIONS[version] as string);
      database.prepare(sql.SET_SCHEMA_VERSION).run(version + 1);
    }
    database.exec(sql.COMMIT);
  } catch (error) {
    rollBack(database);
    throw error;
  }
}

/** Fails with `store-unsafe` on a schema from the future: its rows may mean what we do not know. */
function isLatest(database: SqliteDatabase): boolean {
  const version = versionOf(database);
  if (version <= LATEST) return version === LATEST;
  throw new NevertwiceError(
    "store-unsafe",
    `the SQLite file was written by a newer version of nevertwice (schema ${version}, and this one knows ${LATEST}); upgrade this process.`,
  );
}

function versionOf(database: SqliteDatabase): number {
  return lookUp(database, sql.HAS_SCHEMA) === undefined
    ? 0
    : (lookUp(database, sql.SCHEMA_VERSION) as number);
}
