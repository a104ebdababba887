/**
 * Tests `guard.transaction` and `attempt.step` with the transactions of real query builders, on Postgres and MariaDB: each work gets the
 * builder's own transaction object, and its write commits together with the record.
 */
import { randomUUID } from "node:crypto";
import { drizzle as drizzleMysql } from "drizzle-orm/mysql2";
import { drizzle } from "drizzle-orm/node-postgres";
import { pgTable, text } from "drizzle-orm/pg-core";
import { drizzle as drizzleJs } from "drizzle-orm/postgres-js";
import createKnex from "knex";
import { Kysely, MysqlDialect, PostgresDialect } from "kysely";
import { createPool as createCallbackPool } from "mysql2";
import postgres from "postgres";
import { describe, expect, onTestFinished, type TestContext, test } from "vitest";
import type { Attempt, Guard } from "../../src/index.ts";
import type { TransactionDatabase } from "../../src/transaction/database.ts";
import { drizzleDatabase } from "../../src/transaction/drizzle.ts";
import { knexDatabase } from "../../src/transaction/knex.ts";
import { kyselyDatabase } from "../../src/transaction/kysely.ts";
import { poolOf } from "./postgres/database.ts";
import { type LedgerScene, onMysql, onPostgres } from "./transaction/scene.ts";

interface Ledger {
  readonly ledger: { readonly key: string };
}

/** Runs the work in a transaction: `guard.transaction` or `attempt.step`. */
type Via = <Tx>(database: TransactionDatabase<Tx>, work: (tx: Tx) => Promise<string>) => Promise<string>;
type Pay = (via: Via, key: string, after?: () => unknown) => Promise<string>;

const request = (key: string) => ({ operation: "pay", key });

function transactionOf(guard: Guard, key: string): Via {
  return (database, work) => guard.transaction(request(key), database, work as never);
}

const ledger = pgTable("ledger", { key: text("key").notNull() });

function kyselyPay(db: Kysely<Ledger>): Pay {
  onTestFinished(() => db.destroy());
  return (via, key, after) =>
    via(kyselyDatabase(db), async (tx) => {
      await tx.insertInto("ledger").values({ key }).execute();
      await after?.();
      return "paid";
    });
}

const BUILDERS: Readonly<
  Record<
    string,
    { readonly on: (context: TestContext) => Promise<LedgerScene>; readonly connect: (url: string) => Pay }
  >
> = {
  "Kysely on Postgres": {
    on: onPostgres,
    connect: (url) =>
      kyselyPay(new Kysely<Ledger>({ dialect: new PostgresDialect({ pool: poolOf(url) as never }) })),
  },
  "Kysely on MariaDB": {
    on: onMysql,
    connect: (url) =>
      kyselyPay(new Kysely<Ledger>({ dialect: new MysqlDialect({ pool: createCallbackPool(url) }) })),
  },
  "Drizzle on pg": {
    on: onPostgres,
    connect(url) {
      const pool = poolOf(url);
      onTestFinished(() => pool.end());
      const db = drizzle({ client: pool });
      return (via, key, after) =>
        via(drizzleDatabase(db), async (tx) => {
          await tx.insert(ledger).values({ key });
          await after?.();
          return "paid";
        });
    },
  },
  "Drizzle on postgres.js": {
    on: onPostgres,
    connect(url) {
      const sql = postgres(url, { max: 2, onnotice: () => {} });
      onTestFinished(() => sql.end({ timeout: 1 }));
      const db = drizzleJs({ client: sql });
      return (via, key, after) =>
        via(drizzleDatabase(db), async (tx) => {
          await tx.insert(ledger).values({ key });
          await after?.();
          return "paid";
        });
    },
  },
  "Drizzle on MariaDB": {
    on: onMysql,
    connect(url) {
      const pool = createCallbackPool(url);
      onTestFinished(() => pool.promise().end());
      const db = drizzleMysql({ client: pool });
      return (via, key, after) =>
        via(drizzleDatabase(db), async (tx) => {
          await tx.execute(`INSERT INTO ledger VALUES ('${key}')`);
          await after?.();
          return "paid";
        });
    },
  },
  "Knex on Postgres": { on: onPostgres, connect: (url) => knexPay("pg", url) },
  "Knex on MariaDB": { on: onMysql, connect: (url) => knexPay("mysql2", url) },
};

function knexPay(client: string, url: string): Pay {
  const knex = createKnex({ client, connection: url });
  onTestFinished(() => knex.destroy());
  return (via, key, after) =>
    via(knexDatabase(knex), async (tx) => {
      await tx("ledger").insert({ key });
      await after?.();
      return "paid";
    });
}

for (const [name, { on, connect }] of Object.entries(BUILDERS)) {
  describe(name, () => {
    test("commits the write and the record together, and duplicates get the same value", async (context) => {
      const { url, guard, rows } = await on(context);
      const pay = connect(url);
      const key = randomUUID();
      const values = await Promise.all(Array.from({ length: 5 }, () => pay(transactionOf(guard, key), key)));
      expect(new Set(values)).toEqual(new Set(["paid"]));
      expect(await rows()).toBe(1);
      expect(await guard.read(request(key))).toMatchObject({ state: "completed", number: 1 });
    });

    test("rolls back when the work throws, and releases the key", async (context) => {
      const { url, guard, rows } = await on(context);
      const pay = connect(url);
      const key = randomUUID();
      const failing = pay(transactionOf(guard, key), key, () => Promise.reject(new Error("card declined")));
      await expect(failing).rejects.toThrow("card declined");
      expect(await rows()).toBe(0);
      expect(await guard.read(request(key))).toMatchObject({ state: "released" });
    });

    test("commits the write and a step together, and a later attempt skips both", async (context) => {
      const { url, guard, rows } = await on(context);
      const pay = connect(url);
      const key = randomUUID();
      const order = (attempt: Attempt) =>
        pay((database, work) => attempt.step("pay", database, work as never), key).then((paid) => {
          if (attempt.number === 1) throw new Error("the mail server is down");
          return `${paid} once`;
        });
      await expect(guard.run(request(key), order)).rejects.toThrow("the mail server is down");
      expect(await guard.run(request(key), order)).toBe("paid once");
      expect(await rows()).toBe(1);
    });

    test("repeats a transaction that conflicted with another one", async (context) => {
      const { url, guard, rows } = await on(context);
      const pay = connect(url);
      const key = randomUUID();
      let runs = 0;
      const conflict = Object.assign(new Error("conflict"), {
        code: "40001",
        errno: 1213,
        sqlState: "40001",
      });
      await pay(transactionOf(guard, key), key, () => {
        runs++;
        if (runs === 1) throw new Error("wrapped by the builder", { cause: conflict });
      });
      expect(runs).toBe(2);
      expect(await rows()).toBe(1);
    });
  });
}
