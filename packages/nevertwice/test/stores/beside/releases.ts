/** Two releases on one database: this one, and one without steps and history, which runs the statements of that release. */
import { onTestFinished, type TestContext } from "vitest";
import type { Store } from "../../../src/core/store.ts";
import { mysqlStore } from "../../../src/stores/mysql.ts";
import { postgresStore } from "../../../src/stores/postgres.ts";
import { sqliteStore } from "../../../src/stores/sqlite.ts";
import { FIND, KEEP_HISTORY } from "../../../src/stores/sqlite-sql.ts";
import { sharedUrl } from "../../services/services.ts";
import { newDatabase, poolOn } from "../mysql/pools.ts";
import { createDatabase, poolOf, query } from "../postgres/database.ts";
import { connections, scratchFiles } from "../sqlite/scratch.ts";

export interface Releases {
  readonly withSteps: Store;
  readonly withoutSteps: Store;
  /** Until then the tables are those of the release without steps. */
  migrate(): Promise<void>;
}

const connect = connections();
const fileNamed = scratchFiles();

/** The release without steps reads neither column and writes no history, and has no other statement that this one lacks. */
async function onSqlite(): Promise<Releases> {
  const file = fileNamed();
  const withSteps = sqliteStore({ database: connect(file) });
  const other = connect(file);
  const itsOwn = new Map([
    [FIND, FIND.replace(", steps, history FROM", ", NULL, NULL FROM")],
    [KEEP_HISTORY, KEEP_HISTORY.replace("SET history = ? WHERE", "SET token = token WHERE ? = 'never' AND")],
  ]);
  const prepare = (sql: string) => other.prepare(itsOwn.get(sql) ?? sql);
  const database = { exec: (sql: string) => other.exec(sql), prepare };
  // This release adds the column and the index when it opens the file.
  return { withSteps, withoutSteps: sqliteStore({ database: database as never }), migrate: async () => {} };
}

export async function pools(context: TestContext) {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  const [first, second] = [poolOf(url), poolOf(url)];
  onTestFinished(async () => {
    await first.end();
    await second.end();
  });
  return { url, first, second };
}

export const DROP_STEPS = "ALTER TABLE nevertwice_records DROP COLUMN steps, DROP COLUMN history";

/** A store that met tables without the column goes on with the statements of the release without steps for a while. */
async function onPostgres(context: TestContext): Promise<Releases> {
  const { url, first, second } = await pools(context);
  const withSteps = postgresStore({ client: first });
  await withSteps.migrate();
  await query(url, DROP_STEPS);
  const withoutSteps = postgresStore({ client: second });
  await withoutSteps.read("none");
  return { withSteps, withoutSteps, migrate: () => withSteps.migrate() };
}

type Query = (...args: unknown[]) => Promise<readonly unknown[]>;

/** Hides the columns, and that they are there: the release without steps neither reads nor writes them. */
function hidingSteps(run: Query): Query {
  return async (...args) => {
    const [rows, ...rest] = await run(...args);
    const hidden = Array.isArray(rows)
      ? rows.map(({ steps: _, history: __, additions: ___, ...row }) => row)
      : rows;
    return [hidden, ...rest];
  };
}

async function onMysql(context: TestContext): Promise<Releases> {
  const url = await newDatabase(context);
  const withSteps = mysqlStore({ client: poolOn(context, url) });
  await withSteps.migrate();
  const pool = poolOn(context, url);
  const client = {
    query: hidingSteps(pool.query.bind(pool) as Query),
    async getConnection() {
      const connection = await pool.getConnection();
      return Object.assign(connection, { query: hidingSteps(connection.query.bind(connection) as Query) });
    },
  };
  await pool.query(DROP_STEPS);
  return {
    withSteps,
    withoutSteps: mysqlStore({ client: client as never }),
    migrate: () => withSteps.migrate(),
  };
}

export const RELEASES: readonly (readonly [
  store: string,
  open: (context: TestContext) => Promise<Releases>,
])[] = [
  ["SQLite", onSqlite],
  ["Postgres", onPostgres],
  ["MySQL", onMysql],
];
