/** What the Postgres store adds to the contract: its options, what it refuses, and its tables. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import postgres from "postgres";
import { describe, expect, expectTypeOf, onTestFinished, type TestContext, test } from "vitest";
import { migrationText, SCHEMA_VERSION } from "../../src/stores/postgres/schema.ts";
import {
  migrationSql,
  type PostgresStore,
  type PostgresStoreOptions,
  postgresStore,
} from "../../src/stores/postgres.ts";
import { startPostgres } from "../services/postgres.ts";
import { sharedUrl, startFor } from "../services/services.ts";
import {
  claimOf,
  completionOf,
  createDatabase,
  poolOf,
  query,
  setFor,
  withPath,
  withUser,
} from "./postgres/database.ts";
import { startStandby } from "./postgres/standby.ts";

function pooled(url: string, options: pg.PoolConfig = {}): pg.Pool {
  const pool = poolOf(url, options);
  onTestFinished(() => pool.end());
  return pool;
}

type Settings = Readonly<Record<string, string>>;

/** A new, empty database. */
async function database(context: TestContext, settings: Settings = {}): Promise<string> {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  await setFor(url, settings);
  return url;
}

async function migrated(context: TestContext, settings: Settings = {}): Promise<string> {
  const url = await database(context);
  await query(url, migrationSql());
  await setFor(url, settings);
  return url;
}

describe("the options", () => {
  test("the types of pg and of postgres.js fit", () => {
    expectTypeOf<pg.Pool>().toExtend<PostgresStoreOptions["client"]>();
    expectTypeOf<postgres.Sql>().toExtend<PostgresStoreOptions["client"]>();
    expectTypeOf<pg.Pool>().toExtend<NonNullable<PostgresStoreOptions["subscriber"]>>();
    expectTypeOf<postgres.Sql>().toExtend<NonNullable<PostgresStoreOptions["subscriber"]>>();
    expectTypeOf<() => Promise<pg.Client>>().toExtend<NonNullable<PostgresStoreOptions["subscriber"]>>();
  });

  test("a single pg Client is refused, and so is one checked out of a Pool", async (context) => {
    const url = sharedUrl(context, "postgres");
    const refused = { code: "store-unsafe", message: expect.stringContaining("hand in a pg Pool") };
    const single = new pg.Client(url) as unknown as pg.Pool;
    expect(() => postgresStore({ client: single })).toThrow(expect.objectContaining(refused));
    const checkedOut = await pooled(url).connect();
    try {
      const client = checkedOut as unknown as pg.Pool;
      expect(() => postgresStore({ client })).toThrow(expect.objectContaining(refused));
    } finally {
      checkedOut.release();
    }
  });

  test("a transaction and a reserved connection of postgres.js are refused", async (context) => {
    const sql = postgres(sharedUrl(context, "postgres"), { max: 2 });
    onTestFinished(() => sql.end());
    const refused = { code: "store-unsafe", message: expect.stringContaining("the sql it was made from") };
    await sql.begin(async (transaction) => {
      const client = transaction as unknown as postgres.Sql;
      expect(() => postgresStore({ client })).toThrow(expect.objectContaining(refused));
    });
    const reserved = await sql.reserve();
    const client = reserved as unknown as postgres.Sql;
    expect(() => postgresStore({ client })).toThrow(expect.objectContaining(refused));
    reserved.release();
  });

  test("an invalid client, an unknown option and an invalid option are refused", (context) => {
    const client = pooled(sharedUrl(context, "postgres"), { max: 1 });
    const wrong: [unknown, string][] = [
      [{}, "client must be a pg Pool or the sql of postgres.js"],
      [{ client: "postgres://localhost" }, "client must be a pg Pool"],
      [{ client, table: "records" }, 'no option called "table"'],
      [{ client, prepare: "no" }, "prepare must be true or false"],
      [{ client, schema: 'a"; DROP TABLE x' }, "name of a Postgres schema"],
      [{ client, schema: "é".repeat(40) }, "at most 63 bytes"],
      [{ client, subscriber: 5 }, "subscriber must be"],
      [{ client, subscriber: client }, "which has one connection"],
    ];
    for (const [options, message] of wrong) {
      expect(() => postgresStore(options as PostgresStoreOptions)).toThrow(
        expect.objectContaining({ code: "options-invalid", message: expect.stringContaining(message) }),
      );
    }
  });

  test("one pool serves the tables of several schemas", async (context) => {
    const client = pooled(await database(context), { max: 1 });
    const stores = ["one", "Zwei-2", undefined].map((schema) =>
      postgresStore({ client, ...(schema !== undefined && { schema }) }),
    );
    const claim = claimOf();
    for (const store of stores) {
      await store.migrate();
      expect(await store.claim(claim)).toMatchObject({ status: "new", number: 1 });
    }
    await stores[1]?.complete(completionOf(claim));
    const states = await Promise.all(stores.map((store) => store.read(claim.id)));
    expect(states.map((record) => record?.state)).toEqual(["pending", "completed", "pending"]);
  });

  test("type parsers of the application change nothing", async (context) => {
    const types = { getTypeParser: () => () => "spoilt" };
    const store = postgresStore({ client: pooled(await migrated(context), { types }) });
    const claim = claimOf();
    expect(await store.claim(claim)).toMatchObject({ status: "new", number: 1, tookOver: false });
    expect(await store.complete(completionOf(claim))).toBe(true);
    expect(await store.read(claim.id)).toMatchObject({ state: "completed", outcome: "done" });
  });

  test("transformations of the application change nothing with postgres.js", async (context) => {
    const sql = postgres(await migrated(context), {
      transform: { undefined: null, column: () => "spoilt", value: () => "spoilt" },
    });
    onTestFinished(() => sql.end());
    const store = postgresStore({ client: sql });
    const claim = claimOf();
    expect(await store.claim(claim)).toMatchObject({ status: "new", number: 1, tookOver: false });
    expect(await store.read(claim.id)).toMatchObject({ state: "pending", token: claim.token });
  });
});

describe("migrate", () => {
  const tables = "SELECT version FROM nevertwice_migrations ORDER BY version";
  const all = Array.from({ length: SCHEMA_VERSION }, (_, index) => ({ version: index + 1 }));

  test("ten simultaneous clients migrate once", async (context) => {
    const url = await database(context);
    const pools = Array.from({ length: 10 }, () => pooled(url));
    await Promise.all(pools.map((client) => postgresStore({ client }).migrate()));
    expect(await query(url, tables)).toEqual(all);
  });

  for (const level of ["serializable", "repeatable read"]) {
    test(`ten simultaneous clients migrate once when transactions are ${level} by default`, async (context) => {
      const url = await database(context, { default_transaction_isolation: level });
      const pools = Array.from({ length: 10 }, () => pooled(url));
      await Promise.all(pools.map((client) => postgresStore({ client }).migrate()));
      expect(await query(url, tables)).toEqual(all);
    });
  }

  test("migrate works through PgBouncer and with postgres.js", async (context) => {
    const [first, second] = [await database(context), await database(context)];
    const bounced = pooled(withPath(sharedUrl(context, "pgbouncer"), new URL(first).pathname.slice(1)));
    await postgresStore({ client: bounced, prepare: false }).migrate();
    expect(await query(first, tables)).toEqual(all);
    const sql = postgres(second, { max: 2 });
    onTestFinished(() => sql.end());
    await postgresStore({ client: sql }).migrate();
    expect(await query(second, tables)).toEqual(all);
  });

  test("migrate runs the output of migrationSql, and no other statement that writes", async (context) => {
    const texts: string[] = [];
    const client = pooled(await database(context));
    client.on("connect", (connection) => {
      const asked = connection.query.bind(connection) as (...given: unknown[]) => unknown;
      const recording = (...given: unknown[]) => {
        const [first] = given;
        texts.push(typeof first === "string" ? first : (first as { text: string }).text);
        return asked(...given);
      };
      connection.query = recording as typeof connection.query;
    });
    await postgresStore({ client, schema: "apart" }).migrate();
    expect(texts).toEqual([
      "BEGIN ISOLATION LEVEL READ COMMITTED",
      migrationSql({ schema: "apart" }),
      "COMMIT",
    ]);
  });

  test("an operator may run the output of migrationSql by hand, twice", async (context) => {
    const url = await database(context);
    await query(url, migrationSql());
    await query(url, migrationSql());
    const store = postgresStore({ client: pooled(url) });
    expect(await store.claim(claimOf())).toMatchObject({ status: "new" });
  });

  test("tables of the previous version are migrated, and their records are kept", async (context) => {
    const url = await database(context);
    await query(url, migrationText(undefined, SCHEMA_VERSION - 1));
    const { id, parts, token } = claimOf();
    const now = Date.now() * 1_000;
    await query(
      url,
      `INSERT INTO nevertwice_records (id, state, token, spent, hold, took_over, number, fence, claimed_at, lease,
        lease_ends_at, retention, kept_until, completed_at, purge_at, parts, outcome)
      VALUES ('${id}', 'completed', '${token}', false, false, false, 1, 7, ${now}, 1000, ${now}, 1000,
        ${now + 3_600_000_000}, ${now}, ${now + 3_700_000_000}, '${JSON.stringify(Object.values(parts))}', 'kept')`,
    );
    const store = postgresStore({ client: pooled(url) });
    await expect(store.read(id)).rejects.toMatchObject({
      code: "store-unsafe",
      message: expect.stringMatching(/version 2, and this library needs 3; run migrate\(\)/),
    });
    await store.migrate();
    expect(await store.read(id)).toMatchObject({ state: "completed", outcome: "kept", parts, fence: 7 });
    const indexes = await query(
      url,
      "SELECT indexname FROM pg_indexes WHERE tablename = 'nevertwice_records'",
    );
    expect(indexes).toContainEqual({ indexname: "nevertwice_records_purge_at" });
  });

  test("a migration that fails changes nothing, and the connection stays usable", async (context) => {
    const url = await database(context);
    await query(url, "CREATE TABLE nevertwice_records (id text)");
    const client = pooled(url, { max: 1 });
    await expect(postgresStore({ client }).migrate()).rejects.toMatchObject({ code: "42P07" });
    expect((await client.query("SELECT to_regclass('nevertwice_migrations') AS found")).rows).toEqual([
      { found: null },
    ]);
  });
});

describe("servers and tables that the store refuses", () => {
  test("a server that cannot be reached is unavailable", async () => {
    const store = postgresStore({ client: pooled("postgres://nevertwice@127.0.0.1:1/postgres") });
    await expect(store.claim(claimOf())).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringContaining("cannot be reached"),
      cause: expect.objectContaining({ code: "ECONNREFUSED" }),
    });
  });

  test("a pool that has no free connection in time is unavailable", async (context) => {
    const client = pooled(await migrated(context), { max: 1, connectionTimeoutMillis: 50 });
    const busy = await client.connect();
    await expect(postgresStore({ client }).read("x")).rejects.toMatchObject({ code: "unavailable" });
    busy.release();
  });

  test("wrong credentials are unsafe, with pg and with postgres.js", async (context) => {
    const url = withUser(sharedUrl(context, "postgres"), "guarded", "wrong");
    const sql = postgres(url);
    onTestFinished(() => sql.end());
    for (const client of [pooled(url), sql]) {
      await expect(postgresStore({ client }).claim(claimOf())).rejects.toMatchObject({
        code: "store-unsafe",
        message: expect.stringContaining("refused the credentials"),
      });
    }
  });

  test("a database that does not exist is unsafe", async (context) => {
    const client = pooled(withPath(sharedUrl(context, "postgres"), "nowhere"));
    await expect(postgresStore({ client }).claim(claimOf())).rejects.toMatchObject({
      code: "store-unsafe",
      message: expect.stringContaining("no such database"),
    });
  });

  test("missing tables are unsafe until they are migrated, without a new store", async (context) => {
    const store = postgresStore({ client: pooled(await database(context)) });
    const claims = [claimOf(), claimOf(), claimOf()];
    for (const answer of await Promise.allSettled(claims.map((claim) => store.claim(claim)))) {
      expect(answer).toMatchObject({
        status: "rejected",
        reason: { code: "store-unsafe", message: expect.stringContaining("run migrate()") },
      });
    }
    await store.migrate();
    expect(await store.claim(claimOf())).toMatchObject({ status: "new" });
  });

  test("tables that were dropped while the store ran are unsafe", async (context) => {
    const url = await migrated(context);
    const store = postgresStore({ client: pooled(url) });
    await store.claim(claimOf());
    await query(url, "DROP TABLE nevertwice_records");
    await expect(store.claim(claimOf())).rejects.toMatchObject({ code: "store-unsafe" });
  });

  test("migrate() creates a table that was dropped by hand, and the same store uses it", async (context) => {
    const url = await migrated(context);
    const store = postgresStore({ client: pooled(url) });
    const claim = claimOf();
    await store.claim(claim);
    await query(url, "DROP TABLE nevertwice_records");
    await expect(store.claim(claim)).rejects.toMatchObject({
      code: "store-unsafe",
      message: expect.stringContaining("run migrate()"),
    });
    await store.migrate();
    expect(await store.claim(claim)).toMatchObject({ status: "new", number: 1 });
    const rows = await query(url, "SELECT version FROM nevertwice_migrations ORDER BY version");
    expect(rows.map(({ version }) => version)).toEqual([1, 2, 3]);
  });

  test("tables of a newer version are unsafe", async (context) => {
    const url = await migrated(context);
    await query(url, "INSERT INTO nevertwice_migrations (version) VALUES (1000)");
    const store = postgresStore({ client: pooled(url) });
    await expect(store.claim(claimOf())).rejects.toMatchObject({
      code: "store-unsafe",
      message: expect.stringContaining("upgrade nevertwice"),
    });
  });

  test("a read-only database is unsafe at the start, and unavailable later", async (context) => {
    const url = await migrated(context, { default_transaction_read_only: "on" });
    const store = postgresStore({ client: pooled(url) });
    const refused = { code: "store-unsafe", message: expect.stringContaining("read-only") };
    await expect(store.claim(claimOf())).rejects.toMatchObject(refused);

    const other = await migrated(context);
    const client = pooled(other, { idleTimeoutMillis: 1 });
    const later = postgresStore({ client });
    await later.claim(claimOf());
    await setFor(other, { default_transaction_read_only: "on" });
    await expect.poll(() => client.totalCount).toBe(0);
    await expect(later.claim(claimOf())).rejects.toMatchObject({ ...refused, code: "unavailable" });
  });

  test("a role without permissions is unsafe", async (context) => {
    const url = await migrated(context);
    const store = postgresStore({ client: pooled(withUser(url, "guarded", "secret")) });
    await expect(store.claim(claimOf())).rejects.toMatchObject({
      code: "store-unsafe",
      message: expect.stringContaining("grant it SELECT, INSERT, UPDATE and DELETE"),
    });
    await query(
      url,
      "GRANT SELECT, INSERT, UPDATE, DELETE ON nevertwice_records TO guarded; GRANT SELECT ON nevertwice_migrations TO guarded",
    );
    expect(await store.claim(claimOf())).toMatchObject({ status: "new" });
  });

  test("a database whose encoding cannot store every text is unsafe", async (context) => {
    const url = sharedUrl(context, "postgres");
    const name = `nevertwice_${randomUUID().slice(0, 8)}`;
    await query(url, `CREATE DATABASE ${name} ENCODING 'LATIN1' TEMPLATE template0`);
    await query(withPath(url, name), migrationSql());
    const store = postgresStore({ client: pooled(withPath(url, name)) });
    await expect(store.claim(claimOf())).rejects.toMatchObject({
      code: "store-unsafe",
      message: expect.stringContaining("LATIN1"),
    });
  });

  test("a replica is unsafe for every step, and unavailable if the store was on a primary before", async (context) => {
    const primary = await startFor(context, () => startPostgres());
    await query(primary.url, migrationSql());
    const standby = await startFor(context, () => startStandby(primary));
    const refused = { code: "store-unsafe", message: expect.stringContaining("replica") };
    await expect(postgresStore({ client: pooled(standby.url) }).claim(claimOf())).rejects.toMatchObject(
      refused,
    );

    // A failover redirects the client: the store has checked the primary, and is now connected to the standby.
    let client = pooled(primary.url);
    const led = {
      query: (config: pg.QueryArrayConfig) => client.query(config),
      connect: () => client.connect(),
      totalCount: 1,
    };
    const store = postgresStore({ client: led as unknown as pg.Pool });
    const claim = claimOf();
    expect(await store.claim(claim)).toMatchObject({ status: "new" });
    client = pooled(standby.url);
    const demoted = { ...refused, code: "unavailable" };
    await expect(store.claim(claim)).rejects.toMatchObject(demoted);
    await expect(store.complete(completionOf(claim))).rejects.toMatchObject(demoted);
    await expect(store.read(claim.id)).rejects.toMatchObject(demoted);
    await expect(store.list?.({ namespace: "nobody's", limit: 1 })).rejects.toMatchObject(demoted);
  });

  test("prepared statements behind PgBouncer are unsafe, and the error names the option to set", async (context) => {
    const url = await migrated(context);
    const bounced = withPath(sharedUrl(context, "pgbouncer"), new URL(url).pathname.slice(1));
    const [one, two] = [pooled(bounced, { max: 1 }), pooled(bounced, { max: 1 })].map((client) =>
      postgresStore({ client }),
    ) as [PostgresStore, PostgresStore];
    await one.claim(claimOf());
    // PgBouncer gives the second process the connection on which the first one prepared its statements.
    await expect(two.claim(claimOf())).rejects.toMatchObject({
      code: "store-unsafe",
      message: expect.stringContaining("set prepare: false"),
    });
  });

  test("a full disk is store-full", async (context) => {
    const url = await migrated(context);
    await query(
      url,
      `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;
      CREATE TRIGGER full_disk BEFORE INSERT ON nevertwice_records EXECUTE FUNCTION full_disk()`,
    );
    const store = postgresStore({ client: pooled(url) });
    await expect(store.claim(claimOf())).rejects.toMatchObject({ code: "store-full" });
  });

  test("a server without free connections is unavailable", async (context) => {
    const url = await migrated(context);
    const name = new URL(url).pathname.slice(1);
    await query(sharedUrl(context, "postgres"), `ALTER DATABASE ${name} CONNECTION LIMIT 0`);
    await query(sharedUrl(context, "postgres"), `GRANT CONNECT ON DATABASE ${name} TO guarded`);
    const store = postgresStore({ client: pooled(withUser(url, "guarded", "secret")) });
    await expect(store.claim(claimOf())).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringContaining("no connection left"),
    });
  });
});

describe("a server whose default isolation is not READ COMMITTED", () => {
  for (const level of ["serializable", "repeatable read"]) {
    test(`two clients get one owner for each key when transactions are ${level}`, async (context) => {
      const url = await migrated(context, { default_transaction_isolation: level });
      const sql = postgres(url, { max: 4 });
      onTestFinished(() => sql.end());
      const stores = [postgresStore({ client: pooled(url) }), postgresStore({ client: sql })];
      const keys = Array.from({ length: 100 }, () => randomUUID());
      const claims = stores.map((store, index) =>
        Promise.all((index === 0 ? keys : keys.toReversed()).map((key) => store.claim(claimOf(key)))),
      );
      const answers = (await Promise.all(claims)).flat();
      expect(answers.filter(({ status }) => status === "new")).toHaveLength(100);
      expect(answers.filter(({ status }) => status === "pending")).toHaveLength(100);
    });
  }
});

test("close ends the subscriber's connection, and leaves the client open", async (context) => {
  const client = pooled(await migrated(context));
  const store = postgresStore({ client, subscriber: client });
  const claim = claimOf();
  const stop = await store.watch?.({ id: claim.id, wake: () => {} });
  expect(client.totalCount - client.idleCount).toBe(1);
  stop?.();
  await store.close();
  expect(client.totalCount - client.idleCount).toBe(0);
  expect((await client.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }]);
  await expect(store.watch?.({ id: claim.id, wake: () => {} })).rejects.toMatchObject({
    code: "unavailable",
  });
});
