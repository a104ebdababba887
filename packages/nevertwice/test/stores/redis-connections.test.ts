/** Tests connections that end or fall silent: the process keeps running and continues its work. */
import { randomUUID } from "node:crypto";
import { createServer } from "node:net";
import { describe, expect, test, vi } from "vitest";
import { createGuard } from "../../src/index.ts";
import { openStore } from "../../src/stores/open.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { startProxy } from "../services/proxy.ts";
import { startRedis } from "../services/redis.ts";
import { sharedUrl, startFor } from "../services/services.ts";
import { ioredis, nodeRedis } from "./redis/clients.ts";
import { BY_URL, exampleWith, startProcess } from "./redis/process.ts";
import { claimOf } from "./redis/scene.ts";

/** Far shorter than the operating system's timeout for a connection, far longer than a busy machine needs. */
const LONG_MS = 60_000;

/** Resets this many connections at this port, where a server will start again. */
async function refusedAt(port: number, times: number): Promise<void> {
  await new Promise<void>((resolve) => {
    let left = times;
    const listener = createServer((socket) => {
      socket.resetAndDestroy();
      if (--left === 0) listener.close(() => resolve());
    });
    listener.listen(port, "127.0.0.1");
  });
}

const PROGRAMS = [
  ["ioredis as in the docs", () => exampleWith("ioredis")],
  ["node-redis as in the docs", () => exampleWith("redis")],
  ["openStore", async () => BY_URL],
] as const;

describe.for(PROGRAMS)("a process that uses %s", ([, programOf]) => {
  test("survives a restart of Redis silently, and continues", {
    timeout: LONG_MS,
  }, async (context) => {
    const settings = { appendonly: "yes", appendfsync: "always" };
    const server = await startFor(context, () => startRedis({ settings }));
    const child = startProcess(context, await programOf(), server.url);
    expect(await child.run("a")).toMatchObject({ status: "ran", value: 1 });
    await server.kill();
    const during = child.run("b");
    // The process may also have ended, which is reported at once.
    await Promise.race([refusedAt(server.port, 3), during]);
    await server.restart();
    expect(await during).toMatchObject({ status: "ran", value: 2 });
    expect(await child.run("a")).toMatchObject({ status: "replayed", value: 1 });
    expect(await child.end()).toEqual({ code: 0, complaints: "" });
  });
});

// Each waits ten seconds for a connection to count as lost.
describe.concurrent("after its connections were dropped silently", { timeout: LONG_MS }, () => {
  test.for(PROGRAMS)("a process that uses %s continues", async ([, programOf], context) => {
    const { url } = await startFor(context, () => startRedis());
    const proxy = await startFor(context, () => startProxy(url));
    const child = startProcess(context, await programOf(), proxy.url);
    await child.run("a");
    proxy.silence();
    expect(await child.run("b")).toMatchObject({ status: "ran", value: 2 });
    expect(await child.run("a")).toMatchObject({ status: "replayed", value: 1 });
    expect(await child.end()).toMatchObject({ code: 0 });
  });

  test("a store from a URL subscribes again", async (context) => {
    const proxy = await startFor(context, () => startProxy(sharedUrl(context, "redis")));
    const store = await openStore(proxy.url);
    context.onTestFinished(() => store.close());
    const [watched, next] = [claimOf("t1"), claimOf("t2")];
    await store.claim(watched);
    await store.claim(next);
    const woken: string[] = [];
    await store.watch?.({ id: watched.id, wake: () => woken.push("watched") });
    proxy.silence();
    // The next waiter detects it, and the earlier subscriptions are restored.
    await store.watch?.({ id: next.id, wake: () => woken.push("next") });
    await vi.waitFor(() => expect(woken).toContain("watched"), 10_000);
    await store.complete({ ...next, outcome: "done" });
    await vi.waitFor(() => expect(woken).toContain("next"), 10_000);
  });
});

test("a store from a URL that fails to open leaves no connection open", async (context) => {
  const proxy = await startFor(context, () => startProxy(sharedUrl(context, "redis")));
  await expect(openStore(`${proxy.url}?replicas=-1`)).rejects.toMatchObject({ code: "options-invalid" });
  // Connects later than the store's connections would.
  await ioredis(proxy.url).ping();
  await vi.waitFor(() => expect(proxy.connections).toBe(1));
});

const CLIENTS = [
  ["ioredis", async (url: string) => ioredis(url)],
  ["node-redis", (url: string) => nodeRedis(url)],
] as const;

test.for(CLIENTS)(
  "a claim that %s sends after its guard gave up is given back, and blocks its key for no other caller",
  async ([, connect], context) => {
    const proxy = await startFor(context, () => startProxy(sharedUrl(context, "redis")));
    const late = redisStore({ client: await connect(proxy.url) });
    const direct = redisStore({ client: ioredis(sharedUrl(context, "redis")) });
    await late.claim(claimOf("t0"));
    const terms = { namespace: "redis-tests", purgeEveryMs: 0 };
    const guard = createGuard({ store: late, ...terms, storeTimeoutMs: 200 });
    const other = createGuard({ store: direct, ...terms });
    const request = { operation: "charge", key: randomUUID() };
    let runs = 0;
    proxy.refuse();
    proxy.cutAll();
    expect(await guard.tryRun(request, () => ++runs)).toMatchObject({ status: "unavailable" });
    proxy.heal();
    // The client decides when it connects again.
    const patient = { operation: "charge", key: randomUUID(), storeTimeoutMs: 10_000 };
    await guard.run(patient, () => "the connection is back");
    // Long before the end of the late claim's lease.
    await vi.waitFor(
      async () => expect(await other.run({ ...request, onPending: "reject" }, () => ++runs)).toBe(1),
      10_000,
    );
    expect(runs).toBe(1);
    await Promise.all([guard.close(), other.close()]);
  },
);
