/**
 * Tests the published cases on MariaDB: with a default pool, with a pool whose every option differs from the default, and on a
 * server whose clock the tests move.
 */
import { createPool, type Pool } from "mysql2/promise";
import { afterAll, beforeAll, describe, inject } from "vitest";
import { mysqlStore } from "../../src/stores/mysql.ts";
import { startMariadb } from "../services/mariadb.ts";
import type { Server } from "../services/server.ts";
import { CLOCK_CANNOT_GO_BACK, describeStoreCases, NO_WATCH } from "./cases.ts";

const pools: Pool[] = [];
afterAll(() => Promise.all(pools.map((pool) => pool.end())));

/** One pool for all cases, created by the first. */
function casesOver(createPoolOn: (url: string) => Pool) {
  let pool: Pool | undefined;
  return async () => {
    if (pool === undefined) {
      pool = createPoolOn(inject("services").mysql as string);
      pools.push(pool);
    }
    const store = mysqlStore({ client: pool });
    await store.migrate();
    return store;
  };
}

const without = { ...CLOCK_CANNOT_GO_BACK, ...NO_WATCH };

describeStoreCases(
  "mysqlStore on MariaDB",
  casesOver((uri) => createPool({ uri })),
  { service: "mysql", without },
);

/** Every pool option about text, numbers, rows and counts, each set to its other value. */
function contraryPool(uri: string): Pool {
  const pool = createPool({
    uri,
    charset: "latin1",
    timezone: "+05:45",
    rowsAsArray: true,
    nestTables: "_",
    namedPlaceholders: true,
    supportBigNumbers: true,
    bigNumberStrings: true,
    typeCast: (_field, next) => `cast: ${String(next())}`,
    flags: ["-FOUND_ROWS"],
  });
  pool.on("connection", (connection) => {
    connection.query("SET SESSION sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,SIMULTANEOUS_ASSIGNMENT'");
    connection.query("SET SESSION time_zone = '-11:00', tx_isolation = 'SERIALIZABLE'");
  });
  return pool;
}

describeStoreCases("mysqlStore on MariaDB, with every pool option changed", casesOver(contraryPool), {
  service: "mysql",
  without,
});

describe("with a clock that can be moved", () => {
  let server: Server;
  let pool: Pool;
  beforeAll(async () => {
    if (typeof inject("services").mysql !== "string") return;
    server = await startMariadb({ clock: true, settings: { "innodb-flush-log-at-trx-commit": 2 } });
    pool = createPool({ uri: server.url });
  });
  afterAll(async () => {
    await pool?.end();
    await server?.stop();
  });

  describeStoreCases(
    "mysqlStore on MariaDB, moving its clock",
    async () => {
      const store = mysqlStore({ client: pool });
      await store.migrate();
      return { store, advance: (ms) => server.stepClock(ms) };
    },
    { service: "mysql", without: NO_WATCH, oneByOne: true, row: "MySQL, MariaDB" },
  );
});
