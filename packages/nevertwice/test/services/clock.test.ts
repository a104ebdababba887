/** Tests the clock of servers: a test can move it in both directions while the server runs. */
import { Redis } from "ioredis";
import mysql from "mysql2/promise";
import pg from "pg";
import { expect, test } from "vitest";
import { startMariadb } from "./mariadb.ts";
import { startPostgres } from "./postgres.ts";
import { startRedis } from "./redis.ts";
import type { Server } from "./server.ts";
import { startFor } from "./services.ts";

/** The difference between the server's clock and ours after each step, in whole seconds. */
async function walk(server: Server, now: () => Promise<number>): Promise<readonly number[]> {
  const away = async (): Promise<number> => Math.round(((await now()) - Date.now()) / 1_000) + 0;
  const seen = [await away()];
  for (const ms of [3_600_000, -7_200_000, 3_600_000]) {
    server.stepClock(ms);
    seen.push(await away());
  }
  return seen;
}

test("Redis TIME follows, and so does a script's", async (context) => {
  const server = await startFor(context, () => startRedis({ clock: true }));
  const redis = new Redis(server.url);
  context.onTestFinished(() => redis.disconnect());
  const millis = ([seconds, micros]: readonly (number | string)[]): number =>
    Number(seconds) * 1_000 + Number(micros) / 1_000;
  expect(await walk(server, async () => millis(await redis.time()))).toEqual([0, 3_600, -3_600, 0]);
  const inScript = async () => millis((await redis.eval("return redis.call('TIME')", 0)) as string[]);
  expect(await walk(server, inScript)).toEqual([0, 3_600, -3_600, 0]);
});

test("Postgres' clock_timestamp() follows in a session that stands", async (context) => {
  const server = await startFor(context, () => startPostgres({ clock: true }));
  const client = new pg.Client(server.url);
  await client.connect();
  context.onTestFinished(() => client.end());
  const now = async () => Number((await client.query("SELECT clock_timestamp() AS now")).rows[0].now);
  expect(await walk(server, now)).toEqual([0, 3_600, -3_600, 0]);
});

test("MariaDB's clock follows in a session that stands", async (context) => {
  const server = await startFor(context, () => startMariadb({ clock: true }));
  const client = await mysql.createConnection(server.url);
  context.onTestFinished(() => client.end());
  const now = async () => {
    const [rows] = await client.query<mysql.RowDataPacket[]>("SELECT UNIX_TIMESTAMP(SYSDATE(6)) AS now");
    return Number(rows[0]?.now) * 1_000;
  };
  expect(await walk(server, now)).toEqual([0, 3_600, -3_600, 0]);
});

test("a step survives a restart", async (context) => {
  const server = await startFor(context, () => startRedis({ clock: true }));
  server.stepClock(86_400_000);
  await server.kill();
  await server.restart();
  const redis = new Redis(server.url);
  context.onTestFinished(() => redis.disconnect());
  const [seconds] = await redis.time();
  expect(Math.round(Number(seconds) - Date.now() / 1_000 - 86_400)).toBeCloseTo(0, -1);
});

test("a server started without one says so", async (context) => {
  const server = await startFor(context, () => startRedis());
  expect(() => server.stepClock(1)).toThrow("redis was started without `clock: true`");
});
