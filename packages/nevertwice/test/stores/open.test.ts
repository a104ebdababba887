/** `openStore` needs only a URL. The error about a wrong URL does not contain its password. */
import { execFile } from "node:child_process";
import { cp } from "node:fs/promises";
import { join } from "node:path";
import { inspect, promisify } from "node:util";
import { Redis } from "ioredis";
import { createPool } from "mysql2";
import pg from "pg";
import { expect, test, vi } from "vitest";
// The build: a store on a SQLite file starts a thread, which Node 20 cannot start from TypeScript.
import { openOutbox } from "../../dist/outbox/open.js";
import { openReservations } from "../../dist/reservations/open.js";
import { openStore } from "../../dist/stores/open.js";
import { createGuard } from "../../src/index.ts";
import { MYSQL, POSTGRES, REDIS } from "../../src/stores/open/parameters.ts";
import { scratchFolder } from "../scratch-folder.ts";
import { type ServiceName, sharedUrl } from "../services/services.ts";
import { clientOf, newTable } from "./dynamodb/tables.ts";
import { doorFor } from "./upstash/scene.ts";

const DIST = new URL("../../dist", import.meta.url).pathname;

async function temporaryFolder(): Promise<string> {
  const folder = await scratchFolder();
  return folder;
}

/** Runs work once over two guards on two stores of this URL, and closes them with their clients. */
async function runsOnceOn(url: string, isShared = true): Promise<void> {
  const request = { operation: "open", key: `${Math.random()}` };
  let runs = 0;
  for (let opened = 0; opened < 2; opened++) {
    const store = await openStore(url);
    const guard = createGuard({ store, namespace: "open-test", purgeEveryMs: 0 });
    await guard.ready();
    expect(await guard.run(request, () => ++runs)).toBe(isShared ? 1 : runs);
    await guard.close();
    await store.close();
    await expect(store.claim({ ...CLAIM, id: request.key })).rejects.toThrow();
  }
  expect(runs).toBe(isShared ? 1 : 2);
}

const CLAIM = {
  parts: { namespace: "n", scope: "s", operation: "o", key: "k" },
  token: "token",
  leaseMs: 1_000,
  retentionMs: 1_000,
  hold: false,
};

test("memory: opens a new memory store each time", async () => {
  const [one, other] = [await openStore("memory:"), await openStore("memory:")];
  expect(await one.claim({ ...CLAIM, id: "a" })).toMatchObject({ status: "new" });
  expect(await other.claim({ ...CLAIM, id: "a" })).toMatchObject({ status: "new" });
});

test.each([
  ["d1:DB", /"d1:DB" names a binding, which has no URL; in the Worker, use d1Store\(env.DB\)/],
  ["d1://database", /use d1Store\(env.DB\) of nevertwice\/stores\/d1/],
  [
    "durable-objects:NEVERTWICE",
    /use durableObjectStore\(env.NEVERTWICE\) of nevertwice\/stores\/durable-objects/,
  ],
])("%s: is no URL, and the error says what to use in a Worker", async (url, says) => {
  await expect(openStore(url)).rejects.toMatchObject({
    code: "options-invalid",
    message: expect.stringMatching(says),
  });
});

test("sqlite: opens a file, by a relative or an absolute path, with its settings in the URL", async () => {
  const folder = await temporaryFolder();
  await runsOnceOn(`sqlite:${folder}/with%20space.db`);
  await runsOnceOn(`sqlite://${folder}/absolute.db`);
  await runsOnceOn(`sqlite:${folder}/relaxed.db?synchronous=normal&exclusive=true`);
  const relaxed = await openStore(`sqlite:${folder}/relaxed.db?synchronous=normal`);
  expect((await relaxed.settings?.())?.survives["power-loss"]).toMatchObject({ survives: "no" });
  await relaxed.close();
});

const SERVED: readonly (readonly [string, ServiceName, (url: string) => string])[] = [
  ["postgres:// migrates and opens", "postgres", (url) => url],
  ["postgresql:// is the same", "postgres", (url) => url.replace(/^postgres(ql)?:/, "postgresql:")],
  ["postgres:// with prepare=false opens behind PgBouncer", "pgbouncer", (url) => `${url}?prepare=false`],
  ["redis:// opens", "redis", (url) => url],
  ["redis:// opens with a prefix", "redis", (url) => `${url}?prefix=open:`],
  ["redis+cluster:// opens", "redisCluster", (url) => url.replace(/^redis(\+cluster)?:/, "redis+cluster:")],
  ["mysql:// migrates and opens", "mysql", (url) => url],
  ["etcd:// opens", "etcd", (url) => url],
  [
    "etcd:// opens with a prefix and a margin for clocks",
    "etcd",
    (url) => `${url}/team%2Fshop?clockSkewMs=10`,
  ],
];

for (const [title, service, toUrl] of SERVED) {
  test(title, async (context) => {
    await runsOnceOn(toUrl(sharedUrl(context, service)));
  });
}

test("dynamodb://region/table opens", async (context) => {
  const endpoint = sharedUrl(context, "dynamodb");
  const table = await newTable(clientOf(endpoint));
  vi.stubEnv("AWS_ACCESS_KEY_ID", "test");
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", "test");
  await runsOnceOn(`dynamodb://eu-west-1/${table}?endpoint=${encodeURIComponent(endpoint)}`);
});

test("upstash+http://TOKEN@host opens, and upstash: by the environment variables of Upstash", async (context) => {
  const { url, token } = await doorFor(context);
  const host = new URL(url).host;
  const key = `${Math.random()}`;
  let runs = 0;
  const runOn = async (storeUrl: string) => {
    const store = await openStore(storeUrl);
    const guard = createGuard({ store, namespace: "open-test", purgeEveryMs: 0 });
    await guard.run({ operation: "open", key }, () => ++runs);
    await guard.close();
    await store.close();
  };
  await runOn(`upstash+http://${token}@${host}`);
  await runOn(`upstash+http://default:${encodeURIComponent(token)}@${host}`);
  expect(runs).toBe(1);
  await runOn(`upstash+http://${token}@${host}?prefix=open:`);
  expect(runs).toBe(2);
  vi.stubEnv("UPSTASH_REDIS_REST_URL", url);
  vi.stubEnv("UPSTASH_REDIS_REST_TOKEN", token);
  await runOn("upstash:");
  await runOn(`upstash+http://${host}`);
  expect(runs).toBe(2);
});

test.each([
  ["", "the store's URL"],
  ["nonsense", /not a store URL.*memory:.*dynamodb:.*upstash:/],
  ["mongodb://user:secret@host/db", /not a store URL/],
  ["postgre://user:secret@host/db", /not a store URL.*Did you mean "postgres:"\?$/],
  ["sqlit:./a.db", /Did you mean "sqlite:"\?$/],
  ["Redis://host", /Did you mean "redis:"\?$/],
  ["./a.db", /upstash\+http:\.$/],
  ["sqlite:", /names no file/],
  ["sqlite:./a.db?synchronous=off", /synchronous=off; it must be full or normal/],
  ["dynamodb://eu-west-1", /names no table/],
  ["redis+cluster://", /not the URL of a cluster/],
  ["etcd://", /not the URL of a cluster/],
  ["etcd://user:secret@/shop", /not the URL of a cluster/],
  ["etcd://user:secret@a:1,b:no/shop", /not the URL of a cluster/],
  ["etcd://user:secret@a:1/shop?clockSkewMs=soon", /clockSkewMs/],
  ["postgres://user:secret@127.0.0.1:1/db?prepare=maybe", /prepare=maybe/],
  ["postgres://user:p@secret/w@127.0.0.1:1/db?prepare=maybe", /prepare=maybe/],
  ["postgres://user:a/secret?b@127.0.0.1:1/db?prepare=maybe", /is malformed/],
  ["postgres://user:12?secret=b@127.0.0.1:1/db", /is malformed/],
  ["user:secret@host", /not a store URL/],
  ["mysql://root:secret@host:port/x", /is malformed/],
  ["redis+cluster://user:secret@", /not the URL of a cluster/],
  ["upstash:", /UPSTASH_REDIS_REST_URL/],
  ["upstash://host.upstash.io", /has no token/],
  ["upstash://", /is malformed/],
  ["upstash://secret/secret@host.upstash.io", /is malformed.*%2F/],
])("%j is refused with the reason, and the message never contains its password", async (url, why) => {
  const error = await openStore(url).catch((thrown) => thrown);
  expect(error).toMatchObject({ code: "options-invalid" });
  expect(error.message).toMatch(why);
  expect(error.message).not.toContain("secret");
});

test.each([
  ["memory:?max=3", /"max".*nevertwice does not know/],
  ["sqlite:./a.db?synchronus=full", /"synchronus".*Did you mean "synchronous"\?/],
  [
    "postgres://u:secret@127.0.0.1:1/db?max=3",
    /"max", which neither nevertwice nor pg reads\. Use poolSize\./,
  ],
  ["postgres://u:secret@127.0.0.1:1/db?poolsize=3", /Did you mean "poolSize"\?/],
  ["postgres://u:secret@127.0.0.1:1/db?sslmod=require", /Did you mean "sslmode"\?/],
  ["postgres://u:secret@127.0.0.1:1/db?target_session_attrs=read-write", /"target_session_attrs"/],
  ["postgres://u:secret@127.0.0.1:1/db?poolSize=0", /poolSize=0; it must be a whole number from 1/],
  [
    "postgres://u:secret@127.0.0.1:1/db?connectTimeoutMs=5s",
    /connectTimeoutMs=5s; it must be a whole number/,
  ],
  ["postgres://u:secret@127.0.0.1:1/db?subscriber=redis%3A%2F%2Fu%3Asecret%40h", /is not a Postgres URL/],
  [
    `postgres://u:secret@127.0.0.1:1/db?subscriber=${encodeURIComponent("postgres://u:secret@h/db?max=1")}`,
    /"max", which neither/,
  ],
  ["mysql://u:secret@127.0.0.1:1/db?rowsAsArray=true", /"rowsAsArray"/],
  ["mysql://u:secret@127.0.0.1:1/db?connection_limit=3", /Use poolSize/],
  ["mysql://u:secret@127.0.0.1:1/db?connectTimeout=3", /Use connectTimeoutMs/],
  ["redis://u:secret@127.0.0.1:1?keyPrefix=a", /Use prefix/],
  ["redis://u:secret@127.0.0.1:1?replicas=many", /replicas=many; it must be a whole number/],
  ["redis+cluster://u:secret@127.0.0.1:1?lazyConnect=false", /"lazyConnect"/],
  ["dynamodb://eu-west-1/t?endpont=x", /Did you mean "endpoint"\?/],
  ["upstash://secret@h?prefx=x", /Did you mean "prefix"\?/],
  ["etcds://u:secret@a:1/shop?clockSkew=1", /Did you mean "clockSkewMs"\?/],
])("%j is refused, since nobody would read what it says", async (url, why) => {
  for (const open of [openStore, ...(OTHER_DOORS.test(url) ? [openReservations, openOutbox] : [])]) {
    const error = await open(url, {}).catch((thrown) => thrown);
    expect(error).toMatchObject({ code: "options-invalid", message: expect.stringMatching(why) });
    expect(error.message).not.toContain("secret");
  }
});

const OTHER_DOORS = /^(sqlite|postgres|mysql):/;

test("the parameters that are passed to pg, mysql2 and ioredis are those that they read", () => {
  const files = {
    sslcert: import.meta.filename,
    sslkey: import.meta.filename,
    sslrootcert: import.meta.filename,
  };
  const text: Readonly<Record<string, string>> = {
    sslmode: "disable",
    sslnegotiation: "direct",
    ssl: "true",
    port: "5433",
    host: "h",
    ...files,
  };
  const unread = (POSTGRES.passed ?? []).filter((name) => {
    const value = text[name] ?? "1";
    const { connectionParameters } = new pg.Client(
      `postgres://h/db?${name}=${encodeURIComponent(value)}`,
    ) as unknown as {
      connectionParameters: Record<string, unknown>;
    };
    return connectionParameters[name] === undefined;
  });
  // pg-connection-string turns these into the settings of TLS.
  expect(unread).toEqual([
    "sslmode",
    "sslcert",
    "sslkey",
    "sslrootcert",
    "uselibpqcompat",
    "channel_binding",
  ]);
  const { defaultOptions } = Redis as unknown as { defaultOptions: object };
  expect(Object.keys(defaultOptions)).toEqual(expect.arrayContaining([...(REDIS.passed ?? [])]));
  const without = mysqlConfig("mysql://h/db");
  const ignored = (MYSQL.passed ?? []).filter((name) => {
    const value = MYSQL_VALUES[name] ?? "7";
    return mysqlConfig(`mysql://h/db?${name}=${encodeURIComponent(value)}`) === without;
  });
  expect(ignored).toEqual([]);
});

/** Values that differ from the defaults of parameters that take no number. */
const MYSQL_VALUES: Readonly<Record<string, string>> = {
  ssl: "{}",
  charset: "LATIN1_BIN",
  timezone: "Z",
  enableKeepAlive: "false",
  waitForConnections: "false",
};

/** The settings of a pool, which refer to the pool itself, as text. */
function mysqlConfig(uri: string): string {
  const pool = createPool({ uri }) as unknown as { config: unknown; end(done: () => void): void };
  const config = inspect(pool.config, { depth: 3 });
  pool.end(() => {});
  return config;
}

test("a Postgres URL says how many connections the store opens, and how the server names them", async (context) => {
  const url = sharedUrl(context, "postgres");
  const store = await openStore(`${url}?poolSize=2&applicationName=till%207&idleTimeoutMs=60000`);
  const claims = Array.from({ length: 20 }, (_, i) =>
    store.claim({ ...CLAIM, id: `pool-${i}-${Math.random()}` }),
  );
  await Promise.all(claims);
  const admin = new pg.Client(url);
  await admin.connect();
  const count = async (name: string) => {
    const { rows } = await admin.query(
      "SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name = $1",
      [name],
    );
    return rows[0].n as number;
  };
  expect(await count("till 7")).toBeGreaterThan(0);
  expect(await count("till 7")).toBeLessThanOrEqual(3);
  await store.close();
  const unnamed = await openStore(url);
  await unnamed.claim({ ...CLAIM, id: `unnamed-${Math.random()}` });
  expect(await count("nevertwice")).toBeGreaterThan(0);
  await unnamed.close();
  await admin.end();
});

test("behind PgBouncer, a waiter is woken through the server that subscriber names", async (context) => {
  const direct = sharedUrl(context, "postgres");
  const pooled = sharedUrl(context, "pgbouncer");
  const store = await openStore(
    `${pooled}?prepare=false&subscriber=${encodeURIComponent(`${direct}?application_name=listener`)}`,
  );
  const guard = createGuard({ store, namespace: "open-test", purgeEveryMs: 0 });
  const key = `${Math.random()}`;
  let finish = () => {};
  const first = guard.run(
    { operation: "open", key },
    () =>
      new Promise<string>((resolve) => {
        finish = () => resolve("done");
      }),
  );
  const second = guard.run({ operation: "open", key }, () => "twice");
  const admin = new pg.Client(direct);
  await admin.connect();
  await vi.waitFor(async () => {
    const { rows } = await admin.query(
      "SELECT 1 FROM pg_stat_activity WHERE application_name = 'listener' AND query LIKE 'LISTEN%'",
    );
    expect(rows).toHaveLength(1);
  }, 10_000);
  finish();
  expect([await first, await second]).toEqual(["done", "done"]);
  await guard.close();
  await store.close();
  await admin.end();
});

test("a MySQL and a Redis server see the name of the application", async (context) => {
  const mysqlUrl = sharedUrl(context, "mysql");
  const store = await openStore(`${mysqlUrl}?poolSize=2&applicationName=till&connectTimeoutMs=20000`);
  await store.claim({ ...CLAIM, id: `named-${Math.random()}` });
  await store.close();
  const redisUrl = sharedUrl(context, "redis");
  const onRedis = await openStore(`${redisUrl}?applicationName=till-${process.pid}`);
  await onRedis.claim({ ...CLAIM, id: `named-${Math.random()}` });
  const admin = new Redis(redisUrl);
  expect(await admin.client("LIST")).toContain(`name=till-${process.pid}`);
  admin.disconnect();
  await onRedis.close();
});

test("an unknown option is refused", async () => {
  const options = { migrat: false } as object;
  await expect(openStore("memory:", options)).rejects.toMatchObject({ code: "options-invalid" });
});

test("an unreachable server fails when its tables are migrated, and no connection stays open", async () => {
  await expect(openStore("postgres://user:secret@127.0.0.1:1/db")).rejects.toMatchObject({
    code: "unavailable",
    message: expect.not.stringContaining("secret"),
  });
});

test.each([
  ["postgres://h/db", "npm install pg"],
  ["redis://h", "npm install ioredis"],
  ["redis+cluster://h", "npm install ioredis"],
  ["mysql://h/db", "npm install mysql2"],
  ["upstash://token@h", "npm install @upstash/redis"],
  ["dynamodb://eu-west-1/t", "npm install @aws-sdk/client-dynamodb @aws-sdk/lib-dynamodb"],
])("%s without its driver throws driver-missing and names the package to install", async (url, install) => {
  const folder = await temporaryFolder();
  await cp(DIST, join(folder, "dist"), { recursive: true });
  await cp(join(DIST, "../package.json"), join(folder, "package.json"));
  const program = `import { openStore } from "./dist/stores/open.js";
    await openStore(${JSON.stringify(url)}).catch(({ code, message }) => console.log(JSON.stringify({ code, message })));`;
  const args = ["--input-type=module", "--eval", program];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder });
  expect(JSON.parse(stdout)).toMatchObject({
    code: "driver-missing",
    message: expect.stringContaining(install),
  });
});
