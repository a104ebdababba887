/** Makes the tables, or brings them up to this version, one process at a time. */
import { NevertwiceError } from "../../core/errors.ts";
import { LOCK_SQL, type Migration, UNLOCK_SQL } from "../mysql-sql.ts";
import { change, type MysqlClient, type MysqlConnection, rowsOf } from "./client.ts";
import { failure, isThereAlready, missingTables } from "./failures.ts";
import { numberOf } from "./row.ts";

/** Tables that belong together, and how it is known which version they have. */
export interface Tables {
  readonly VERSIONS_TABLE: string;
  readonly VERSION_SQL: string;
  versionReachedSql(version: number): string;
  /** In order; the last one's version is that of the tables. */
  readonly MIGRATIONS: readonly Migration[];
}

/** What `migrate` runs, for whoever lets no application change tables: every statement, on a database without them. */
export function migrationSqlOf({ VERSIONS_TABLE, MIGRATIONS, versionReachedSql }: Tables): string {
  const statements = MIGRATIONS.flatMap(({ version, sql }) => [sql, versionReachedSql(version)]);
  return [VERSIONS_TABLE, ...statements].map((sql) => `${sql};\n`).join("\n");
}

export async function migrate(client: MysqlClient, tables: Tables): Promise<void> {
  try {
    // A lock is its connection's: all of this happens on one.
    const connection = await client.getConnection();
    try {
      await withLock(connection, () => migrateAlone(connection, tables));
    } finally {
      connection.release();
    }
  } catch (error) {
    throw failure(error);
  }
}

async function withLock(connection: MysqlConnection, action: () => Promise<void>): Promise<void> {
  const [row] = await rowsOf(connection, LOCK_SQL);
  if (row === undefined || numberOf(row, "is_locked") !== 1) {
    throw new NevertwiceError("unavailable", "another migration of these tables has run for a minute.");
  }
  try {
    await action();
  } finally {
    // A connection that broke has lost the lock with it.
    await rowsOf(connection, UNLOCK_SQL).catch(() => {});
  }
}

async function migrateAlone(connection: MysqlConnection, tables: Tables): Promise<void> {
  await change(connection, tables.VERSIONS_TABLE);
  const reached = await versionOf(connection, tables);
  for (const { version, sql } of tables.MIGRATIONS) {
    if (version <= reached) continue;
    try {
      await change(connection, sql);
    } catch (error) {
      if (!isThereAlready(error)) throw error;
    }
    await change(connection, tables.versionReachedSql(version));
  }
}

/** Fails with `store-unsafe` unless the tables are of exactly this version. */
export async function checkVersion(client: MysqlClient, tables: Tables): Promise<void> {
  const reached = await versionOf(client, tables);
  const ours = tables.MIGRATIONS.length;
  if (reached === 0) throw missingTables();
  if (reached === ours) return;
  const [needs, toDo] =
    reached > ours ? ["knows", "Upgrade nevertwice here."] : ["needs", "Run migrate() once."];
  throw new NevertwiceError(
    "store-unsafe",
    `the tables have version ${reached}, and this nevertwice ${needs} ${ours}. ${toDo}`,
  );
}

async function versionOf(client: Pick<MysqlClient, "query">, { VERSION_SQL }: Tables): Promise<number> {
  const [row] = await rowsOf(client, VERSION_SQL);
  return row === undefined ? 0 : numberOf(row, "version");
}
