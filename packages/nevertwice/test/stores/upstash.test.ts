/** Tests what is particular to the Upstash store: its client's settings, its requests, its errors, and what its doctor says. */
import { randomUUID } from "node:crypto";
import { Redis } from "@upstash/redis";
import { describe, expect, test } from "vitest";
import { diagnose } from "../../src/core/doctor.ts";
import { createGuard } from "../../src/index.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { CLAIM, CLAIM_MARKED } from "../../src/stores/redis-lua.ts";
import { type UpstashClient, upstashStore } from "../../src/stores/upstash.ts";
import { startRedis } from "../services/redis.ts";
import { startFor } from "../services/services.ts";
import { startUpstashDoor, type UpstashDoor } from "../services/upstash-door.ts";
import { ioredis } from "./redis/clients.ts";
import { claimOf, fenceOf, keyOf } from "./redis/scene.ts";
import { doorFor, emptyDoor, redisBehind, upstashClient } from "./upstash/scene.ts";

const NOWHERE = { url: "http://127.0.0.1:1", token: "t" };

describe("the client", () => {
  test("must not parse replies as JSON", () => {
    for (const options of [{}, { automaticDeserialization: true }])
      expect(() => upstashStore({ client: new Redis({ ...NOWHERE, ...options }) })).toThrow(
        expect.objectContaining({
          code: "options-invalid",
          message: expect.stringContaining("automaticDeserialization: false"),
        }),
      );
  });

  test("must not have one signal for all requests", () => {
    const client = upstashClient(NOWHERE, { signal: new AbortController().signal });
    expect(() => upstashStore({ client })).toThrow(/signal of client must be a function/);
    upstashStore({ client: upstashClient(NOWHERE, { signal: () => AbortSignal.timeout(1_000) }) });
  });

  test.each([undefined, null, {}, "redis://localhost"])("is not %j", (client) => {
    expect(() => upstashStore({ client: client as unknown as UpstashClient })).toThrow(
      expect.objectContaining({
        code: "options-invalid",
        message: expect.stringContaining("@upstash/redis"),
      }),
    );
  });

  test("would lose a finished step if it parsed replies, which is why it is refused", async (context) => {
    const door = await doorFor(context);
    const parsing = upstashClient(door, { automaticDeserialization: true });
    const disguised = new Proxy(parsing, {
      get: (target, name) =>
        name === "opts" ? { automaticDeserialization: false } : Reflect.get(target, name),
    });
    const stepsSeenBy = async (client: UpstashClient) => {
      const claim = claimOf("t1");
      const store = upstashStore({ client });
      await store.claim(claim);
      await store.keepStep?.({ ...claim, name: "paid", outcome: "receipt" });
      await store.abandon({ ...claim, as: "released" });
      const answer = await store.claim({ ...claim, token: "t2" });
      return answer.status === "new" ? answer.steps?.length : undefined;
    };
    expect(await stepsSeenBy(upstashClient(door))).toBe(1);
    expect(await stepsSeenBy(disguised)).toBeUndefined();
  });
});

describe("a reply that is no list", () => {
  test.for(['{"result":"Aborted"}', '{"result":null}', '{"result":1}', "{}"])(
    "is unavailable, never an answer: %s",
    async (body, context) => {
      const door = await emptyDoor(context);
      const store = upstashStore({ client: upstashClient(door) });
      const claim = claimOf("t1");
      const steps = [
        () => store.claim(claim),
        () => store.claim({ ...claim, hold: true }),
        () => store.complete({ ...claim, outcome: "done" }),
        () => store.renew(claim),
        () => store.abandon({ ...claim, as: "released" }),
        () => store.read(claim.id),
      ];
      for (const step of steps) {
        door.answerNext(200, body);
        await expect(step()).rejects.toMatchObject({ code: "unavailable", retryable: true });
      }
    },
  );
});

describe("an outcome", () => {
  test.for([{}, { responseEncoding: false as const }])(
    "that begins with a byte order mark comes back from each script of a claim (%j)",
    async (options, context) => {
      const door = await doorFor(context);
      const store = upstashStore({ client: upstashClient(door, options) });
      const claim = claimOf("t1");
      const outcome = "\ufeff=\ufeffdone";
      await store.claim(claim);
      await store.complete({ ...claim, outcome });
      for (const hold of [false, true])
        expect(await store.claim({ ...claim, token: "t2", hold })).toEqual({ status: "completed", outcome });
      expect(await store.read(claim.id)).toMatchObject({ outcome });
    },
  );
});

test("it shares its records with a Redis store on the same database", async (context) => {
  const door = await doorFor(context);
  const overRest = upstashStore({ client: upstashClient(door) });
  const overTcp = redisStore({ client: ioredis(redisBehind(context)) });
  const claim = claimOf("t1");
  const granted = await overRest.claim(claim);
  expect(await overTcp.claim({ ...claim, token: "t2" })).toMatchObject({ status: "pending" });
  expect(await overTcp.complete({ ...claim, outcome: "done" })).toBe(true);
  expect(await overRest.claim({ ...claim, token: "t3" })).toEqual({ status: "completed", outcome: "done" });
  expect(await overRest.read(claim.id)).toEqual(await overTcp.read(claim.id));
  expect(await overRest.forget?.({ id: claim.id, fence: fenceOf(granted), reopen: true })).toBe(true);
  expect(await overTcp.claim({ ...claim, token: "t4" })).toMatchObject({ status: "new", number: 2 });
});

describe("requests", () => {
  /** The commands that this work sends. */
  async function commandsOf(door: UpstashDoor, work: () => Promise<unknown>): Promise<readonly string[]> {
    const before = door.commands.length;
    const requests = door.requests;
    await work();
    const sent = door.commands.slice(before);
    // Each command has its own request.
    expect(door.requests - requests).toBe(sent.length);
    return sent;
  }

  test("each operation takes the commands that docs/stores.md says", async (context) => {
    const door = await doorFor(context);
    const store = upstashStore({ client: upstashClient(door) });
    const guard = createGuard({ store, namespace: "upstash-tests", purgeEveryMs: 0 });
    const run = (key: string, work: () => unknown = () => "done", hold = false) =>
      guard.run({ operation: "o", key, ...(hold && { onUnknown: "hold" as const }) }, work);
    const fails = () => {
      throw new Error("failed");
    };
    // The first run of each script loads it.
    const warm = randomUUID();
    await run(warm, fails).catch(() => {});
    await run(warm);
    const key = randomUUID();
    expect(await commandsOf(door, () => run(key))).toEqual(["EVALSHA", "EVALSHA"]);
    expect(await commandsOf(door, () => run(key))).toEqual(["EVALSHA"]);
    const failing = randomUUID();
    expect(await commandsOf(door, () => run(failing, fails).catch(() => {}))).toEqual(["EVALSHA", "EVALSHA"]);
    expect(await commandsOf(door, () => run(failing))).toEqual(["EVALSHA", "EVALSHA", "EVALSHA"]);
    const claim = claimOf("t1");
    await store.claim(claim);
    await store.renew(claim);
    expect(await commandsOf(door, () => store.renew(claim))).toEqual(["EVALSHA"]);
    await guard.close();
  });

  test("a script that is not loaded takes one command more, once", async (context) => {
    const redis = await startFor(context, startRedis);
    const door = await startFor(context, () => startUpstashDoor(redis.url));
    const store = upstashStore({ client: upstashClient(door) });
    expect(await commandsOf(door, () => store.claim(claimOf("t1")))).toEqual(["EVALSHA", "EVAL"]);
    expect(await commandsOf(door, () => store.claim(claimOf("t2")))).toEqual(["EVALSHA"]);
  });

  test.for([{}, { enableAutoPipelining: true }])(
    "calls that arrive together share no request, whatever the client is set to (%j)",
    async (options, context) => {
      const door = await doorFor(context);
      const store = upstashStore({ client: upstashClient(door, options) });
      await store.claim(claimOf("t0"));
      const claims = Array.from({ length: 20 }, () => claimOf("t1"));
      const sent = await commandsOf(door, () => Promise.all(claims.map((claim) => store.claim(claim))));
      expect(sent).toEqual(new Array(20).fill("EVALSHA"));
    },
  );
});

describe("errors", () => {
  const SECRET = "a-token-that-no-log-may-show";

  test.for([
    ["WRONGPASS invalid or missing auth token", 401, "store-unsafe"],
    ["NOPERM this user has no permissions to run the 'evalsha' command", 400, "store-unsafe"],
    ["ERR DB capacity quota exceeded", 400, "store-full"],
    ["ERR max requests limit exceeded. Limit: 500000, Usage: 500000.", 400, "store-full"],
    ["ERR max request size exceeded. Limit: 10485760 bytes, Actual: 20971520 bytes", 400, "options-invalid"],
    ["ERR max single record size exceeded", 400, "options-invalid"],
    ["ERR max concurrent connections exceeded", 400, "unavailable"],
    ["LOADING Redis is loading the dataset in memory", 400, "unavailable"],
    ["Unauthorized", 401, "store-unsafe"],
    ["ERR something that no version says yet", 400, "store-unsafe"],
  ] as const)("%s (%i) is %s, and quotes no command", async ([error, status, code], context) => {
    const door = await emptyDoor(context);
    const store = upstashStore({ client: upstashClient(door) });
    door.answerNext(status, JSON.stringify({ error }));
    const thrown = await store
      .complete({ ...claimOf(SECRET), outcome: SECRET })
      .catch((error: unknown) => error);
    expect(thrown).toMatchObject({ code, message: expect.stringContaining(error) });
    expect(textsOf(thrown)).not.toContain(SECRET);
  });

  test("a reply that is no JSON is unavailable, and is not quoted", async (context) => {
    const door = await emptyDoor(context);
    const store = upstashStore({ client: upstashClient(door) });
    for (const status of [200, 502]) {
      door.answerNext(status, `<html>${SECRET}`);
      const thrown = await store.read("id").catch((error: unknown) => error);
      expect(thrown).toMatchObject({ code: "unavailable", retryable: true });
      expect(textsOf(thrown)).not.toContain(SECRET);
    }
  });

  test("a server that cannot be reached is unavailable, with the reason", async () => {
    const store = upstashStore({ client: upstashClient(NOWHERE) });
    await expect(store.read("id")).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringMatching(/Upstash cannot be reached \(TypeError: fetch failed: .*\)/),
    });
  });

  test("a time limit of the client is unavailable", async (context) => {
    const door = await doorFor(context);
    const client = upstashClient(door, { signal: () => AbortSignal.abort(new Error("too late")) });
    await expect(upstashStore({ client }).claim(claimOf("t1"))).rejects.toMatchObject({
      code: "unavailable",
    });
  });

  test("a damaged record is store-unsafe, only for its key", async (context) => {
    const door = await doorFor(context);
    const store = upstashStore({ client: upstashClient(door) });
    const claim = claimOf("t1");
    const redis = ioredis(redisBehind(context));
    await redis.set(keyOf(claim.id), "9cwhat no script wrote");
    await expect(store.claim(claim)).rejects.toMatchObject({ code: "store-unsafe" });
    await expect(store.read(claim.id)).rejects.toMatchObject({ code: "store-unsafe" });
    expect(await store.claim(claimOf("t1"))).toMatchObject({ status: "new" });
    await redis.del(keyOf(claim.id));
  });

  /** Everything that a log could print of an error. */
  function textsOf(error: unknown): string {
    if (!(error instanceof Error)) return String(error);
    return [error.message, error.stack, JSON.stringify(error), error.cause && textsOf(error.cause)].join(
      "\n",
    );
  }
});

describe("the doctor", () => {
  test("promises nothing about Upstash that its documentation does not", async (context) => {
    const door = await emptyDoor(context);
    const store = upstashStore({ client: upstashClient(door) });
    // CONFIG is refused; INFO has other sections than those of Redis.
    door.answerNext(
      200,
      JSON.stringify({ result: Buffer.from("# Server\r\nupstash_version:1\r\n").toString("base64") }),
    );
    const diagnosis = await diagnose(store);
    expect(diagnosis.title).toBe("Upstash, over REST");
    expect(diagnosis.rung).toBe("our-crash");
    expect(diagnosis.survives["store-crash"]).toMatchObject({ survives: "unknown" });
    expect(diagnosis.survives["power-loss"]).toMatchObject({ survives: "unknown" });
    expect(diagnosis.survives.failover).toMatchObject({
      survives: "no",
      because: expect.stringContaining("asynchronously"),
    });
    expect(diagnosis.notes).toEqual([
      expect.stringContaining("restored backup"),
      expect.stringContaining("eviction cannot be read over REST"),
    ]);
  });

  test("refuses a server that says that it evicts", async (context) => {
    const settings = { maxmemory: "100mb", "maxmemory-policy": "allkeys-lru" };
    const redis = await startFor(context, () => startRedis({ settings }));
    const door = await startFor(context, () => startUpstashDoor(redis.url));
    const store = upstashStore({ client: upstashClient(door) });
    const { refused, title } = await diagnose(store);
    expect(refused).toContain("maxmemory-policy allkeys-lru evicts claims");
    expect(title).toMatch(/^Redis .*, over REST$/);
    const guard = createGuard({ store, namespace: "upstash-tests", require: "our-crash" });
    await expect(guard.ready()).rejects.toMatchObject({ code: "store-unsafe" });
    await guard.close();
  });
});

test("the script of undecided claims is another one than over TCP", () => {
  expect(CLAIM_MARKED.sha).not.toBe(CLAIM.sha);
});
