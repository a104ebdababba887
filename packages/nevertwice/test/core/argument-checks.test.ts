/** Tests arguments that callers forget or confuse. Each is refused with a message that says what to write instead. */
import { Redis } from "ioredis";
import mysql from "mysql2/promise";
import pg from "pg";
import { createClient } from "redis";
import { afterAll, describe, expect, test } from "vitest";
import { createClaims } from "../../src/claims/index.ts";
import { idempotentMessages } from "../../src/events/a2a.ts";
import { cloudEvents } from "../../src/events/cloudevents.ts";
import { consumer } from "../../src/events/index.ts";
import { idempotentTool } from "../../src/events/mcp.ts";
import { stripe, webhook } from "../../src/events/webhook.ts";
import { protect, protectedFunction, replay, tryProtect } from "../../src/functions/protect.ts";
import { idempotency as expressIdempotency } from "../../src/http/express.ts";
import { idempotency as fastifyIdempotency } from "../../src/http/fastify.ts";
import { withIdempotency } from "../../src/http/fetch.ts";
import { idempotency as honoIdempotency } from "../../src/http/hono.ts";
import { idempotency as koaIdempotency } from "../../src/http/koa.ts";
import { idempotency as lambdaIdempotency } from "../../src/http/lambda.ts";
import { idempotency as nestIdempotency } from "../../src/http/nest.ts";
import { idempotency as nodeIdempotency } from "../../src/http/node.ts";
import { createGuard, idempotent } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";

/** Passes a value that TypeScript would refuse and JavaScript lets through. */
const untyped = (value: unknown) => value as never;
const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0, waitMs: 50 });
const OPTIONS = { operation: "charge", key: () => "k", scope: "anyone" };
const work = () => 1;

const redis = new Redis({ lazyConnect: true });
const pool = new pg.Pool();
const mysqlPool = mysql.createPool({});
afterAll(async () => {
  redis.disconnect();
  await pool.end();
  await mysqlPool.end();
  await guard.close();
});

async function message(call: () => unknown): Promise<string> {
  try {
    await call();
  } catch (error) {
    expect(error).toMatchObject({ code: "options-invalid" });
    return (error as Error).message;
  }
  throw new Error("it was not refused");
}

describe("names the right store when a client is given in place of a store:", () => {
  test.each<[what: string, client: unknown, hint: string]>([
    ["ioredis", redis, "a Redis client; write redisStore({ client })"],
    ["node-redis", createClient(), "a Redis client; write redisStore({ client })"],
    ["a pool of pg", pool, "a Postgres client; write postgresStore({ client: pool })"],
    ["a client of pg", new pg.Client(), "a Postgres client; write postgresStore({ client: pool })"],
    ["a pool of mysql2", mysqlPool, "a MySQL pool; write mysqlStore({ client: pool })"],
    ["Prisma", { $transaction: work, $queryRaw: work }, "a Prisma client; hand the database's own pool"],
    ["a factory", memoryStore, "a function; call it: store: memoryStore()"],
    ["a URL", "redis://localhost", "a string; openStore(url)"],
    ["a promise of a store", Promise.resolve(memoryStore()), "a promise; await it"],
  ])("%s", async (_, client, hint) => {
    for (const create of [createGuard, createClaims])
      expect(await message(() => create({ store: untyped(client) }))).toContain(
        `store is not a store: it is ${hint}`,
      );
  });

  test("createClaims refuses a missing store, and an observer that cannot be called", async () => {
    expect(await message(() => createClaims(untyped({})))).toContain("store is missing");
    expect(await message(() => createClaims({ store: memoryStore(), observer: untyped(5) }))).toContain(
      "observer",
    );
  });

  test("lists the missing methods of an object it does not recognise", async () => {
    expect(await message(() => createGuard({ store: untyped({ claim: work }) }))).toContain(
      "store is not a store: it lacks complete, abandon",
    );
  });
});

describe("names the missing guard:", () => {
  test.each<[what: string, call: () => unknown]>([
    ["protect", () => protect(untyped(OPTIONS), untyped(work), untyped(undefined))],
    ["tryProtect", () => tryProtect(untyped(undefined), untyped(OPTIONS), work)],
    ["protectedFunction", () => protectedFunction(untyped(work), untyped(OPTIONS), untyped(undefined))],
    ["replay", () => replay(untyped({}), untyped(work), untyped(undefined))],
    ["@idempotent", () => idempotent(untyped(OPTIONS), untyped(undefined))],
    ["fetch", () => withIdempotency(untyped(OPTIONS), untyped(work), untyped(undefined))],
    ["express", () => expressIdempotency(untyped(OPTIONS), untyped(undefined))],
    ["hono", () => honoIdempotency(untyped(OPTIONS), untyped(undefined))],
    ["koa", () => koaIdempotency(untyped(OPTIONS), untyped(undefined))],
    ["node:http", () => nodeIdempotency(untyped(OPTIONS), untyped(undefined))],
    ["consumer", () => consumer(untyped({ name: "n", key: work, work }), untyped(undefined))],
    ["lambda", () => lambdaIdempotency(untyped(OPTIONS), untyped(undefined))],
    ["nest", () => nestIdempotency(untyped(OPTIONS), untyped(undefined))],
    [
      "a webhook",
      () => webhook(untyped({ name: "n", scheme: stripe, secret: "s", work }), untyped(undefined)),
    ],
    ["CloudEvents", () => cloudEvents(untyped({ name: "n", work }), untyped(undefined))],
    ["an MCP tool", () => idempotentTool(untyped(OPTIONS), untyped(undefined))],
    ["messages of agents", () => idempotentMessages(untyped(OPTIONS), untyped(undefined), untyped({}))],
  ])("%s", async (_, call) => {
    expect(await message(call)).toContain("the guard is missing: ");
  });

  test("fastify refuses a missing guard when the plugin is registered", async () => {
    expect(
      await message(() =>
        (fastifyIdempotency as unknown as (...args: unknown[]) => unknown)(OPTIONS, undefined),
      ),
    ).toContain("the guard is missing: ");
  });
});

describe("a call without its request", () => {
  test.each<[what: string, call: () => unknown]>([
    ["run", () => guard.run(untyped("order-1"), work)],
    ["tryRun", () => guard.tryRun(untyped("order-1"), work)],
    ["read", () => guard.read(untyped("order-1"))],
    ["claim", () => guard.claim(untyped("order-1"))],
    ["claimBatch", () => guard.claimBatch(untyped(["order-1"]))],
    ["seen", () => guard.seen(untyped("order-1"))],
    ["seenBatch", () => guard.seenBatch(untyped(["order-1"]))],
    ["mark", () => guard.mark(untyped("order-1"))],
    ["markBatch", () => guard.markBatch(untyped(["order-1"]))],
    ["release", () => guard.release(untyped("order-1"))],
    ["releaseBatch", () => guard.releaseBatch(untyped(["order-1"]))],
    ["reopen", () => guard.reopen(untyped("order-1"))],
    ["resolve", () => guard.resolve(untyped("order-1"), { status: "not-done" })],
    ["forget", () => guard.forget(untyped("order-1"))],
    ["about", () => guard.about(untyped("order-1"))],
    ["createClaims().claim", () => createClaims({ store: memoryStore() }).claim(untyped("order-1"))],
  ])("%s says what it takes, and does not repeat the key", async (_, call) => {
    const text = await message(call);
    expect(text).toContain(
      'the request is a string; it must be an object that names the work: { operation: "charge", key }',
    );
    expect(text).not.toContain("order-1");
  });

  test("wrap without options says which options it needs", async () => {
    expect(await message(() => guard.wrap(work, untyped(undefined)))).toContain(
      "the options are missing: guard.wrap(work, { operation, key }).",
    );
  });
});

describe("a run inside itself", () => {
  const request = { operation: "charge", key: "order-1" };

  test("reports that it waits for itself", async () => {
    const inner = () => guard.run(request, work);
    await expect(guard.run(request, inner)).rejects.toMatchObject({
      code: "pending",
      message: expect.stringContaining("it waits for itself. Give the inner work another key or operation."),
    });
  });

  test("is not reported when the key is run by another guard", async () => {
    const store = memoryStore();
    const owner = createGuard({ store, purgeEveryMs: 0 });
    const other = createGuard({ store, purgeEveryMs: 0, onPending: "reject" });
    const claim = await owner.claim(request);
    await expect(other.run(request, work)).rejects.toMatchObject({
      message: "pending: another attempt is doing this work; try again later.",
    });
    if (claim.status === "claimed") await claim.release();
  });
});
