/** Tests that entries of a real stream are processed once, despite duplicates, dead consumers, outages and changes of the group. */
import { randomUUID } from "node:crypto";
import { describe, expect, type TestContext, test, vi } from "vitest";
import { type ConsumerOptions, consumer } from "../../src/events/index.ts";
import {
  entryKey,
  fieldKey,
  type RedisStreamOptions,
  redisStream,
  type StreamEntry,
  type StreamEvent,
} from "../../src/events/redis-streams.ts";
import { createGuard, type Store } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { faultyStore } from "../../src/testing/index.ts";
import { gate } from "../deferred.ts";
import { startProxy } from "../services/proxy.ts";
import { sharedUrl, startFor } from "../services/services.ts";
import { ioredis, ioredisCluster, nodeRedis, nodeRedisCluster } from "../stores/redis/clients.ts";
import { crowdOf } from "./crowd.ts";

const WAIT = { timeout: 15_000, interval: 10 };
const until = (check: () => unknown) => vi.waitFor(check, WAIT);

type Handler = Partial<ConsumerOptions<StreamEntry, unknown>>;

interface Scene {
  readonly name?: string;
  readonly store?: Store;
}

/** Adds an entry, which is processed, and an entry without a key, which becomes a dead letter. */
async function expectProcessed(
  stream: { start(): Promise<unknown>; close(): Promise<unknown> },
  client: Pick<ReturnType<typeof ioredis>, "xadd" | "xlen">,
  { name, deadLetter, ran }: { name: string; deadLetter: string; ran: readonly string[] },
): Promise<void> {
  await stream.start();
  await client.xadd(name, "*", "id", "a");
  await client.xadd(name, "*", "other", "b");
  await until(() => expect(ran).toEqual(["a"]));
  await until(async () => expect(await client.xlen(deadLetter)).toBe(1));
  await stream.close();
}

/** A separate stream for each test, and consumers of one group on one store. */
function scene(context: TestContext, { name = `stream:${randomUUID()}`, store = memoryStore() }: Scene = {}) {
  const url = sharedUrl(context, "redis");
  const client = ioredis(url);
  const guard = createGuard({ store });
  const deadLetter = `${name}:dead`;
  const ran: string[] = [];
  const events: StreamEvent[] = [];
  const work = async ({ fields }: StreamEntry) => void ran.push(String(fields.id));

  function open(handler: Handler = {}, options: Partial<RedisStreamOptions> = {}) {
    const handle = consumer<StreamEntry>(guard, {
      name: "shop",
      key: fieldKey(),
      work,
      laterMs: 20,
      ...handler,
    });
    const { onRejected } = options;
    const opened = redisStream(handle, {
      client,
      stream: name,
      group: "shop",
      pollMs: 10,
      claimIdleMs: 2_000,
      onEvent: (event) => events.push(event),
      ...(onRejected === undefined ? { deadLetter } : {}),
      ...options,
    });
    context.onTestFinished(async () => void (await opened.close({ drainMs: 0 })));
    return opened;
  }

  return {
    url,
    client,
    name,
    deadLetter,
    ran,
    events,
    open,
    add: (id: string) => client.xadd(name, "*", "id", id, "amount", "7"),
    pending: async () => ((await client.xpending(name, "shop")) as [number])[0],
    kinds: () => events.map(({ kind }) => kind),
  };
}

describe("an entry", () => {
  test("is processed and acknowledged, and one that was added twice is processed once", async (context) => {
    const { add, open, ran, pending, kinds, client, name } = scene(context);
    await add("a");
    const stream = open();
    await stream.start();
    await add("b");
    await add("a");
    await until(() => expect([...ran].sort()).toEqual(["a", "b"]));
    await until(async () => {
      const [info] = (await client.xinfo("GROUPS", name)) as unknown[][];
      expect(info?.[info.indexOf("lag") + 1]).toBe(0);
      expect(await pending()).toBe(0);
    });
    expect([...ran].sort()).toEqual(["a", "b"]);
    expect(kinds()[0]).toBe("group-created");
    expect(kinds()).not.toContain("interrupted");
    expect(await stream.close()).toEqual({ unfinished: 0 });
    expect(await client.xinfo("CONSUMERS", name, "shop")).toEqual([]);
  });

  test("EV-09 is processed once by each of two consumers, in two groups", async (context) => {
    const { add, open, ran } = scene(context);
    await open().start();
    await open({ name: "mail" }, { group: "mail" }).start();
    await add("a");
    await add("a");
    await until(() => expect(ran).toEqual(["a", "a"]));
    await add("b");
    await until(() => expect(ran).toEqual(["a", "a", "b", "b"]));
  });

  test("with entryKey is processed twice if it was added twice", async (context) => {
    const { add, open, ran } = scene(context);
    await open({ key: entryKey }).start();
    await add("a");
    await add("a");
    await until(() => expect(ran).toEqual(["a", "a"]));
  });

  test("that fails comes back, and its attempts are counted over all deliveries", async (context) => {
    const { add, open, pending } = scene(context);
    const numbers: number[] = [];
    await open({
      work: (_entry, attempt) => {
        numbers.push(attempt.number);
        if (attempt.number < 3) throw new Error("not yet");
      },
    }).start();
    await add("a");
    await until(() => expect(numbers).toEqual([1, 2, 3]));
    await until(async () => expect(await pending()).toBe(0));
  });
});

describe("a rejected entry", () => {
  test("is copied to the dead-letter stream byte by byte, with the reason, and is no longer pending", async (context) => {
    const { client, name, deadLetter, open, pending } = scene(context);
    const bytes = Buffer.from([0xff, 0x00, 0xfe]);
    await open({
      isPermanent: () => true,
      work: () => {
        throw new Error("no such customer");
      },
    }).start();
    const id = await client.xadd(name, "*", "id", "a", "raw", bytes);
    await until(async () => expect(await client.xlen(deadLetter)).toBe(1));
    const [[, fields]] = (await client.xrangeBuffer(deadLetter, "-", "+")) as unknown as [[Buffer, Buffer[]]];
    expect(fields[3]).toEqual(bytes);
    expect(fields.map(String).slice(4)).toEqual([
      ...["nevertwice-stream", name],
      ...["nevertwice-entry", id],
      ...["nevertwice-status", "failed"],
      ...["nevertwice-error", "no such customer"],
    ]);
    await until(async () => expect(await pending()).toBe(0));
  });

  test("without a key is copied too, and a trimmed one as it was read", async (context) => {
    const { client, name, deadLetter, open, kinds } = scene(context);
    let trim = async () => {};
    await open({
      key: fieldKey("order"),
      isPermanent: () => true,
      work: async () => {
        await trim();
        throw new Error("gone");
      },
    }).start();
    await client.xadd(name, "*", "id", "a");
    await until(async () => expect(await client.xlen(deadLetter)).toBe(1));
    trim = async () => void (await client.xtrim(name, "MAXLEN", 0));
    await client.xadd(name, "*", "order", "17");
    await until(async () => expect(await client.xlen(deadLetter)).toBe(2));
    const entries = await client.xrange(deadLetter, "-", "+");
    expect(entries.map(([, fields]) => fields.slice(0, 2))).toEqual([
      ["id", "a"],
      ["order", "17"],
    ]);
    expect(entries[0]?.[1]).toContain("refused");
    expect(kinds().filter((kind) => kind === "rejected")).toHaveLength(2);
  });

  test("is not lost while the dead-letter stream refuses it", async (context) => {
    const { client, deadLetter, add, open, events, pending } = scene(context);
    await client.set(deadLetter, "not a stream");
    await open(
      { isPermanent: () => true, work: () => Promise.reject(new Error("no")) },
      { claimIdleMs: 100 },
    ).start();
    await add("a");
    await until(() => expect(events.at(-1)).toMatchObject({ kind: "left-pending" }));
    expect(await pending()).toBe(1);
    await client.del(deadLetter);
    await until(async () => expect(await client.xlen(deadLetter)).toBe(1));
    await until(async () => expect(await pending()).toBe(0));
  });

  test("is acknowledged only once onRejected has stored it", async (context) => {
    const { add, open, pending } = scene(context);
    const put: string[] = [];
    let isBroken = true;
    const onRejected = ({ fields }: StreamEntry, { status }: { status: string }) => {
      if (isBroken) throw new Error("no room");
      put.push(`${fields.id} ${status}`);
    };
    await open({ key: () => undefined }, { onRejected, claimIdleMs: 100 }).start();
    await add("a");
    await until(async () => expect(await pending()).toBe(1));
    isBroken = false;
    await until(() => expect(put).toEqual(["a refused"]));
    await until(async () => expect(await pending()).toBe(0));
  });
});

describe("idle entries", () => {
  test("of a dead consumer are claimed and processed by another", async (context) => {
    const { client, name, add, open, ran, events, pending } = scene(context);
    await client.xgroup("CREATE", name, "shop", "0", "MKSTREAM");
    await add("a");
    await add("b");
    await client.xreadgroup("GROUP", "shop", "dead", "COUNT", 10, "STREAMS", name, ">");
    await open({}, { claimIdleMs: 200 }).start();
    await until(() => expect([...ran].sort()).toEqual(["a", "b"]));
    await until(async () => expect(await pending()).toBe(0));
    expect(events).toContainEqual({ kind: "claimed", stream: name, count: 2 });
  });

  test("are found behind many that are not idle", async (context) => {
    const { client, name, add, open, ran, pending } = scene(context);
    await client.xgroup("CREATE", name, "shop", "0", "MKSTREAM");
    for (let i = 0; i < 300; i++) await add(`busy ${i}`);
    await add("a");
    const given = await client.xreadgroup("GROUP", "shop", "busy", "COUNT", 301, "STREAMS", name, ">");
    expect(given).not.toBeNull();
    const last = (await client.xrevrange(name, "+", "-", "COUNT", 1))[0]?.[0] ?? "";
    await client.xclaim(name, "shop", "dead", 0, last, "IDLE", 3_600_000, "JUSTID");
    await open({}, { claimIdleMs: 1_800_000, concurrency: 1 }).start();
    await until(() => expect(ran).toEqual(["a"]));
    await until(async () => expect(await pending()).toBe(300));
  });

  test("do not include entries in progress: each renewal resets their idle time", async (context) => {
    const { client, name, add, open, pending } = scene(context);
    const { open: finish, opened } = gate();
    await open({ leaseMs: 150, work: () => opened }, { claimIdleMs: 60_000 }).start();
    await add("a");
    await until(async () => expect(await pending()).toBe(1));
    let idleMs = 0;
    await until(async () => {
      const [entry] = (await client.xpending(name, "shop", "-", "+", 1)) as [
        string,
        string,
        number,
        number,
      ][];
      const before = idleMs;
      idleMs = entry?.[2] ?? 0;
      expect(entry?.[3]).toBe(1);
      expect(idleMs).toBeLessThan(before);
    });
    finish();
    await until(async () => expect(await pending()).toBe(0));
  });

  test("that another consumer still processes are not processed twice", async (context) => {
    const { add, open, ran, kinds, pending } = scene(context);
    const { open: finish, opened } = gate();
    const slow: Handler = {
      work: async ({ fields }) => {
        ran.push(String(fields.id));
        await opened;
      },
    };
    await open(slow, { claimIdleMs: 100, name: "one" }).start();
    await add("a");
    await until(() => expect(ran).toEqual(["a"]));
    await open(slow, { claimIdleMs: 100, name: "two" }).start();
    await until(() => expect(kinds().filter((kind) => kind === "claimed").length).toBeGreaterThan(1));
    finish();
    await until(async () => expect(await pending()).toBe(0));
    expect(ran).toEqual(["a"]);
  });

  test("that keep failing leave room for new ones, even with a concurrency of 1", async (context) => {
    const { add, open, ran, pending } = scene(context);
    const stuck: Handler = {
      work: ({ fields }) => {
        if (fields.id?.startsWith("stuck")) throw new Error("never");
        ran.push(String(fields.id));
      },
    };
    for (const number of [1, 2, 3]) await add(`stuck ${number}`);
    await open(stuck, { concurrency: 1, claimIdleMs: 50 }).start();
    await until(async () => expect(await pending()).toBe(3));
    await add("a");
    await add("b");
    await until(() => expect(ran).toEqual(["a", "b"]));
    expect(await pending()).toBe(3);
  });
});

describe("a stream", () => {
  test("processes at most concurrency entries at once", async (context) => {
    const { add, open } = scene(context);
    const { work, done, most } = crowdOf(4);
    for (let i = 0; i < 30; i++) await add(String(i));
    await open({ work }, { concurrency: 4 }).start();
    await until(() => expect(done()).toBe(30));
    expect(most()).toBe(4);
  });

  test("waits in Redis on a separate connection", async (context) => {
    const { url, add, open, ran } = scene(context);
    const proxy = await startFor(context, () => startProxy(url));
    const reader = ioredis(proxy.url);
    const stream = open({}, { reader, pollMs: 1_000 });
    await stream.start();
    await until(() => expect(proxy.bytesToServer).toBeGreaterThan(0));
    await add("a");
    await until(() => expect(ran).toEqual(["a"]));
    const sent = proxy.requests;
    await add("b");
    await until(() => expect(ran).toEqual(["a", "b"]));
    expect(proxy.requests - sent).toBeLessThan(5);
    await stream.close();
  });

  test("closes once started entries are done, and reads no further entries", async (context) => {
    const { client, name, add, open, ran, pending } = scene(context);
    const { open: finish, opened } = gate();
    const slow = async ({ fields }: StreamEntry) => {
      await opened;
      ran.push(String(fields.id));
    };
    const stream = open({ work: slow });
    await stream.start();
    await add("a");
    await until(async () => expect(await pending()).toBe(1));
    const closing = stream.close();
    finish();
    expect(await closing).toEqual({ unfinished: 0 });
    expect(await pending()).toBe(0);
    await add("b");
    expect(ran).toEqual(["a"]);
    expect(await client.xinfo("CONSUMERS", name, "shop")).toEqual([]);
    await expect(stream.start()).rejects.toThrow("options-invalid");
  });

  test("closes after drainMs, and leaves unfinished entries pending", async (context) => {
    const { add, open, pending, client, name } = scene(context);
    const stream = open({ work: () => new Promise(() => {}) });
    await stream.start();
    await add("a");
    await until(async () => expect(await pending()).toBe(1));
    expect(await stream.close({ drainMs: 20 })).toEqual({ unfinished: 1 });
    expect(await pending()).toBe(1);
    expect(await client.xinfo("CONSUMERS", name, "shop")).toHaveLength(1);
  });

  test("that closes leaves its pending entries to others", async (context) => {
    const { add, open, ran, pending } = scene(context);
    const first = open({ work: () => Promise.reject(new Error("not yet")) }, { name: "first" });
    await first.start();
    await add("a");
    await until(async () => expect(await pending()).toBe(1));
    expect(await first.close()).toEqual({ unfinished: 0 });
    expect(await pending()).toBe(1);
    await open().start();
    await until(() => expect(ran).toEqual(["a"]));
  });

  test("creates its group again after it was deleted, and repeats no work that is done", async (context) => {
    const { client, name, add, open, ran, kinds } = scene(context);
    await open().start();
    await add("a");
    await until(() => expect(ran).toEqual(["a"]));
    await client.xgroup("DESTROY", name, "shop");
    await add("b");
    await until(() => expect(ran).toEqual(["a", "b"]));
    await client.del(name);
    await add("c");
    await until(() => expect(ran).toEqual(["a", "b", "c"]));
    expect(kinds().filter((kind) => kind === "group-created").length).toBeGreaterThanOrEqual(3);
  });

  test("that began at the end loses nothing when its group is deleted", async (context) => {
    const { client, name, add, open, ran } = scene(context);
    await add("before");
    await open({}, { from: "$" }).start();
    await add("a");
    await until(() => expect(ran).toEqual(["a"]));
    await client.multi().xgroup("DESTROY", name, "shop").xadd(name, "*", "id", "b").exec();
    await until(() => expect(ran).toEqual(["a", "b"]));
  });

  test("continues after an outage of Redis, and reports it", async (context) => {
    const { url, add, open, ran, kinds, pending } = scene(context);
    const proxy = await startFor(context, () => startProxy(url));
    const client = ioredis(proxy.url, { maxRetriesPerRequest: 0 });
    await open({}, { client }).start();
    await add("a");
    await until(() => expect(ran).toEqual(["a"]));
    proxy.refuse();
    proxy.cutAll();
    await until(() => expect(kinds()).toContain("interrupted"));
    await add("b");
    proxy.heal();
    await until(() => expect(ran).toEqual(["a", "b"]));
    await until(async () => expect(await pending()).toBe(0));
    expect(kinds()).toContain("resumed");
  });

  test("loses nothing and repeats nothing when its acknowledgement is lost", async (context) => {
    const { url, add, open, ran, kinds, pending } = scene(context);
    const proxy = await startFor(context, () => startProxy(url));
    const client = ioredis(proxy.url, { maxRetriesPerRequest: 0 });
    await open({}, { client, claimIdleMs: 200 }).start();
    proxy.cutRequest(1, (chunk) => chunk.includes("XACK") || chunk.includes("xack"));
    await add("a");
    await until(() => expect(kinds()).toContain("left-pending"));
    await until(async () => expect(await pending()).toBe(0));
    expect(ran).toEqual(["a"]);
  });

  test("does not read the whole stream while the store is down, and processes all once it is back", async (context) => {
    const store = faultyStore(memoryStore(), { rates: { refuse: 1 } });
    const { add, open, pending, ran } = scene(context, { store });
    const ids = Array.from({ length: 40 }, (_, index) => String(index));
    for (const id of ids) await add(id);
    const startedAt = performance.now();
    await open({ laterMs: 60_000, storeTimeoutMs: 20 }, { concurrency: 2, claimIdleMs: 300 }).start();
    await until(async () => expect(await pending()).toBeGreaterThan(2));
    const seconds = Math.floor((performance.now() - startedAt) / 1_000);
    expect(await pending()).toBeLessThanOrEqual(2 * (seconds + 1));
    store.setRates({});
    await until(() => expect(ran).toHaveLength(40));
    await until(async () => expect(await pending()).toBe(0));
    expect([...ran].sort()).toEqual([...ids].sort());
  });
});

describe("its client", () => {
  test("may be of node-redis, with a key prefix", async (context) => {
    const { url, client, name, open, ran, deadLetter } = scene(context);
    const prefixed = await nodeRedis(url, { keyPrefix: "shop:" });
    const reader = await nodeRedis(url, { keyPrefix: "shop:" });
    const stream = open({ isPermanent: () => true }, { client: prefixed, reader });
    await expectProcessed(stream, client, { name: `shop:${name}`, deadLetter: `shop:${deadLetter}`, ran });
  });

  test("may be of ioredis, with a key prefix", async (context) => {
    const { url, client, name, open, ran, deadLetter } = scene(context);
    const stream = open({}, { client: ioredis(url, { keyPrefix: "shop:" }) });
    await expectProcessed(stream, client, { name: `shop:${name}`, deadLetter: `shop:${deadLetter}`, ran });
  });

  test.for(["ioredis", "node-redis"])("may be a cluster of %s", async (kind, context) => {
    const cluster = sharedUrl(context, "redisCluster");
    const client = kind === "ioredis" ? ioredisCluster(cluster) : await nodeRedisCluster(cluster);
    const adder = ioredisCluster(cluster);
    const { name, open, ran, deadLetter } = scene(context, { name: `{${randomUUID()}}` });
    const stream = open({}, { client });
    await expectProcessed(stream, adder, { name, deadLetter, ran });
  });

  test("may be the store's client", async (context) => {
    const client = ioredis(sharedUrl(context, "redis"));
    const store = redisStore({ client, prefix: `${randomUUID()}:` });
    const { add, open, ran, pending } = scene(context, { store });
    await open({}, { client }).start();
    await add("a");
    await add("a");
    await add("b");
    await until(() => expect([...ran].sort()).toEqual(["a", "b"]));
    await until(async () => expect(await pending()).toBe(0));
  });
});

const FAKE = { isCluster: false, call: () => Promise.resolve(null) };

test.for([
  [{ client: {} }, "client"],
  [{ client: FAKE, reader: FAKE }, "reader"],
  [{ deadLetter: undefined }, "deadLetter and onRejected: give exactly one"],
  [{ onRejected: () => {} }, "deadLetter and onRejected: give exactly one"],
  [{ deadLetter: "s" }, "another stream"],
  [{ group: "" }, "group"],
  [{ concurrency: 0 }, "concurrency"],
  [{ maxLen: 7 }, "maxLen"],
] as const)("bad options are refused: %o", ([options, said]) => {
  const guard = createGuard({ store: memoryStore() });
  const handle = consumer<StreamEntry>(guard, { name: "shop", key: fieldKey(), work: () => {} });
  const all = { client: FAKE, stream: "s", group: "g", deadLetter: "d", ...options };
  expect(() => redisStream(handle, all as never)).toThrow(said);
  expect(() => redisStream(handle, all as never)).toThrow("options-invalid");
});
