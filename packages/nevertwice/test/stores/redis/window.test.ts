/** Tests the window that processes share in Redis: the same rule as in memory, in one step, also when Redis fails. */
import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { describe, expect, type TestContext, test, vi } from "vitest";
import { MOST_CHANGES, type WindowRequest } from "../../../src/core/window.ts";
import { createFlapping, type FlappingEvent } from "../../../src/functions/flapping.ts";
import { type RedisClient, redisStore, redisWindow } from "../../../src/stores/redis.ts";
import { manualClock } from "../../../src/testing/manual-clock.ts";
import { startProxy } from "../../services/proxy.ts";
import { startRedis } from "../../services/redis.ts";
import { type ServiceName, sharedUrl, startFor } from "../../services/services.ts";
import { ioredis, ioredisCluster, nodeRedis, nodeRedisCluster } from "./clients.ts";
import { claimOf, proxied } from "./scene.ts";

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

type Connect = (url: string) => Promise<RedisClient> | RedisClient;

const SERVERS: readonly [ServiceName, Connect, Connect][] = [
  ["redis", ioredis, nodeRedis],
  ["redisCluster", ioredisCluster, nodeRedisCluster],
];

function requestOf(more: Partial<WindowRequest> = {}): WindowRequest {
  const rule = { windowMs: HOUR_MS, similarity: 0.01, maxChanges: 3 };
  return { ...rule, parameter: randomUUID(), value: 20, token: randomUUID(), ...more };
}

const keyOf = (parameter: string, prefix = "nevertwice:"): string => `${prefix}flapping:{${parameter}}`;

describe.for(SERVERS)("on %s", ([service, connectIoredis, connectNodeRedis]) => {
  async function windowsOf(context: TestContext, prefix?: string) {
    const url = sharedUrl(context, service);
    const clients = [await connectIoredis(url), await connectNodeRedis(url), await connectIoredis(url)];
    return clients.map((client) => redisWindow({ client, prefix }));
  }

  test("exactly maxChanges pass of a storm of changes from three clients", async (context) => {
    const parameter = `{${randomUUID()}} é*`;
    const all = (await windowsOf(context)).map((window) => createFlapping({ window, windowMs: HOUR_MS }));
    const storm = all.flatMap(({ check }) =>
      Array.from({ length: 50 }, (_, i) => check(parameter, 20 + (i % 5) / 100)),
    );
    const verdicts = await Promise.all(storm);
    expect(
      verdicts
        .filter(({ flapping }) => !flapping)
        .map(({ similar }) => similar)
        .sort(),
    ).toEqual([0, 1, 2]);
    const flapping = verdicts.filter((verdict) => verdict.flapping);
    expect(flapping).toHaveLength(147);
    for (const { similar, leftMs } of flapping) {
      expect(similar).toBe(3);
      expect(leftMs).toBeGreaterThan(HOUR_MS - MINUTE_MS);
      expect(leftMs).toBeLessThanOrEqual(HOUR_MS);
    }
  });

  test("clear removes one parameter, or all with its prefix and nothing else", async (context) => {
    const prefix = `${randomUUID()}[*]:`;
    const [window, another] = await windowsOf(context, prefix);
    const client = await connectNodeRedis(sharedUrl(context, service));
    const store = redisStore({ client, prefix });
    const claim = claimOf("t1");
    await store.claim(claim);
    const kept = createFlapping({ window: redisWindow({ client }), maxChanges: 1, windowMs: HOUR_MS });
    const parameters = Array.from({ length: 30 }, (_, i) => `${i}}{`);
    const [first, second] = [window, another].map((each) =>
      createFlapping({ ...(each && { window: each }), maxChanges: 1, windowMs: HOUR_MS }),
    );
    const passing = async () => {
      const verdicts = await Promise.all(parameters.map((parameter) => second?.check(parameter, 1)));
      return verdicts.filter((verdict) => !verdict?.flapping).length;
    };
    await kept.check(prefix, 1);
    expect(await passing()).toBe(30);
    await first?.clear("7}{");
    expect(await passing()).toBe(1);
    await first?.clear();
    expect(await passing()).toBe(30);
    expect(await kept.check(prefix, 1)).toMatchObject({ flapping: true });
    expect(await store.read(claim.id)).toMatchObject({ token: "t1" });
  });
});

test("any history of values gets the same decisions as in memory, to the last bit of each number", async (context) => {
  const client = ioredis(sharedUrl(context, "redis"));
  const value = fc.oneof(
    fc.constantFrom(
      0,
      -0,
      100,
      99,
      101,
      98.9,
      1 / 3,
      0.1 + 0.2,
      0.3,
      2 ** 53 - 1,
      5e-324,
      1e-320,
      1.7e308,
      -1.7e308,
    ),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc
      .tuple(fc.double({ min: 1, max: 2, noNaN: true }), fc.nat(3))
      .map(([base, up]) => base * (1 + up * 0.005)),
  );
  const rule = {
    similarity: fc.constantFrom(Number.EPSILON, 0.005, 0.01, 1 / 3),
    maxChanges: fc.integer({ min: 1, max: 3 }),
  };
  const property = fc.asyncProperty(
    fc.record(rule),
    fc.array(value, { maxLength: 30 }),
    async (given, values) => {
      const parameter = randomUUID();
      const inRedis = createFlapping({ ...given, window: redisWindow({ client }), windowMs: HOUR_MS });
      const inMemory = createFlapping({ ...given, windowMs: HOUR_MS, clock: manualClock() });
      for (const each of values) {
        const { flapping, similar } = await inMemory.check(parameter, each);
        expect(await inRedis.check(parameter, each)).toMatchObject({ flapping, similar });
      }
    },
  );
  await fc.assert(property, { numRuns: 60 });
});

test.for([
  [1 / 3, 1 / 3, Number.MIN_VALUE, true],
  [0.1 + 0.2, 0.1 + 0.2, Number.MIN_VALUE, true],
  [0.1 + 0.2, 0.3, Number.MIN_VALUE, false],
  [2 ** 53 - 1, 2 ** 53 - 2, Number.MIN_VALUE, false],
  [Number.MAX_VALUE, Number.MAX_VALUE, Number.MIN_VALUE, true],
  [Number.MAX_VALUE, -Number.MAX_VALUE, 0.5, false],
  [5e-324, 5e-324, Number.MIN_VALUE, true],
  [5e-324, 0, 0.5, false],
  [0, -0, Number.MIN_VALUE, true],
  [100, 99, 0.01, true],
  [10, 5, 0.5, true],
  [10, 4.999999999999999, 0.5, false],
] as const)("%d and %d at %d: similar is %s", async ([first, second, similarity, isSimilar], context) => {
  const window = redisWindow({ client: ioredis(sharedUrl(context, "redis")) });
  for (const [a, b] of [
    [first, second],
    [second, first],
  ] as const) {
    const change = requestOf({ value: a, similarity, maxChanges: 1 });
    expect(await window.record(change)).toEqual({ flapping: false, similar: 0 });
    const answer = await window.record({ ...change, value: b, token: "another" });
    expect(answer.flapping).toBe(isSimilar);
  }
});

test("equal changes in one millisecond are each recorded, and Redis removes the window when all have expired", async (context) => {
  const admin = ioredis(sharedUrl(context, "redis"));
  const window = redisWindow({ client: admin });
  const { parameter } = requestOf();
  const changes = Array.from({ length: 50 }, () => requestOf({ parameter, maxChanges: 50 }));
  const answers = await Promise.all(changes.map((change) => window.record(change)));
  expect(answers.every(({ flapping }) => !flapping)).toBe(true);
  expect(await admin.zcard(keyOf(parameter))).toBe(50);
  expect(await window.record(requestOf({ parameter, maxChanges: 50 }))).toMatchObject({ flapping: true });
  expect(await admin.zcard(keyOf(parameter))).toBe(50);
  const leftMs = await admin.pttl(keyOf(parameter));
  expect(leftMs).toBeGreaterThan(HOUR_MS - MINUTE_MS);
  expect(leftMs).toBeLessThanOrEqual(HOUR_MS + 1_000);
});

test("a check is one round trip, and works after the server has lost its scripts", async (context) => {
  const { url } = await startFor(context, () => startRedis());
  const proxy = await startFor(context, () => startProxy(url));
  const { check } = createFlapping({ window: redisWindow({ client: ioredis(proxy.url) }) });
  const { parameter } = requestOf();
  await check(parameter, 1);
  const sent = proxy.countRequests("redis");
  await check(parameter, 1);
  expect(sent.names).toEqual(["EVALSHA"]);
  await ioredis(url).script("FLUSH");
  expect(await check(parameter, 1)).toEqual({ flapping: false, similar: 2 });
});

test("changes expire by the server's clock, and none lasts longer when that clock goes back", async (context) => {
  const server = await startFor(context, () => startRedis({ clock: true }));
  const client = ioredis(server.url);
  const { check } = createFlapping({ window: redisWindow({ client }), windowMs: HOUR_MS, maxChanges: 1 });
  await check("a", 1);
  server.stepClock(HOUR_MS - MINUTE_MS);
  const late = await check("a", 1);
  expect(late).toMatchObject({ flapping: true, similar: 1 });
  expect(late.leftMs).toBeLessThanOrEqual(MINUTE_MS);
  server.stepClock(MINUTE_MS);
  expect(await check("a", 1)).toEqual({ flapping: false, similar: 0 });
  expect(await client.zcard(keyOf("a"))).toBe(1);

  server.stepClock(-24 * HOUR_MS);
  const back = await check("a", 1);
  expect(back).toMatchObject({ flapping: true, similar: 1 });
  expect(back.leftMs).toBeLessThanOrEqual(HOUR_MS);
  server.stepClock(HOUR_MS);
  expect(await check("a", 1)).toEqual({ flapping: false, similar: 0 });
});

test("a flapping parameter always has time left in its window", async (context) => {
  const window = redisWindow({ client: ioredis(sharedUrl(context, "redis")) });
  const { parameter } = requestOf();
  const seen = new Set<number>();
  for (let i = 0; i < 500; i++) {
    const answer = await window.record(requestOf({ parameter, windowMs: 5, maxChanges: 1 }));
    if (answer.flapping) seen.add(answer.leftMs);
  }
  expect([...seen].filter((leftMs) => !(leftMs >= 1 && leftMs <= 5))).toEqual([]);
});

test("a change that is repeated after a lost reply is recorded once", async (context) => {
  const proxy = await proxied(context);
  const admin = ioredis(sharedUrl(context, "redis"));
  const isScript = (chunk: Buffer): boolean => /evalsha/i.test(chunk.toString("latin1"));
  const window = redisWindow({ client: ioredis(proxy.url, { maxRetriesPerRequest: 0 }) });
  const change = requestOf({ maxChanges: 1 });
  await window.record(requestOf());
  proxy.cutReply(1, isScript);
  await expect(window.record(change)).rejects.toMatchObject({ code: "unavailable" });
  const kept = await admin.zrange(keyOf(change.parameter), "0", "-1", "WITHSCORES");
  expect(await window.record(change)).toEqual({ flapping: false, similar: 0 });
  expect(await admin.zrange(keyOf(change.parameter), "0", "-1", "WITHSCORES")).toEqual(kept);
  expect(await window.record({ ...change, token: "another" })).toMatchObject({ flapping: true, similar: 1 });

  // This client repeats commands itself.
  const { check } = createFlapping({ window: redisWindow({ client: ioredis(proxy.url) }), maxChanges: 2 });
  const { parameter } = requestOf();
  await check(parameter, 1);
  proxy.cutReply(1, isScript);
  expect(await check(parameter, 1)).toEqual({ flapping: false, similar: 1 });
  expect(await admin.zcard(keyOf(parameter))).toBe(2);
});

describe.for<[string, Connect]>([
  ["ioredis", (url) => ioredis(url, { maxRetriesPerRequest: 0 })],
  ["node-redis", nodeRedis],
])("Redis down, with %s", ([, connect]) => {
  test("is unavailable by default; with proceed each process decides alone until Redis is back", async (context) => {
    const server = await startFor(context, () => startRedis());
    const client = await connect(server.url);
    const events: FlappingEvent[] = [];
    const options = { windowMs: HOUR_MS, storeTimeoutMs: 500 };
    const refusing = createFlapping({ ...options, window: redisWindow({ client }) });
    const proceeding = createFlapping({
      ...options,
      window: redisWindow({ client }),
      onUnavailable: "proceed",
      observer: (event) => events.push(event),
    });
    await proceeding.check("a", 1);
    await server.kill();

    await expect(refusing.check("a", 1)).rejects.toMatchObject({
      code: "unavailable",
      cause: expect.any(Error),
    });
    await expect(refusing.clear()).rejects.toMatchObject({ code: "unavailable" });
    expect(await proceeding.check("a", 1)).toEqual({ flapping: false, similar: 1 });
    expect(await proceeding.check("a", 1)).toEqual({ flapping: false, similar: 2 });
    expect(await proceeding.check("a", 1)).toMatchObject({ flapping: true, similar: 3 });
    expect(new Set(events.map(({ kind }) => kind))).toEqual(
      new Set(["unavailable", "proceeded", "flapping"]),
    );

    await server.restart();
    const back = () => expect(refusing.check("back", 1)).resolves.toBeDefined();
    await vi.waitFor(back, { timeout: 15_000, interval: 100 });
    expect(await refusing.check("b", 1)).toEqual({ flapping: false, similar: 0 });
  });

  test("a silent Redis fails a check after storeTimeoutMs", async (context) => {
    const server = await startFor(context, () => startRedis());
    const window = redisWindow({ client: await connect(server.url) });
    const { check } = createFlapping({ window, storeTimeoutMs: 200 });
    await createFlapping({ window }).check("a", 1);
    server.pause();
    await expect(check("a", 1)).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringContaining("within 200 ms"),
    });
    server.resume();
  });
});

test("a replica is refused, whatever it would answer", async (context) => {
  const primary = await startFor(context, () => startRedis());
  const replica = await startFor(context, () => startRedis());
  await ioredis(replica.url).replicaof("127.0.0.1", primary.port);
  const window = redisWindow({ client: ioredis(replica.url) });
  const refused = { code: "store-unsafe", message: expect.stringContaining("replica") };
  await expect(window.record(requestOf())).rejects.toMatchObject(refused);
  const { check } = createFlapping({ window, onUnavailable: "proceed" });
  await expect(check("a", 1)).rejects.toMatchObject(refused);
});

test("a window with too many changes is store-full, and drops none", async (context) => {
  const window = redisWindow({ client: ioredis(sharedUrl(context, "redis")) });
  const { parameter } = requestOf();
  const changes = Array.from({ length: MOST_CHANGES }, (_, i) => requestOf({ parameter, value: 1.1 ** i }));
  await Promise.all(changes.map((change) => window.record(change)));
  await expect(window.record(requestOf({ parameter, value: 0 }))).rejects.toMatchObject({
    code: "store-full",
  });
  expect(await window.record(requestOf({ parameter, value: 1, maxChanges: 1 }))).toMatchObject({
    flapping: true,
  });
});

test.for([
  ["ioredis", (url: string) => ioredis(url, { keyPrefix: "own:" })],
  ["node-redis", (url: string) => nodeRedis(url, { keyPrefix: "own:" })],
] as const)(
  "the client's own key prefix is kept to, when clearing too (%s)",
  async ([, connect], context) => {
    const url = sharedUrl(context, "redis");
    const prefix = `${randomUUID()}:`;
    const window = redisWindow({ client: await connect(url), prefix });
    await window.record(requestOf({ parameter: "a" }));
    const key = keyOf("a", `own:${prefix}`);
    expect(await ioredis(url).exists(key)).toBe(1);
    await window.clear();
    expect(await ioredis(url).exists(key)).toBe(0);
  },
);

test("a bad option is refused by name", async (context) => {
  const client = ioredis(sharedUrl(context, "redis"));
  const refused = (name: string) =>
    expect.objectContaining({ code: "options-invalid", message: expect.stringContaining(name) });
  expect(() => redisWindow({ client: {} as RedisClient })).toThrow(refused("client"));
  expect(() => redisWindow({} as { client: RedisClient })).toThrow(refused("client"));
  expect(() => redisWindow({ client, prefix: "" })).toThrow(refused("prefix"));
  expect(() => redisWindow({ client, ["replicas" as "prefix"]: "1" })).toThrow(refused("replicas"));
});
