/** Transactions that the application has open, with each driver and query builder. */
import { drizzle as drizzleMysql } from "drizzle-orm/mysql2";
import { drizzle } from "drizzle-orm/node-postgres";
import { drizzle as drizzleJs } from "drizzle-orm/postgres-js";
import createKnex from "knex";
import { Kysely, MysqlDialect, PostgresDialect } from "kysely";
import { createPool as createCallbackPool } from "mysql2";
import postgres from "postgres";
import { onTestFinished, type TestContext } from "vitest";
import { poolOn } from "../mysql/pools.ts";
import { poolOf } from "../postgres/database.ts";
import { type LedgerScene, onMysql, onPostgres } from "./scene.ts";

/** Runs `body` in a transaction of a driver, which commits if it resolves. */
export type InTransaction = <T>(
  body: (tx: unknown, execute: (text: string) => Promise<unknown>) => Promise<T>,
) => Promise<T>;

export interface Driver {
  readonly database: "postgres" | "mysql";
  readonly on: (context: TestContext) => Promise<LedgerScene>;
  readonly connect: (context: TestContext, url: string) => InTransaction;
}

const POSTGRES = { database: "postgres", on: onPostgres } as const;
const MARIADB = { database: "mysql", on: onMysql } as const;

export const DRIVERS: Readonly<Record<string, Driver>> = {
  pg: { ...POSTGRES, connect: (_, url) => pgTransactions(url) },
  "postgres.js": {
    ...POSTGRES,
    connect(_, url) {
      const sql = postgresJs(url);
      return async (body) => (await sql.begin((tx) => body(tx, async (text) => tx.unsafe(text)))) as never;
    },
  },
  mysql2: {
    ...MARIADB,
    connect(context, url) {
      const pool = poolOn(context, url);
      return async (body) => {
        const connection = await pool.getConnection();
        await connection.beginTransaction();
        try {
          const value = await body(connection, (text) => connection.query(text));
          await connection.commit();
          return value;
        } catch (error) {
          await connection.rollback();
          throw error;
        } finally {
          connection.release();
        }
      };
    },
  },
  "Kysely on Postgres": {
    ...POSTGRES,
    connect: (_, url) => kyselyTransactions(new PostgresDialect({ pool: poolOf(url) as never })),
  },
  "Kysely on MariaDB": {
    ...MARIADB,
    connect: (_, url) => kyselyTransactions(new MysqlDialect({ pool: createCallbackPool(url) })),
  },
  "Drizzle on pg": {
    ...POSTGRES,
    connect(_, url) {
      const pool = poolOf(url);
      onTestFinished(() => pool.end());
      const db = drizzle({ client: pool });
      return (body) => db.transaction((tx) => body(tx, async (text) => tx.execute(text)));
    },
  },
  "Drizzle on postgres.js": {
    ...POSTGRES,
    connect(_, url) {
      const db = drizzleJs({ client: postgresJs(url) });
      return (body) => db.transaction((tx) => body(tx, async (text) => tx.execute(text)));
    },
  },
  "Drizzle on MariaDB": {
    ...MARIADB,
    connect(_, url) {
      const pool = createCallbackPool(url);
      onTestFinished(() => pool.promise().end());
      const db = drizzleMysql({ client: pool });
      return (body) => db.transaction((tx) => body(tx, async (text) => tx.execute(text)));
    },
  },
  "Knex on Postgres": { ...POSTGRES, connect: (_, url) => knexTransactions("pg", url) },
  "Knex on MariaDB": { ...MARIADB, connect: (_, url) => knexTransactions("mysql2", url) },
};

function postgresJs(url: string) {
  const sql = postgres(url, { max: 2, onnotice: () => {} });
  onTestFinished(() => sql.end({ timeout: 1 }));
  return sql;
}

function kyselyTransactions(dialect: PostgresDialect | MysqlDialect): InTransaction {
  const db = new Kysely<object>({ dialect });
  onTestFinished(() => db.destroy());
  return (body) =>
    db
      .transaction()
      .execute((tx) =>
        body(tx, async (text) =>
          tx.executeQuery({ sql: text, parameters: [], query: {}, queryId: {} } as never),
        ),
      );
}

function knexTransactions(client: string, url: string): InTransaction {
  const knex = createKnex({ client, connection: url });
  onTestFinished(() => knex.destroy());
  return (body) => knex.transaction((tx) => body(tx, async (text) => tx.raw(text)));
}

export function pgTransactions(url: string): InTransaction {
  const pool = poolOf(url);
  onTestFinished(() => pool.end());
  return async (body) => {
    const client = await pool.connect();
    try {
      await client.query("BEGIN");
      const value = await body(client, (text) => client.query(text));
      await client.query("COMMIT");
      return value;
    } catch (error) {
      await client.query("ROLLBACK");
      throw error;
    } finally {
      client.release();
    }
  };
}
