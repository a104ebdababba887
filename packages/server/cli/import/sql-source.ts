/**
 * Reads a table of three columns (`key`, `value`, `expires_at`) in the order of its primary key, on Postgres, MySQL or SQLite.
 * Times are judged by the clock of the database where it stores points in time.
 */
import { importDriver } from "nevertwice/stores/open";
import { UsageError } from "../command.ts";
import { requireExistingFile, sqliteFile } from "../existing-file.ts";
import { PAGE, type Source, type SourceEntry, takeParameter } from "./source.ts";

interface TableRow {
  readonly key: string;
  readonly value: string;
  readonly left_ms: number | string | null;
}

/** Reads rows after a key; undefined: from the beginning. */
type ReadRows = (after: string | undefined) => Promise<readonly TableRow[]>;

const NAME = /^[A-Za-z_][\w$]*(\.[A-Za-z_][\w$]*)?$/;

/** Takes the parameter `table` of the URL; without it, `table` is read. */
export async function sqlSource(given: string, table: string): Promise<Source> {
  const [named = table, url] = takeParameter(given, "table");
  if (!NAME.test(named)) throw new UsageError(`the table ${JSON.stringify(named)} is not a name of a table.`);
  if (url.startsWith("sqlite:")) return sqliteTable(url, named);
  return url.startsWith("mysql:") ? mysqlTable(url, named) : postgresTable(url, named);
}

function tableSource(total: number, read: ReadRows, close: () => Promise<void>): Source {
  let position = 0;
  return {
    total,
    async page(after) {
      const rows = await read(after);
      position += rows.length;
      const next = rows.length < PAGE ? undefined : rows.at(-1)?.key;
      return { entries: rows.map(toEntry), next, position };
    },
    close,
  };
}

function toEntry({ key, value, left_ms: left }: TableRow): SourceEntry {
  return { key, value, leftMs: left === null ? null : Number(left) };
}

function quoted(name: string, quote: string): string {
  return name
    .split(".")
    .map((part) => `${quote}${part}${quote}`)
    .join(".");
}

async function postgresTable(url: string, name: string): Promise<Source> {
  const { default: pg } = await import("pg");
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
  client.on("error", () => {});
  await client.connect();
  const table = quoted(name, '"');
  const columns = "key, value, (extract(epoch FROM expires_at - now()) * 1000)::float8 AS left_ms";
  try {
    const { rows } = await client.query(`SELECT count(*)::float8 AS total FROM ${table}`);
    return tableSource(
      rows[0].total,
      async (after) => {
        const where = after === undefined ? "" : "WHERE key > $2";
        const values = after === undefined ? [PAGE] : [PAGE, after];
        const text = `SELECT ${columns} FROM ${table} ${where} ORDER BY key LIMIT $1`;
        return (await client.query<TableRow>(text, values)).rows;
      },
      () => client.end(),
    );
  } catch (error) {
    await client.end();
    throw error;
  }
}

interface MysqlModule {
  createConnection(config: object): Promise<{
    query(text: string, values?: readonly unknown[]): Promise<[readonly Record<string, unknown>[], unknown]>;
    end(): Promise<void>;
  }>;
}

async function mysqlTable(url: string, name: string): Promise<Source> {
  const mysql = await importDriver<MysqlModule>("mysql2/promise", "mysql2", "a mysql: URL");
  const connection = await mysql.createConnection({ uri: url, connectTimeout: 5_000 });
  const table = quoted(name, "`");
  try {
    const [counted] = await connection.query(`SELECT count(*) AS total FROM ${table}`);
    return tableSource(
      Number(counted[0]?.total),
      async (after) => {
        const where = after === undefined ? "" : "WHERE `key` > ?";
        const text = `SELECT \`key\`, \`value\`, \`expires_at\` FROM ${table} ${where} ORDER BY \`key\` LIMIT ?`;
        const [rows] = await connection.query(text, after === undefined ? [PAGE] : [after, PAGE]);
        return rows.map(({ key, value, expires_at: at }) => ({
          key: key as string,
          value: value as string,
          // A DATETIME has no time zone. The driver writes and reads it in the same one, so its clock judges it.
          left_ms: at === null ? null : (at as Date).getTime() - Date.now(),
        }));
      },
      () => connection.end(),
    );
  } catch (error) {
    await connection.end();
    throw error;
  }
}

async function sqliteTable(url: string, name: string): Promise<Source> {
  requireExistingFile(url);
  const { DatabaseSync } = await import("@photostructure/sqlite");
  const database = new DatabaseSync(sqliteFile(url) as string, { readOnly: true });
  const table = quoted(name, '"');
  const columns = `key, value, (expires_at - CAST(strftime('%s', 'now') AS INTEGER)) * 1000 AS left_ms`;
  try {
    const total = database.prepare(`SELECT count(*) AS total FROM ${table}`).get() as { total: number };
    const first = database.prepare(`SELECT ${columns} FROM ${table} ORDER BY key LIMIT ${PAGE}`);
    const later = database.prepare(
      `SELECT ${columns} FROM ${table} WHERE key > ? ORDER BY key LIMIT ${PAGE}`,
    );
    return tableSource(
      total.total,
      async (after) =>
        (after === undefined ? first.all() : later.all(after)) as unknown as readonly TableRow[],
      async () => database.close(),
    );
  } catch (error) {
    database.close();
    throw error;
  }
}
