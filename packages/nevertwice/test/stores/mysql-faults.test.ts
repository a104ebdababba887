/** Tests the MySQL store when the connection breaks, the server is down, or the server is configured wrongly. */
import type { Pool, RowDataPacket } from "mysql2/promise";
import { expect, type TestContext, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { createGuard } from "../../src/index.ts";
import { isReadOnly, toStoreError } from "../../src/stores/mysql/errors.ts";
import { NOW_US } from "../../src/stores/mysql/values.ts";
import { mysqlStore } from "../../src/stores/mysql.ts";
import { startMariadb } from "../services/mariadb.ts";
import { type Filter, startProxy } from "../services/proxy.ts";
import { startFor } from "../services/services.ts";
import { claimOf } from "./claim-request.ts";
import {
  expectBackAfterRefusal,
  expectClaimRecognised,
  STEPS,
  testRepeatedStep,
  UNAVAILABLE,
} from "./lost-replies.ts";
import { newDatabase, newStore, poolOn, poolRunningFirst, urlWith } from "./mysql/pools.ts";

/** A store behind a proxy, and a second one directly on the server. */
async function throughProxy(context: TestContext) {
  const { url, store: direct } = await newStore(context);
  const proxy = await startFor(context, () => startProxy(url));
  const store = mysqlStore({ client: poolOn(context, proxy.url) });
  await store.read("warm");
  return { store, direct, proxy };
}

const sent =
  (text: string): Filter =>
  (chunk) =>
    chunk.includes(text);

test("lost-reply: a claim whose reply was lost is recognised by its token", async (context) => {
  await expectClaimRecognised(await throughProxy(context), sent("INSERT INTO nevertwice_records"));
});

test("lost-reply: a takeover whose reply was lost is recognised by its token", async (context) => {
  const { store, direct, proxy } = await throughProxy(context);
  const owner = claimOf("a");
  await store.claim(owner);
  await store.abandon({ id: owner.id, token: owner.token, as: "unknown" });
  const successor = claimOf("a");
  proxy.cutReply(1, sent("UPDATE nevertwice_records"));
  await expect(store.claim(successor)).rejects.toMatchObject(UNAVAILABLE);
  const fence = (await direct.read(owner.id))?.fence;
  expect(await store.claim(successor)).toEqual({ status: "new", fence, number: 2, tookOver: true });
});

for (const name of Object.keys(STEPS) as (keyof typeof STEPS)[]) {
  testRepeatedStep(name, "read", sent("SELECT r.*"), throughProxy);
  testRepeatedStep(name, "write", sent("UPDATE nevertwice_records"), throughProxy);
}

test("lost-reply: read, list, purge and forget succeed when they are repeated", async (context) => {
  const { store, proxy } = await throughProxy(context);
  const owner = claimOf("a");
  await store.claim(owner);
  await store.complete({ id: owner.id, token: owner.token, outcome: "done", retentionMs: 60_000 });
  const { fence = 0 } = (await store.read(owner.id)) ?? {};
  for (const ask of [
    () => store.read(owner.id),
    () => store.list?.({ namespace: "n", limit: 10 }),
    () => store.purge(10),
    () => store.forget?.({ id: owner.id, fence }),
    () => store.settings?.(),
  ]) {
    proxy.cutReply(1);
    await expect(ask()).rejects.toMatchObject(UNAVAILABLE);
    expect(await ask()).toBeTruthy();
  }
});

test("a server that refuses connections is unavailable, and the store works once it is back", async (context) => {
  await expectBackAfterRefusal(await throughProxy(context));
});

test("a killed server keeps what it acknowledged", async (context) => {
  const server = await startFor(context, () => startMariadb());
  const store = mysqlStore({ client: poolOn(context, server.url) });
  await store.migrate();
  const owner = claimOf("a");
  await store.claim(owner);
  await server.kill();
  await expect(store.claim(claimOf("b"))).rejects.toMatchObject(UNAVAILABLE);
  await server.restart();
  expect(await store.claim(claimOf("a"))).toMatchObject({ status: "pending" });
  expect(await store.renew({ id: owner.id, token: owner.token, leaseMs: 60_000 })).toBe(true);
});

test("an ended pool and a full pool are unavailable", async (context) => {
  const { url } = await newStore(context);
  const busy = poolOn(context, url, { connectionLimit: 1, waitForConnections: false });
  const taken = await busy.getConnection();
  await expect(mysqlStore({ client: busy }).read("a")).rejects.toMatchObject(UNAVAILABLE);
  taken.release();
  const ended = poolOn(context, url);
  await ended.end();
  await expect(mysqlStore({ client: ended }).read("a")).rejects.toMatchObject(UNAVAILABLE);
});

test("a server with too many connections is unavailable", async (context) => {
  const settings = { max_connections: 10, extra_max_connections: 1 };
  const server = await startFor(context, () => startMariadb({ settings }));
  const store = mysqlStore({ client: poolOn(context, server.url) });
  const crowd = poolOn(context, server.url, { connectionLimit: 20 });
  const taken: Awaited<ReturnType<Pool["getConnection"]>>[] = [];
  const fill = async () => {
    for (let i = 0; i < 20; i++) taken.push(await crowd.getConnection());
  };
  // The server sends error 1040 and closes the connection; sometimes only the second arrives.
  await expect(fill()).rejects.toThrow();
  await expect(store.read("a")).rejects.toMatchObject(UNAVAILABLE);
  for (const connection of taken) connection.release();
});

async function refusal(pool: Pool): Promise<unknown> {
  const store = mysqlStore({ client: pool });
  return store.claim(claimOf("a")).catch((error: unknown) => error);
}

test("wrong credentials, an unknown database and no database are store-unsafe, each with its own message", async (context) => {
  const { url } = await newStore(context);
  const changed = (change: (url: URL) => void) => poolOn(context, urlWith(url, change));
  const wrongPassword = changed((to) => {
    to.password = "wrong";
  });
  expect(await refusal(wrongPassword)).toMatchObject({
    code: "store-unsafe",
    message: expect.stringContaining("name, password and grants"),
    cause: expect.objectContaining({ errno: 1045 }),
  });
  const nowhere = changed((to) => {
    to.pathname = "nowhere";
  });
  expect(await refusal(nowhere)).toMatchObject({
    code: "store-unsafe",
    message: expect.stringContaining("does not exist"),
  });
  const unnamed = changed((to) => {
    to.pathname = "";
  });
  expect(await refusal(unnamed)).toMatchObject({
    code: "store-unsafe",
    message: expect.stringContaining("names no database"),
  });
});

/** A user with only these privileges on the tables. */
async function userWith(context: TestContext, url: string, grant: string): Promise<string> {
  const name = `user_${Math.random().toString(36).slice(2)}`;
  const database = new URL(url).pathname.slice(1);
  const pool = poolOn(context, url);
  await pool.query(`CREATE USER '${name}'@'127.0.0.1' IDENTIFIED BY 'secret'`);
  await pool.query(`GRANT ${grant} ON ${database}.* TO '${name}'@'127.0.0.1'`);
  return urlWith(url, (to) => {
    to.username = name;
  });
}

test("a user without write privileges is store-unsafe", async (context) => {
  const { url } = await newStore(context);
  const reader = poolOn(context, await userWith(context, url, "SELECT"));
  expect(await refusal(reader)).toMatchObject({
    code: "store-unsafe",
    message: expect.stringContaining("grants"),
    cause: expect.objectContaining({ errno: 1142 }),
  });
  await expect(mysqlStore({ client: reader }).migrate()).rejects.toMatchObject({ code: "store-unsafe" });
});

test("a database without the tables is store-unsafe until migrate, and again after they are dropped", async (context) => {
  const url = await newDatabase(context);
  const pool = poolOn(context, url);
  const store = mysqlStore({ client: pool });
  const missing = { code: "store-unsafe", message: expect.stringContaining("Run migrate() once") };
  await expect(store.claim(claimOf("a"))).rejects.toMatchObject(missing);
  await expect(store.list?.({ namespace: "n", limit: 1 })).rejects.toMatchObject(missing);
  expect((await store.settings?.())?.refused).toContain("run migrate()");
  await store.migrate();
  expect(await store.claim(claimOf("a"))).toMatchObject({ status: "new" });
  await pool.query("ALTER TABLE nevertwice_records DROP COLUMN spent");
  await expect(store.claim(claimOf("b"))).rejects.toMatchObject({
    code: "store-unsafe",
    message: expect.stringMatching(/lacks a column: .*spent/),
  });
  await pool.query("DROP TABLE nevertwice_records");
  await expect(store.claim(claimOf("a"))).rejects.toMatchObject(missing);
  await store.migrate();
  expect(await store.claim(claimOf("a"))).toMatchObject({ status: "new", number: 1 });
  expect((await store.settings?.())?.refused).toBeUndefined();
});

test("a read-only server is store-unsafe, at the first call and when it becomes read-only later", async (context) => {
  const server = await startFor(context, () => startMariadb());
  const admin = poolOn(context, server.url);
  await mysqlStore({ client: admin }).migrate();
  const user = await userWith(context, server.url, "SELECT, INSERT, UPDATE, DELETE");
  const store = mysqlStore({ client: poolOn(context, user) });
  await store.claim(claimOf("a"));
  await admin.query("SET GLOBAL read_only = 1");
  const readOnly = { code: "store-unsafe", message: expect.stringContaining("primary") };
  await expect(store.claim(claimOf("b"))).rejects.toMatchObject(readOnly);
  // This user may still write, as an administrator on a demoted primary may.
  await expect(mysqlStore({ client: admin }).claim(claimOf("b"))).rejects.toMatchObject(readOnly);
  expect(
    isReadOnly(
      await poolOn(context, user)
        .query("DELETE FROM nevertwice_records")
        .catch((e) => e),
    ),
  ).toBe(true);
  expect(await refusal(poolOn(context, user))).toMatchObject(readOnly);
  expect((await store.settings?.())?.refused).toContain("read-only");
  await admin.query("SET GLOBAL read_only = 0");
  expect(await store.claim(claimOf("b"))).toMatchObject({ status: "new" });
});

test("connections without autocommit, or that read uncommitted data, are store-unsafe", async (context) => {
  const { url } = await newStore(context);
  expect(await refusal(poolRunningFirst(context, url, "SET SESSION autocommit = 0"))).toMatchObject({
    code: "store-unsafe",
    message: expect.stringContaining("autocommit"),
  });
  const dirty = "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED";
  expect(await refusal(poolRunningFirst(context, url, dirty))).toMatchObject({
    code: "store-unsafe",
    message: expect.stringContaining("uncommitted data"),
  });
});

test("a packet size too small for a record is store-unsafe", async (context) => {
  const settings = { "max-allowed-packet": 131_072 };
  const server = await startFor(context, () => startMariadb({ settings }));
  expect(await refusal(poolOn(context, server.url))).toMatchObject({
    code: "store-unsafe",
    message: expect.stringContaining("max_allowed_packet is 131072"),
  });
});

test("a full disk is store-full, and existing records still answer", {
  timeout: 120_000,
}, async (context) => {
  const settings = {
    "innodb-data-file-path": "ibdata1:12M:autoextend:max:24M",
    "innodb-file-per-table": 0,
    "innodb-autoextend-increment": 1,
  };
  const server = await startFor(context, () => startMariadb({ settings }));
  const store = mysqlStore({ client: poolOn(context, server.url) });
  await store.migrate();
  const outcome = "x".repeat(50_000);
  const fill = async () => {
    for (let i = 0; i < 300; i++) {
      const request = claimOf(`k${i}`);
      await store.claim(request);
      await store.complete({ id: request.id, token: request.token, outcome, retentionMs: 60_000 });
    }
  };
  await expect(fill()).rejects.toMatchObject({ code: "store-full", retryable: true });
  expect((await store.claim(claimOf("k0"))).status).toBe("completed");
});

test("translates each error of the driver and the server to its code", () => {
  const codeOf = (more: object) =>
    (toStoreError(Object.assign(new Error("said"), more)) as { code?: string }).code;
  for (const errno of [1040, 1053, 1203, 1205, 1213, 1317, 1927])
    expect(codeOf({ errno })).toBe("unavailable");
  for (const code of ["ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "EPIPE", "PROTOCOL_CONNECTION_LOST"])
    expect(codeOf({ code })).toBe("unavailable");
  for (const errno of [1044, 1045, 1046, 1049, 1054, 1142, 1146, 1290, 1698, 1792, 1836])
    expect(codeOf({ errno })).toBe("store-unsafe");
  for (const errno of [1021, 1041, 1114]) expect(codeOf({ errno })).toBe("store-full");
  expect(codeOf({ errno: 1064, code: "ER_PARSE_ERROR", sqlState: "42000" })).toBe("store-unsafe");
  expect(codeOf({ code: "ERR_BUG_OF_THE_DRIVER" })).toBe("ERR_BUG_OF_THE_DRIVER");
});

/** Changes made to the tables by hand, and the errno that the server reports then. */
const CHANGED: Readonly<Record<string, readonly [statement: string, errno: number]>> = {
  "an added check": ["ALTER TABLE nevertwice_records ADD CONSTRAINT none CHECK (state <> 'pending')", 4025],
  "a narrower column": ["ALTER TABLE nevertwice_records MODIFY token VARBINARY(5) NOT NULL", 1406],
  "a column of another type": ["ALTER TABLE nevertwice_records MODIFY state INT NOT NULL", 1366],
  "a dropped column": ["ALTER TABLE nevertwice_records DROP COLUMN took_over", 1054],
  "an added column without a default": ["ALTER TABLE nevertwice_records ADD extra INT NOT NULL", 1364],
  "a trigger that refuses": [
    "CREATE TRIGGER refuses BEFORE INSERT ON nevertwice_records FOR EACH ROW SIGNAL SQLSTATE '45000'",
    1644,
  ],
  "a dropped table": ["DROP TABLE nevertwice_records", 1146],
};

for (const [name, [statement, errno]] of Object.entries(CHANGED)) {
  test(`changed-tables: ${name} is store-unsafe, and no work runs without its claim`, async (context) => {
    const { pool, store } = await newStore(context);
    await store.read("warm");
    await pool.query(statement);
    await expect(store.claim(claimOf("b"))).rejects.toMatchObject({
      code: "store-unsafe",
      cause: expect.objectContaining({ errno }),
    });
    const guard = createGuard({ store, namespace: "n", onUnavailable: "proceed" });
    let runs = 0;
    const request = { operation: "o", key: "b" };
    await expect(guard.run(request, () => runs++)).rejects.toMatchObject({ code: "store-unsafe" });
    expect(runs).toBe(0);
  });
}

interface Look {
  readonly look: (store: Store, id: string) => Promise<unknown>;
  /** How long the column takes to read. The server ends a list after two seconds. */
  readonly seconds: number;
}

const LOOKS: Readonly<Record<string, Look>> = {
  read: { look: async (store, id) => (await store.read(id))?.state, seconds: 3 },
  list: {
    look: async (store) => (await store.list?.({ namespace: "n", limit: 5 }))?.records[0]?.state,
    seconds: 1.5,
  },
  "a claim that holds": {
    look: async (store) => (await store.claim(claimOf("a", { hold: true }))).status,
    seconds: 3,
  },
};

for (const [name, { look, seconds }] of Object.entries(LOOKS)) {
  test(`${name}: a record that was renewed while the server was slow to read it is not seen as lapsed`, async (context) => {
    const { pool, store } = await newStore(context);
    const { id, token } = claimOf("a");
    await store.claim(claimOf("a", { token }));
    // The same table, with a column that takes a long time to read.
    const [columns] = await pool.query<RowDataPacket[]>("SHOW COLUMNS FROM nevertwice_records");
    const slow = columns.map(({ Field }) =>
      Field === "state" ? `IF(SLEEP(${seconds}) = 0, state, state) AS state` : `\`${Field}\``,
    );
    await pool.query("RENAME TABLE nevertwice_records TO real_records");
    await pool.query(
      `CREATE ALGORITHM = MERGE VIEW nevertwice_records AS SELECT ${slow.join(", ")} FROM real_records`,
    );
    const renewed = (ms: number) =>
      pool.query(`UPDATE real_records SET lease_ends_at = ${NOW_US} + ${ms * 1_000}`);
    await renewed((seconds * 2_000) / 3);
    const asked = look(store, id);
    await expect
      .poll(async () =>
        (await pool.query<RowDataPacket[]>("SHOW PROCESSLIST"))[0].some(
          ({ State }) => State === "User sleep",
        ),
      )
      .toBe(true);
    await renewed(60_000);
    expect(await asked).toBe("pending");
  });
}
