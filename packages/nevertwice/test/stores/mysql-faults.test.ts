/** The MySQL store when the connection breaks, the server is not there, or is not as it should be. */
import type { Pool } from "mysql2/promise";
import { expect, type TestContext, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { failure } from "../../src/stores/mysql/failures.ts";
import { mysqlStore } from "../../src/stores/mysql.ts";
import { startMariadb } from "../services/mariadb.ts";
import { type Filter, startProxy } from "../services/proxy.ts";
import { startFor } from "../services/services.ts";
import { claimOf, newDatabase, newStore, poolOn, poolTelling, urlWith } from "./mysql/pools.ts";

/** A store behind a proxy, and one beside it that sees what the server has. */
async function throughProxy(context: TestContext) {
  const { url, store: beside } = await newStore(context);
  const proxy = await startFor(context, () => startProxy(url));
  const store = mysqlStore({ client: poolOn(context, proxy.url) });
  await store.read("warm");
  return { store, beside, proxy };
}

const sent =
  (text: string): Filter =>
  (chunk) =>
    chunk.includes(text);

const unavailable = { code: "unavailable", retryable: true };

test("lost-reply: a claim whose reply was lost is recognised by its token", async (context) => {
  const { store, beside, proxy } = await throughProxy(context);
  const request = claimOf("a");
  proxy.cutReply(1, sent("INSERT INTO nevertwice_records"));
  await expect(store.claim(request)).rejects.toMatchObject(unavailable);
  const record = await beside.read(request.id);
  expect(record).toMatchObject({ token: request.token, state: "pending" });
  expect(await store.claim(request)).toEqual({
    status: "new",
    fence: record?.fence,
    number: 1,
    tookOver: false,
  });
  expect(await store.claim(claimOf("a"))).toMatchObject({ status: "pending" });
});

test("lost-reply: a takeover whose reply was lost is recognised by its token", async (context) => {
  const { store, beside, proxy } = await throughProxy(context);
  const owner = claimOf("a");
  await store.claim(owner);
  await store.abandon({ id: owner.id, token: owner.token, as: "unknown" });
  const successor = claimOf("a");
  proxy.cutReply(1, sent("UPDATE nevertwice_records"));
  await expect(store.claim(successor)).rejects.toMatchObject(unavailable);
  const fence = (await beside.read(owner.id))?.fence;
  expect(await store.claim(successor)).toEqual({ status: "new", fence, number: 2, tookOver: true });
});

const STEPS: Readonly<Record<string, (store: Store, id: string, token: string) => Promise<unknown>>> = {
  complete: (store, id, token) => store.complete({ id, token, outcome: "done", retentionMs: 60_000 }),
  "abandon as released": (store, id, token) => store.abandon({ id, token, as: "released" }),
  "abandon as unknown": (store, id, token) => store.abandon({ id, token, as: "unknown" }),
  "abandon as unrun": (store, id, token) => store.abandon({ id, token, as: "unrun" }),
  renew: (store, id, token) => store.renew({ id, token, leaseMs: 60_000 }),
};

for (const [name, take] of Object.entries(STEPS)) {
  for (const [which, statement] of [
    ["read", "SELECT *"],
    ["write", "UPDATE nevertwice_records"],
  ] as const) {
    for (const side of ["cutReply", "cutRequest"] as const) {
      test(`lost-reply: ${name} is true when it is asked again (${which}, ${side})`, async (context) => {
        const { store, proxy } = await throughProxy(context);
        const owner = claimOf("a");
        await store.claim(owner);
        proxy[side](1, sent(statement));
        await expect(take(store, owner.id, owner.token)).rejects.toMatchObject(unavailable);
        expect(await take(store, owner.id, owner.token)).toBe(true);
      });
    }
  }
}

test("lost-reply: read, list, purge and forget answer when they are asked again", async (context) => {
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
    await expect(ask()).rejects.toMatchObject(unavailable);
    expect(await ask()).toBeTruthy();
  }
});

test("a server that refuses connections is unavailable, and the store works once it is back", async (context) => {
  const { store, proxy } = await throughProxy(context);
  proxy.refuse();
  proxy.cutAll();
  await expect(store.claim(claimOf("a"))).rejects.toMatchObject(unavailable);
  await expect(store.claim(claimOf("a"))).rejects.toMatchObject(unavailable);
  proxy.heal();
  expect(await store.claim(claimOf("a"))).toMatchObject({ status: "new" });
});

test("a server that is killed keeps what it acknowledged", async (context) => {
  const server = await startFor(context, () => startMariadb());
  const store = mysqlStore({ client: poolOn(context, server.url) });
  await store.migrate();
  const owner = claimOf("a");
  await store.claim(owner);
  await server.kill();
  await expect(store.claim(claimOf("b"))).rejects.toMatchObject(unavailable);
  await server.restart();
  expect(await store.claim(claimOf("a"))).toMatchObject({ status: "pending" });
  expect(await store.renew({ id: owner.id, token: owner.token, leaseMs: 60_000 })).toBe(true);
});

test("an ended pool, and a full one, is unavailable", async (context) => {
  const { url } = await newStore(context);
  const busy = poolOn(context, url, { connectionLimit: 1, waitForConnections: false });
  const taken = await busy.getConnection();
  await expect(mysqlStore({ client: busy }).read("a")).rejects.toMatchObject(unavailable);
  taken.release();
  const ended = poolOn(context, url);
  await ended.end();
  await expect(mysqlStore({ client: ended }).read("a")).rejects.toMatchObject(unavailable);
});

test("too many connections is unavailable", async (context) => {
  const settings = { max_connections: 10, extra_max_connections: 1 };
  const server = await startFor(context, () => startMariadb({ settings }));
  const store = mysqlStore({ client: poolOn(context, server.url) });
  const crowd = poolOn(context, server.url, { connectionLimit: 20 });
  const taken: Awaited<ReturnType<Pool["getConnection"]>>[] = [];
  const fill = async () => {
    for (let i = 0; i < 20; i++) taken.push(await crowd.getConnection());
  };
  // The server says 1040 and hangs up; sometimes only the second is heard.
  await expect(fill()).rejects.toThrow();
  await expect(store.read("a")).rejects.toMatchObject(unavailable);
  for (const connection of taken) connection.release();
});

async function refusal(pool: Pool): Promise<unknown> {
  const store = mysqlStore({ client: pool });
  return store.claim(claimOf("a")).catch((error: unknown) => error);
}

test("wrong credentials, another database and no database are store-unsafe, and say which", async (context) => {
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

/** A user who may do only this with the tables. */
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

test("a user who may not write is store-unsafe", async (context) => {
  const { url } = await newStore(context);
  const reader = poolOn(context, await userWith(context, url, "SELECT"));
  expect(await refusal(reader)).toMatchObject({
    code: "store-unsafe",
    message: expect.stringContaining("grants"),
    cause: expect.objectContaining({ errno: 1142 }),
  });
  await expect(mysqlStore({ client: reader }).migrate()).rejects.toMatchObject({ code: "store-unsafe" });
});

test("a database without the tables is store-unsafe until they are made, and again when they are gone", async (context) => {
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
  await expect(store.claim(claimOf("b"))).rejects.toMatchObject(missing);
  await pool.query("DROP TABLE nevertwice_records");
  await expect(store.claim(claimOf("a"))).rejects.toMatchObject(missing);
});

test("a read-only server is store-unsafe, at first use and when it becomes so", async (context) => {
  const server = await startFor(context, () => startMariadb());
  const admin = poolOn(context, server.url);
  await mysqlStore({ client: admin }).migrate();
  const user = await userWith(context, server.url, "SELECT, INSERT, UPDATE, DELETE");
  const store = mysqlStore({ client: poolOn(context, user) });
  await store.claim(claimOf("a"));
  await admin.query("SET GLOBAL read_only = 1");
  const readOnly = { code: "store-unsafe", message: expect.stringContaining("primary") };
  await expect(store.claim(claimOf("b"))).rejects.toMatchObject({
    ...readOnly,
    cause: expect.objectContaining({ errno: 1290 }),
  });
  expect(await refusal(poolOn(context, user))).toMatchObject(readOnly);
  expect((await store.settings?.())?.refused).toContain("read-only");
  await admin.query("SET GLOBAL read_only = 0");
  expect(await store.claim(claimOf("b"))).toMatchObject({ status: "new" });
});

test("connections that would not commit, or read what is not committed, are store-unsafe", async (context) => {
  const { url } = await newStore(context);
  expect(await refusal(poolTelling(context, url, "SET SESSION autocommit = 0"))).toMatchObject({
    code: "store-unsafe",
    message: expect.stringContaining("autocommit"),
  });
  const dirty = "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED";
  expect(await refusal(poolTelling(context, url, dirty))).toMatchObject({
    code: "store-unsafe",
    message: expect.stringContaining("not committed"),
  });
});

test("a packet too small for a record is store-unsafe", async (context) => {
  const settings = { "max-allowed-packet": 131_072 };
  const server = await startFor(context, () => startMariadb({ settings }));
  expect(await refusal(poolOn(context, server.url))).toMatchObject({
    code: "store-unsafe",
    message: expect.stringContaining("max_allowed_packet is 131072"),
  });
});

test("a full disk is store-full, and what is there still answers", async (context) => {
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

test("what the driver and the server say is told apart", () => {
  const codeOf = (more: object) =>
    (failure(Object.assign(new Error("said"), more)) as { code?: string }).code;
  for (const errno of [1040, 1053, 1203, 1205, 1213, 1317, 1927])
    expect(codeOf({ errno })).toBe("unavailable");
  for (const code of ["ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "EPIPE", "PROTOCOL_CONNECTION_LOST"])
    expect(codeOf({ code })).toBe("unavailable");
  for (const errno of [1044, 1045, 1046, 1049, 1054, 1142, 1146, 1290, 1698, 1792, 1836])
    expect(codeOf({ errno })).toBe("store-unsafe");
  for (const errno of [1021, 1041, 1114]) expect(codeOf({ errno })).toBe("store-full");
  expect(codeOf({ errno: 1064, code: "ER_PARSE_ERROR" })).toBe("ER_PARSE_ERROR");
});

test("what the server says otherwise passes as it is", async (context) => {
  const { pool, store } = await newStore(context);
  await pool.query("ALTER TABLE nevertwice_records ADD CONSTRAINT no_b CHECK (id <> 'id-b')");
  await expect(store.claim(claimOf("b"))).rejects.toMatchObject({ errno: 4025 });
});
