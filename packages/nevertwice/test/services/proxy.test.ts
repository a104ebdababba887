/** Tests the proxy: each fault does what it says to a connection, and nothing else. */
import { connect } from "node:net";
import { Redis } from "ioredis";
import mysql from "mysql2/promise";
import pg from "pg";
import { expect, onTestFinished, type TestContext, test, vi } from "vitest";
import { type FaultProxy, startProxy } from "./proxy.ts";
import { type ServiceName, sharedUrl, startFor } from "./services.ts";

async function proxyOf(context: TestContext, name: ServiceName): Promise<FaultProxy> {
  const url = sharedUrl(context, name);
  return startFor(context, () => startProxy(url));
}

/** A client that never repeats a command itself, so that a test sees what the proxy did. */
function redisAt(url: string): Redis {
  const redis = new Redis(url, { maxRetriesPerRequest: 0, retryStrategy: () => 10 });
  redis.on("error", () => {});
  onTestFinished(() => redis.disconnect());
  return redis;
}

const silence = () => new Promise<string>((resolve) => setTimeout(resolve, 100, "silence"));
let keys = 0;
const newKey = (): string => `proxy-${process.pid}-${Date.now()}-${keys++}`;

test("it passes everything on, and counts it", async (context) => {
  const proxy = await proxyOf(context, "redis");
  const redis = redisAt(proxy.url);
  const key = newKey();
  const large = "x".repeat(1_000_000);
  await redis.set(key, large);
  expect(await redis.get(key)).toBe(large);
  expect(proxy.connections).toBe(1);
  expect(proxy.requests).toBeGreaterThan(1);
  expect(proxy.bytesToServer).toBeGreaterThan(1_000_000);
  expect(proxy.bytesToClient).toBeGreaterThan(1_000_000);
  redis.disconnect();
  await vi.waitFor(() => expect(proxy.connections).toBe(0));
});

test("a cut reply is one whose request was carried out", async (context) => {
  const proxy = await proxyOf(context, "redis");
  const redis = redisAt(proxy.url);
  const key = newKey();
  expect(await redis.incr(key)).toBe(1);
  proxy.cutReply();
  await expect(redis.incr(key)).rejects.toThrow();
  expect(await redis.get(key)).toBe("2");
});

test("a cut reply can be aimed at one command, as often as one likes", async (context) => {
  const proxy = await proxyOf(context, "redis");
  const redis = redisAt(proxy.url);
  const key = newKey();
  proxy.cutReply(2, (chunk) => chunk.includes("incr"));
  expect(await redis.ping()).toBe("PONG");
  await expect(redis.incr(key)).rejects.toThrow();
  await expect(redis.incr(key)).rejects.toThrow();
  expect(await redis.incr(key)).toBe(3);
});

test("a cut request is one that was not carried out", async (context) => {
  const proxy = await proxyOf(context, "redis");
  const redis = redisAt(proxy.url);
  const key = newKey();
  await redis.set(key, "1");
  proxy.cutRequest(1, (chunk) => chunk.includes("incr"));
  await expect(redis.incr(key)).rejects.toThrow();
  expect(await redis.get(key)).toBe("1");
});

test("a lost COMMIT reply leaves the transaction committed", async (context) => {
  const proxy = await proxyOf(context, "postgres");
  const table = newKey().replaceAll("-", "_");
  const direct = new pg.Client(sharedUrl(context, "postgres"));
  await direct.connect();
  context.onTestFinished(() => direct.end());
  await direct.query(`CREATE TABLE ${table} (n int)`);
  context.onTestFinished(async () => void (await direct.query(`DROP TABLE ${table}`)));

  const client = new pg.Client(proxy.url);
  client.on("error", () => {});
  await client.connect();
  await client.query("BEGIN");
  await client.query(`INSERT INTO ${table} VALUES (1)`);
  proxy.cutReply(1, (chunk) => chunk.includes("COMMIT"));
  await expect(client.query("COMMIT")).rejects.toThrow();
  expect((await direct.query(`SELECT n FROM ${table}`)).rows).toEqual([{ n: 1 }]);
});

test("held replies come when they are released, in order", async (context) => {
  const proxy = await proxyOf(context, "redis");
  const redis = redisAt(proxy.url);
  const key = newKey();
  await redis.ping();
  proxy.holdReplies();
  const answers = Promise.all([redis.incr(key), redis.incr(key), redis.incr(key)]);
  expect(await Promise.race([answers, silence()])).toBe("silence");
  expect(await redisAt(sharedUrl(context, "redis")).get(key)).toBe("3");
  proxy.releaseReplies();
  expect(await answers).toEqual([1, 2, 3]);
});

test("held requests arrive when they are released, though their client is gone", async (context) => {
  const proxy = await proxyOf(context, "redis");
  const direct = redisAt(sharedUrl(context, "redis"));
  const key = newKey();
  proxy.holdRequests();
  const client = connect(proxy.port, "127.0.0.1", () => client.write(`INCR ${key}\r\n`));
  await vi.waitFor(() => expect(proxy.requests).toBe(1));
  client.resetAndDestroy();
  await vi.waitFor(() => expect(proxy.connections).toBe(0));
  expect(await direct.get(key)).toBeNull();
  proxy.releaseRequests();
  await vi.waitFor(async () => expect(await direct.get(key)).toBe("1"));
});

test("latency is added to every reply until it is healed", async (context) => {
  const proxy = await proxyOf(context, "redis");
  const redis = redisAt(proxy.url);
  await redis.ping();
  proxy.latency(1_000);
  const startedAt = performance.now();
  await redis.ping();
  expect(performance.now() - startedAt).toBeGreaterThan(990);
  proxy.heal();
  const healedAt = performance.now();
  await redis.ping();
  expect(performance.now() - healedAt).toBeLessThan(990);
});

test("while it refuses, new connections are reset and old ones stay", async (context) => {
  const proxy = await proxyOf(context, "redis");
  const old = redisAt(proxy.url);
  await old.ping();
  proxy.refuse();
  const refused = new Promise((resolve) => connect(proxy.port, "127.0.0.1").once("error", resolve));
  expect(await refused).toMatchObject({ code: "ECONNRESET" });
  expect(await old.ping()).toBe("PONG");
  proxy.cutAll();
  await expect(old.ping()).rejects.toThrow();
  proxy.heal();
  await vi.waitFor(async () => expect(await old.ping()).toBe("PONG"));
});

test("while it hangs, nothing is said to anybody, and nothing reaches the server", async (context) => {
  const proxy = await proxyOf(context, "redis");
  const old = redisAt(proxy.url);
  const key = newKey();
  await old.ping();
  proxy.hang();
  const heard: string[] = [];
  const young = connect(proxy.port, "127.0.0.1", () => young.write("PING\r\n"));
  young
    .on("data", () => heard.push("data"))
    .on("close", () => heard.push("close"))
    .on("error", () => {});
  const answer = old.incr(key).catch(() => "cut");
  expect(await Promise.race([answer, silence()])).toBe("silence");
  expect(heard).toEqual([]);
  proxy.heal();
  expect(await answer).toBe("cut");
  await vi.waitFor(() => expect(heard).toEqual(["close"]));
  expect(await old.get(key)).toBeNull();
});

test("Redis commands are counted by name, however they were sent", async (context) => {
  const proxy = await proxyOf(context, "redis");
  const redis = redisAt(proxy.url);
  await redis.ping();
  const messages = proxy.countRequests("redis");
  await redis.pipeline().set(newKey(), "x".repeat(300_000)).get("a\r\n*1\r\n").exec();
  await redis.eval("return 1", 0);
  expect(messages.names).toEqual(["SET", "GET", "EVAL"]);
  const another = redisAt(proxy.url);
  await another.ping();
  expect(messages.names.at(-1)).toBe("PING");
});

test("Postgres round trips are counted: one for a query, prepared or not", async (context) => {
  const proxy = await proxyOf(context, "postgres");
  const messages = proxy.countRequests("postgres");
  const client = new pg.Client(proxy.url);
  await client.connect();
  context.onTestFinished(() => client.end());
  expect(messages.count).toBe(0);
  await client.query("SELECT 1");
  await client.query("SELECT $1::text", ["x".repeat(300_000)]);
  await client.query({ name: "named", text: "SELECT $1::int", values: [1] });
  await client.query({ name: "named", text: "SELECT $1::int", values: [2] });
  expect(messages.names).toEqual(["Query", "Sync", "Sync", "Sync"]);
});

test("MariaDB round trips are counted too", async (context) => {
  const proxy = await proxyOf(context, "mysql");
  const messages = proxy.countRequests("mysql");
  const client = await mysql.createConnection(proxy.url);
  context.onTestFinished(() => client.end());
  await client.query("SELECT 1");
  await client.execute("SELECT ?", [1]);
  await client.execute("SELECT ?", [2]);
  expect(messages.names).toEqual(["Query", "Prepare", "Execute", "Execute"]);
});

test("a server that goes away takes the client's connection with it", async (context) => {
  const proxy = await startFor(context, () => startProxy(1));
  const lost = new Promise((resolve) => connect(proxy.port, "127.0.0.1").once("error", resolve));
  expect(await lost).toMatchObject({ code: "ECONNRESET" });
});

test("silence swallows what is said on connections that stand, and passes new ones", async (context) => {
  const proxy = await proxyOf(context, "redis");
  const old = redisAt(proxy.url);
  expect(await old.ping()).toBe("PONG");
  proxy.silence();
  expect(await Promise.race([old.ping().catch(() => "error"), silence()])).toBe("silence");
  expect(await redisAt(proxy.url).ping()).toBe("PONG");
});
