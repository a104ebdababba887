/** Tests that the Redis store is held to every published case: by each kind of client, without quick claims, and on a clock that is moved. */
import { afterAll, inject } from "vitest";
import type { Store } from "../../src/core/store.ts";
import type { IoredisClient } from "../../src/stores/redis/client.ts";
import { type RedisClient, redisStore } from "../../src/stores/redis.ts";
import { CLAIM_ABSENT, QUICK_CLAIM } from "../../src/stores/redis-lua.ts";
import { startRedis } from "../services/redis.ts";
import type { Server } from "../services/server.ts";
import type { ServiceName } from "../services/services.ts";
import { CLOCK_CANNOT_GO_BACK, COLLECTS_ITSELF, describeStoreCases, SCANS } from "./cases.ts";
import { ioredis, ioredisCluster, nodeRedis, nodeRedisCluster } from "./redis/clients.ts";

type Connect = (url: string) => Promise<RedisClient> | RedisClient;

/** Two connections for all cases of one kind of client. */
function storesOf(service: ServiceName, connect: Connect): () => Promise<Store> {
  let connected: Promise<[RedisClient, RedisClient]> | undefined;
  return async () => {
    const url = inject("services")[service] as string;
    connected ??= Promise.all([connect(url), connect(url)]);
    const [client, subscriber] = await connected;
    return redisStore({ client, subscriber });
  };
}

const KINDS: readonly [title: string, service: ServiceName, connect: Connect][] = [
  ["ioredis", "redis", ioredis],
  ["node-redis", "redis", nodeRedis],
  ["ioredis on a cluster", "redisCluster", ioredisCluster],
  ["node-redis on a cluster", "redisCluster", nodeRedisCluster],
];

for (const [title, service, connect] of KINDS)
  describeStoreCases(title, storesOf(service, connect), {
    service,
    without: { ...CLOCK_CANNOT_GO_BACK, ...COLLECTS_ITSELF, ...SCANS },
    ...(title === "ioredis on a cluster" && { row: "Redis Cluster" }),
  });

/** A client whose server leaves every claim undecided, so that the script CLAIM judges all of them. */
function undecided(url: string): RedisClient {
  const client = ioredis(url);
  const evalsha = client.evalsha.bind(client) as IoredisClient["evalsha"];
  return Object.assign(client, {
    evalsha: async (...args: Parameters<typeof evalsha>) =>
      args[0] === QUICK_CLAIM.sha ? [0, 0, new Array(Number(args[1])).fill(0)] : evalsha(...args),
  }) as unknown as RedisClient;
}

describeStoreCases("when no claim is decided by the client", storesOf("redis", undecided), {
  service: "redis",
  without: { ...CLOCK_CANNOT_GO_BACK, ...COLLECTS_ITSELF, ...SCANS },
});

/** A client that takes every claim as a large group of retries does: the records are read beside the script. */
function beside(url: string): RedisClient {
  const client = ioredis(url);
  const evalsha = client.evalsha.bind(client) as IoredisClient["evalsha"];
  return Object.assign(client, {
    async evalsha(...args: Parameters<typeof evalsha>) {
      if (args[0] !== QUICK_CLAIM.sha) return evalsha(...args);
      const count = Number(args[1]);
      const keys = args.slice(2, 2 + count);
      const [leaseMs = "", retentionMs = "", ...lines] = args.slice(2 + count);
      const texts = await client.mget(...keys);
      const absent = [...keys, leaseMs, retentionMs, lines.join("")];
      const reply = await client.eval(CLAIM_ABSENT.text, count, ...absent);
      const [now, fence, written] = reply as [number, number, 0 | number[]];
      return [now, fence, keys.map((_, at) => (written !== 0 && written[at] === 1 ? 1 : (texts[at] ?? 0)))];
    },
  }) as unknown as RedisClient;
}

describeStoreCases("when records are read beside the script of their claims", storesOf("redis", beside), {
  service: "redis",
  without: { ...CLOCK_CANNOT_GO_BACK, ...COLLECTS_ITSELF, ...SCANS },
});

let moved: Server | undefined;
afterAll(() => moved?.stop());

describeStoreCases(
  "on a server whose clock is moved",
  async () => {
    moved ??= await startRedis({ clock: true });
    const { url, stepClock } = moved;
    const [client, subscriber] = [ioredis(url), ioredis(url)];
    return { store: redisStore({ client, subscriber }), advance: stepClock };
  },
  { service: "redis", oneByOne: true, without: { ...COLLECTS_ITSELF, ...SCANS }, row: "Redis" },
);
