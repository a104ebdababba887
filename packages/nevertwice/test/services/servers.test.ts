/** Tests the servers that the other tests use: they answer, die, come back, and are gone afterwards. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { connect } from "node:net";
import { fileURLToPath } from "node:url";
import {
  CreateTableCommand,
  DescribeTableCommand,
  DynamoDBClient,
  ListTablesCommand,
} from "@aws-sdk/client-dynamodb";
import { jetstreamManager } from "@nats-io/jetstream";
import { connect as connectNats } from "@nats-io/transport-node";
import amqplib from "amqplib";
import { Cluster, Redis } from "ioredis";
import { Kafka, logLevel } from "kafkajs";
import mysql from "mysql2/promise";
import pg from "pg";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { endpointsIn } from "../stores/etcd/stores.ts";
import { startDynalite } from "./dynalite.ts";
import { startEtcd } from "./etcd.ts";
import { startKafkaMock } from "./kafka.ts";
import { startMariadb } from "./mariadb.ts";
import { startNats } from "./nats.ts";
import { startPgbouncer } from "./pgbouncer.ts";
import { startPostgres } from "./postgres.ts";
import { startRabbitmq } from "./rabbitmq.ts";
import { startRedis } from "./redis.ts";
import { startRedisCluster } from "./redis-cluster.ts";
import type { Server } from "./server.ts";
import { sharedUrl, startFor } from "./services.ts";

async function askPostgres(url: string, question: string): Promise<unknown> {
  const client = new pg.Client(url);
  client.on("error", () => {});
  await client.connect();
  try {
    const { rows } = await client.query<Record<string, unknown>>(question);
    return Object.values(rows[0] ?? {})[0];
  } finally {
    await client.end();
  }
}

async function askMariadb(url: string, question: string): Promise<unknown> {
  const client = await mysql.createConnection(url);
  try {
    const [rows] = await client.query<mysql.RowDataPacket[]>(question);
    return Object.values(rows[0] ?? {})[0];
  } finally {
    await client.end();
  }
}

function redisAt(url: string): Redis {
  const redis = new Redis(url, { retryStrategy: () => 20 });
  redis.on("error", () => {});
  onTestFinished(() => redis.disconnect());
  return redis;
}

/** Rejects if no server listens. */
async function knock(port: number): Promise<void> {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  socket.destroy();
}

/** The processes of which this is so. A process that ends meanwhile is none. */
function processesThat(isOne: (pid: string) => boolean): readonly string[] {
  return readdirSync("/proc").filter((name) => {
    try {
      return /^\d+$/.test(name) && isOne(name);
    } catch {
      return false;
    }
  });
}

/** The processes that were started with this folder in their environment. */
function processesIn(folder: string): readonly string[] {
  return processesThat((pid) => readFileSync(`/proc/${pid}/environ`, "utf8").includes(folder));
}

/** The processes whose working folder is in this one, also if it is removed by now. */
function processesAt(folder: string): readonly string[] {
  return processesThat((pid) => readlinkSync(`/proc/${pid}/cwd`).startsWith(folder));
}

function dynamodbAt(endpoint: string): DynamoDBClient {
  const credentials = { accessKeyId: "any", secretAccessKey: "any" };
  const client = new DynamoDBClient({ endpoint, region: "local", credentials });
  onTestFinished(() => client.destroy());
  return client;
}

function newTable(TableName: string): CreateTableCommand {
  return new CreateTableCommand({
    TableName,
    AttributeDefinitions: [{ AttributeName: "id", AttributeType: "S" }],
    KeySchema: [{ AttributeName: "id", KeyType: "HASH" }],
    BillingMode: "PAY_PER_REQUEST",
  });
}

describe("the shared servers", () => {
  test("Redis answers", async (context) => {
    expect(await redisAt(sharedUrl(context, "redis")).ping()).toBe("PONG");
  });

  test("the Redis cluster keeps keys of all its slots", async (context) => {
    const cluster = new Cluster([sharedUrl(context, "redisCluster")]);
    context.onTestFinished(() => cluster.disconnect());
    for (let i = 0; i < 20; i++) await cluster.set(`k${i}`, `v${i}`);
    expect(await cluster.get("k7")).toBe("v7");
    const nodes = String(await cluster.cluster("NODES"));
    expect([nodes.match(/\bmaster\b/g)?.length, nodes.match(/\bslave\b/g)?.length]).toEqual([3, 3]);
  });

  test("Postgres answers, and is safe against a power cut", async (context) => {
    const url = sharedUrl(context, "postgres");
    expect(await askPostgres(url, "SHOW fsync")).toBe("on");
    expect(await askPostgres(url, "SHOW max_connections")).toBe("200");
  });

  test("PgBouncer hands a session's connection on between its transactions", async (context) => {
    const url = sharedUrl(context, "pgbouncer");
    const clients = await Promise.all(
      Array.from({ length: 50 }, async () => {
        const client = new pg.Client(url);
        await client.connect();
        return client;
      }),
    );
    const sessions = new Set<unknown>();
    for (const client of clients)
      sessions.add((await client.query("SELECT pg_backend_pid() AS pid")).rows[0].pid);
    await Promise.all(clients.map((client) => client.end()));
    expect(sessions.size).toBe(1);
  });

  test("MariaDB answers", async (context) => {
    expect(await askMariadb(sharedUrl(context, "mysql"), "SELECT DATABASE()")).toBe("nevertwice");
  });

  test("DynamoDB makes a table without a pause", async (context) => {
    const client = dynamodbAt(sharedUrl(context, "dynamodb"));
    const TableName = `answers-${Date.now()}`;
    await client.send(newTable(TableName));
    await vi.waitFor(async () => {
      const { Table } = await client.send(new DescribeTableCommand({ TableName }));
      expect(Table?.TableStatus).toBe("ACTIVE");
    });
  });

  test("etcd answers", async (context) => {
    const [endpoint] = endpointsIn(sharedUrl(context, "etcd"));
    const response = await fetch(`${endpoint}/v3/cluster/member/list`, { method: "POST", body: "{}" });
    expect(((await response.json()) as { members: unknown[] }).members).toHaveLength(3);
  });

  test("RabbitMQ hands out what was put in", async (context) => {
    const connection = await amqplib.connect(sharedUrl(context, "rabbitmq"));
    context.onTestFinished(() => connection.close());
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    channel.sendToQueue(queue, Buffer.from("hello"));
    await channel.waitForConfirms();
    const message = await channel.get(queue, { noAck: true });
    expect(message !== false && message.content.toString()).toBe("hello");
  });

  test("NATS has JetStream", async (context) => {
    const connection = await connectNats({ servers: sharedUrl(context, "nats") });
    context.onTestFinished(() => connection.close());
    expect(await (await jetstreamManager(connection)).getAccountInfo()).toHaveProperty("streams");
  });
});

describe("a server for one test", () => {
  test("Redis that was killed comes back on its port, with what its log kept", async (context) => {
    const settings = { appendonly: "yes", appendfsync: "always" };
    const server = await startFor(context, () => startRedis({ settings }));
    const redis = redisAt(server.url);
    await redis.set("kept", "yes");
    await server.kill();
    await expect(knock(server.port)).rejects.toThrow("ECONNREFUSED");
    await server.restart();
    expect(await redis.get("kept")).toBe("yes");
  });

  test("Redis that is paused answers once it goes on", async (context) => {
    const server = await startFor(context, () => startRedis());
    const redis = redisAt(server.url);
    await redis.ping();
    server.pause();
    const answer = redis.ping();
    const first = await Promise.race([answer, new Promise((resolve) => setTimeout(resolve, 100, "silence"))]);
    expect(first).toBe("silence");
    server.resume();
    expect(await answer).toBe("PONG");
  });

  test("Postgres that was killed comes back with what it acknowledged", async (context) => {
    const server = await startFor(context, () => startPostgres({ settings: { work_mem: "5MB" } }));
    await askPostgres(server.url, "CREATE TABLE kept AS SELECT 42 AS answer");
    await server.kill();
    await expect(askPostgres(server.url, "SELECT 1")).rejects.toThrow("ECONNREFUSED");
    await server.restart();
    expect(await askPostgres(server.url, "SELECT answer FROM kept")).toBe(42);
    expect(await askPostgres(server.url, "SHOW work_mem")).toBe("5MB");
  });

  test("Postgres that is paused answers nobody, not even a session that stands", async (context) => {
    const server = await startFor(context, () => startPostgres());
    const client = new pg.Client(server.url);
    await client.connect();
    await client.query("SELECT 1");
    server.pause();
    const answer = client.query("SELECT 1 AS one");
    const first = await Promise.race([answer, new Promise((resolve) => setTimeout(resolve, 100, "silence"))]);
    expect(first).toBe("silence");
    server.resume();
    expect((await answer).rows).toEqual([{ one: 1 }]);
    await client.end();
  });

  test("Postgres asks its guarded user for the password", async (context) => {
    const url = new URL((await startFor(context, () => startPostgres())).url);
    url.username = "guarded";
    url.password = "wrong";
    await expect(askPostgres(url.href, "SELECT 1")).rejects.toMatchObject({ code: "28P01" });
    url.password = "secret";
    expect(await askPostgres(url.href, "SELECT current_user")).toBe("guarded");
  });

  test("PgBouncer comes back too", async (context) => {
    const postgres = await startFor(context, () => startPostgres());
    const server = await startFor(context, () => startPgbouncer({ postgresUrl: postgres.url }));
    await server.kill();
    await server.restart();
    expect(await askPostgres(server.url, "SELECT 1")).toBe(1);
  });

  test("MariaDB that was killed comes back with what it acknowledged", async (context) => {
    const server = await startFor(context, () =>
      startMariadb({ settings: { "innodb-buffer-pool-size": "8M" } }),
    );
    await askMariadb(server.url, "CREATE TABLE kept AS SELECT 42 AS answer");
    await server.kill();
    await server.restart();
    expect(await askMariadb(server.url, "SELECT answer FROM kept")).toBe(42);
    const url = new URL(server.url);
    url.password = "wrong";
    await expect(askMariadb(url.href, "SELECT 1")).rejects.toMatchObject({ code: "ER_ACCESS_DENIED_ERROR" });
  });

  test("a master of a Redis cluster that was killed is followed by its replica", async (context) => {
    const settings = { "cluster-node-timeout": 1_000 };
    const { url, nodes } = await startFor(context, () => startRedisCluster({ settings }));
    const cluster = new Cluster([url], { clusterRetryStrategy: () => 50, slotsRefreshTimeout: 5_000 });
    cluster.on("error", () => {});
    context.onTestFinished(() => cluster.disconnect());
    await cluster.set("key", "value");
    await cluster.wait(1, 5_000);
    // Its slot, 12539, is the third master's.
    await nodes[2]?.kill();
    await vi.waitFor(async () => expect(await cluster.get("key")).toBe("value"), { timeout: 15_000 });
  });

  test("dynalite that was killed comes back with its tables", async (context) => {
    const server = await startFor(context, () => startDynalite());
    const client = dynamodbAt(server.url);
    await client.send(newTable("kept"));
    await server.kill();
    await server.restart();
    expect((await client.send(new ListTablesCommand({}))).TableNames).toEqual(["kept"]);
  });

  test("a member of etcd that is cut off has no leader, and follows the new one when it is back", async (context) => {
    const cluster = await startFor(context, () => startEtcd());
    const first = await cluster.leader();
    const put = async (member: number) => {
      const body = JSON.stringify({ key: "YQ==", value: "YQ==" });
      const signal = AbortSignal.timeout(1_000);
      return (await fetch(`${cluster.members[member]?.url}/v3/kv/put`, { method: "POST", body, signal }))
        .status;
    };
    cluster.network.cutOff(first);
    const second = await cluster.leader(first);
    expect(second).not.toBe(first);
    expect(await put(second)).toBe(200);
    await expect(put(first)).rejects.toThrow();
    cluster.network.heal();
    await vi.waitFor(async () => expect(await put(first)).toBe(200), { timeout: 30_000 });
  });

  // What it had acknowledged may be gone: it writes the names of new queues a while after it has said that they are there.
  test("RabbitMQ that was killed comes back on its port, and stopped takes its epmd along", async (context) => {
    const server = await startFor(context, () => startRabbitmq());
    const first = await amqplib.connect(server.url);
    first.on("error", () => {});
    await server.kill();
    await expect(knock(server.port)).rejects.toThrow("ECONNREFUSED");
    await server.restart();
    const second = await amqplib.connect(server.url);
    const channel = await second.createChannel();
    const { queue } = await channel.assertQueue("");
    channel.sendToQueue(queue, Buffer.from("hello"));
    await expect.poll(async () => (await channel.checkQueue(queue)).messageCount).toBe(1);
    await second.close();
    expect(processesIn(server.folder)).not.toEqual([]);
    await server.stop();
    expect(processesIn(server.folder)).toEqual([]);
  }, 180_000);

  test("NATS that was killed comes back with its streams", async (context) => {
    const server = await startFor(context, () => startNats());
    const first = await connectNats({ servers: server.url, reconnect: false });
    await (await jetstreamManager(first)).streams.add({ name: "KEPT", subjects: ["kept"] });
    await server.kill();
    await first.closed();
    await server.restart();
    const second = await connectNats({ servers: server.url });
    expect(await (await jetstreamManager(second)).streams.names().next()).toEqual(["KEPT"]);
    await second.close();
  });

  test("the mock of Kafka takes messages, and is gone when it is stopped", async (context) => {
    const server = await startFor(context, () => startKafkaMock());
    const kafka = new Kafka({ brokers: [server.url], logLevel: logLevel.NOTHING });
    const producer = kafka.producer();
    await producer.connect();
    const [sent] = await producer.send({ topic: "letters", messages: [{ value: "hello" }] });
    expect(sent).toMatchObject({ topicName: "letters", errorCode: 0 });
    await producer.disconnect();
    await server.stop();
    expect(existsSync(server.folder)).toBe(false);
  });

  test("stop ends a server that is paused, and removes its folder", async (context) => {
    const server = await startFor(context, () => startRedis());
    server.pause();
    const startedAt = performance.now();
    await server.stop();
    await server.stop();
    expect(performance.now() - startedAt).toBeLessThan(4_900);
    expect(existsSync(server.folder)).toBe(false);
    await expect(knock(server.port)).rejects.toThrow("ECONNREFUSED");
  });

  /** Starts a server in a process of its own, runs a piece of code there, and kills that process. */
  async function startAndDie(
    file: string,
    start: string,
    more = "",
  ): Promise<Pick<Server, "port" | "folder">> {
    const path = fileURLToPath(new URL(file, import.meta.url));
    const source = `import { runnerImport } from "vite";
      const { module } = await runnerImport(${JSON.stringify(path)});
      const server = await module.${start}();
      ${more}
      console.log(JSON.stringify({ port: server.port, folder: server.folder }));`;
    const parent = spawn(process.execPath, ["--input-type=module", "--eval", source], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [line] = await once(parent.stdout, "data");
    parent.kill("SIGKILL");
    return JSON.parse(String(line));
  }

  test("a server ends, and its folder goes, when the process that started it is killed", async (context) => {
    sharedUrl(context, "redis");
    const { port, folder } = await startAndDie("redis.ts", "startRedis");
    await vi.waitFor(() => expect(existsSync(folder)).toBe(false), { timeout: 30_000 });
    await vi.waitFor(() => expect(knock(port)).rejects.toThrow("ECONNREFUSED"), { timeout: 30_000 });
  });

  test("a Postgres that is paused ends with all its processes when the process that started it is killed", async (context) => {
    sharedUrl(context, "postgres");
    const { folder } = await startAndDie("postgres.ts", "startPostgres", "server.pause();");
    await vi.waitFor(() => expect(existsSync(folder)).toBe(false), { timeout: 30_000 });
    await vi.waitFor(() => expect(processesAt(folder)).toEqual([]), { timeout: 10_000 });
  });

  test("a server that cannot start says why, in its own words", async (context) => {
    sharedUrl(context, "redis");
    await expect(startRedis({ settings: { nonsense: "yes" } })).rejects.toThrow(/Bad directive/);
  });

  test("a program that is missing is named, with how to install it", async () => {
    vi.stubEnv("PATH", "");
    await expect(startRedis()).rejects.toThrow("redis-server is not installed: apt-get install redis-server");
  });

  test("ten servers started at once do not get in each other's way", async (context) => {
    const start = () => startFor(context, () => startRedis());
    const servers = await Promise.all(Array.from({ length: 10 }, start));
    const answers = await Promise.all(servers.map(({ url }) => redisAt(url).ping()));
    expect(new Set(servers.map(({ port }) => port)).size).toBe(10);
    expect(answers).toEqual(Array.from({ length: 10 }, () => "PONG"));
  });
});
