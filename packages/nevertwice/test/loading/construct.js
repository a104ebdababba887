/** Loads every front door of the build, and makes everything that users make at the top of a module. */
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { Redis as Upstash } from "@upstash/redis";
import { Redis } from "ioredis";
import mysql from "mysql2/promise";
import pg from "pg";

const PACKAGE = new URL("../../", import.meta.url);
const { exports } = JSON.parse(readFileSync(new URL("package.json", PACKAGE), "utf8"));
/** @param {string} name */
const load = (name) => import(new URL(exports[name].default, PACKAGE).href);

for (const name of Object.keys(exports)) if (name !== "./package.json") await load(name);

const { createGuard } = await load(".");
const { memoryStore } = await load("./stores/memory");
const store = memoryStore();
const guard = createGuard({ store });
const anyone = { scope: "anyone" };
const work = async () => 1;
/** @param {{ id: string }} named */
const idOf = ({ id }) => id;

/** Opened by the first call, which nobody makes. */
const FILE = join(tmpdir(), "nevertwice-never-opened.db");
const NETWORK = {
  network: { id: "shop", version: "1.0.0" },
  nodes: {
    charge: {
      use: {
        node: { id: "charge", version: "1.0.0", kind: "transform" },
        ports: { in: { in: {} }, out: { charged: {} } },
        contract: { pure_core: work, effect_shell: work, timeout: "5s", idempotency: { key: "id" } },
      },
    },
  },
  expose: { in: { orders: "charge.in" }, out: { charged: "charge.charged" } },
};

const makers = {
  "guard.with": () => guard.with({ leaseMs: 1_000 }),
  "guard.wrap": () => guard.wrap(work, { operation: "charge", key: idOf }),
  claims: async () => (await load("./claims")).createClaims({ store }),
  flapping: async () => (await load("./flapping")).createFlapping(),
  protect: async () =>
    (await load("./protect")).protectedFunction(guard, work, {
      operation: "charge",
      key: idOf,
    }),
  sealing: async () => (await load("./sealing")).sealed(store, { keys: { a: "7".repeat(64) }, current: "a" }),
  opentelemetry: async () => createGuard({ store, observer: (await load("./opentelemetry")).telemetry() }),
  fetch: async () => (await load("./client")).createFetch(),
  submission: async () => (await load("./client")).createSubmission(),
  consumer: async () => (await load("./events")).consumer(guard, { name: "mailer", key: idOf, work }),
  reservations: async () =>
    (await load("./reservations")).createReservations({
      store: (await load("./reservations/memory")).memoryReservations(),
      windowMs: 60_000,
      sweepEveryMs: 1_000,
    }),
  "guard that requires": () => createGuard({ store, require: "our-crash" }),
  "@idempotent": async () => (await load(".")).idempotent(guard, { operation: "charge", key: idOf }),
  env: async () => (await load("./env")).guardFromEnv({ NEVERTWICE_STORE_URL: "memory:" }),
  mcp: async () => (await load("./events/mcp")).idempotentTool(guard, { operation: "charge", ...anyone }),
  a2a: async () =>
    (await load("./events/a2a")).idempotentMessages(
      guard,
      { operation: "talk", ...anyone },
      { sendMessage: work },
    ),
  async webhook() {
    const { stripe, webhook } = await load("./events/webhook");
    return webhook(guard, { name: "stripe", scheme: stripe, secret: "whsec_secret", work });
  },
  pipeline: async () => (await load("./pipeline")).definePipeline(NETWORK),
  "http/fetch": async () => (await load("./http/fetch")).withIdempotency(guard, anyone, () => new Response()),
  "http quota": async () =>
    (await load("./http/fetch")).withIdempotency(guard, { ...anyone, quota: 1_000 }, () => new Response()),
  "stores/postgres": async () =>
    (await load("./stores/postgres")).postgresStore({ client: new pg.Pool(), subscriber: new pg.Pool() }),
  "stores/mysql": async () => (await load("./stores/mysql")).mysqlStore({ client: mysql.createPool({}) }),
  "stores/sqlite": async () => (await load("./stores/sqlite")).sqliteStore({ file: FILE }),
  "stores/redis": async () =>
    (await load("./stores/redis")).redisStore({
      client: new Redis({ lazyConnect: true }),
      subscriber: new Redis({ lazyConnect: true }),
    }),
  "reservations/postgres": async () =>
    (await load("./reservations/postgres")).postgresReservations({ client: new pg.Pool() }),
  "reservations/mysql": async () =>
    (await load("./reservations/mysql")).mysqlReservations({ client: mysql.createPool({}) }),
  "reservations/sqlite": async () => (await load("./reservations/sqlite")).sqliteReservations({ file: FILE }),
  "stores/upstash": async () =>
    (await load("./stores/upstash")).upstashStore({
      client: new Upstash({ url: "https://local", token: "t", automaticDeserialization: false }),
    }),
  "stores/dynamodb": async () =>
    (await load("./stores/dynamodb")).dynamodbStore({
      client: new DynamoDBClient({ region: "local" }),
      table: "records",
    }),
  "stores/d1": async () => (await load("./stores/d1")).d1Store({ prepare: work, batch: work }),
  "stores/durable-objects": async () =>
    (await load("./stores/durable-objects")).durableObjectStore({ idFromName: work, get: work }),
  "stores/etcd": async () =>
    (await load("./stores/etcd")).etcdStore({ endpoints: ["http://127.0.0.1:1", "http://127.0.0.1:2"] }),
  ...Object.fromEntries(
    ["express", "fastify", "hono", "koa", "lambda", "nest", "node"].map((name) => [
      `http/${name}`,
      async () => (await load(`./http/${name}`)).idempotency(guard, anyone),
    ]),
  ),
};

const failures = [];
for (const [name, make] of Object.entries(makers)) {
  try {
    await make();
  } catch (error) {
    failures.push(`${name}: ${error instanceof Error ? error.message : error}`);
  }
}
console.log(failures.length === 0 ? `made ${Object.keys(makers).length} things` : failures.join("\n"));
process.exit();
