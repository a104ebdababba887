/** Tests that groups of calls and sharded pub/sub cost the servers of a Redis Cluster less, and measures how much. */
import { randomUUID } from "node:crypto";
import type { Cluster as ClusterClient } from "ioredis";
import { expect, test } from "vitest";
import { toIdentity } from "../../src/core/identity.ts";
import type { Store } from "../../src/core/store.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { startRedisCluster } from "../services/redis-cluster.ts";
import type { Server } from "../services/server.ts";
import { startFor } from "../services/services.ts";
import { ioredis, ioredisCluster } from "../stores/redis/clients.ts";
import { medianOf, report } from "./figures.ts";
import { sizeOf } from "./sizes.ts";

const MASTERS = 3;
const CALLERS = 512;

interface Costs {
  readonly server: number;
  readonly client: number;
}

/** Microseconds of the servers' main threads, and of this process, for each key that is claimed and completed. */
async function costsOf(
  store: Store,
  calls: number,
  serverMicroseconds: () => Promise<number>,
): Promise<Costs> {
  let left = calls;
  async function callAgain(): Promise<void> {
    while (left-- > 0) {
      const parts = { namespace: "costs", scope: "", operation: "load", key: randomUUID() };
      const claim = { id: toIdentity(parts).id, parts, token: randomUUID() };
      const terms = { leaseMs: 30_000, retentionMs: 60_000, hold: false };
      expect(await store.claim({ ...claim, ...terms })).toMatchObject({ status: "new" });
      expect(await store.complete({ ...claim, outcome: "x".repeat(300), retentionMs: 60_000 })).toBe(true);
    }
  }
  const [serverBefore, clientBefore] = [await serverMicroseconds(), process.cpuUsage()];
  await Promise.all(Array.from({ length: CALLERS }, callAgain));
  const client = process.cpuUsage(clientBefore);
  const server = (await serverMicroseconds()) - serverBefore;
  return { server: server / calls, client: (client.user + client.system) / calls };
}

/** The same client, which does not say where a slot is: the store sends every call alone. */
function withoutSlots(client: ClusterClient): ClusterClient {
  return new Proxy(client, {
    get(target, name) {
      if (name === "slots") return [];
      const member: unknown = Reflect.get(target, name);
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
}

/** Runs the stores in turns. Returns what the first one costs, as a share of what the second one does. */
async function compare(first: Store, second: Store, nodes: readonly Server[]): Promise<readonly Costs[]> {
  const { calls, rounds } = sizeOf("cluster-costs");
  const admins = nodes.map(({ url }) => ioredis(url));
  async function serverMicroseconds(): Promise<number> {
    const infos = await Promise.all(admins.map((admin) => admin.info("cpu")));
    const seconds = infos.flatMap((info) =>
      [...info.matchAll(/used_cpu_(?:user|sys)_main_thread:([\d.]+)/g)].map(([, value]) => Number(value)),
    );
    return seconds.reduce((sum, value) => sum + value, 0) * 1_000_000;
  }
  const ratios: Costs[] = [];
  for (let round = 0; round <= rounds; round++) {
    const one = await costsOf(first, calls, serverMicroseconds);
    const other = await costsOf(second, calls, serverMicroseconds);
    // The first round only warms up.
    if (round > 0) ratios.push({ server: one.server / other.server, client: one.client / other.client });
  }
  return ratios;
}

function tellCosts(ratios: readonly Costs[]): string {
  const tell = (name: keyof Costs) => {
    const values = ratios.map((ratio) => ratio[name]);
    const spread = [Math.min(...values), Math.max(...values)].map((value) => value.toFixed(2)).join(" to ");
    return `${medianOf(values).toFixed(2)} × the ${name}'s time (${spread})`;
  };
  return `${tell("server")}, ${tell("client")}, ${CALLERS} callers, a claim and its completion, ${ratios.length} rounds`;
}

test("groups and sharded pub/sub cost the servers of a Redis Cluster less", {
  timeout: 300_000,
}, async (context) => {
  const { url, nodes } = await startFor(context, () => startRedisCluster());
  const client = ioredisCluster(url);
  const store = redisStore({ client });

  const alone = redisStore({ client: withoutSlots(ioredisCluster(url)) });
  const grouped = await compare(store, alone, nodes.slice(0, MASTERS));
  await report(store, {
    trial: "Calls in groups on a cluster, as a share of calls sent alone",
    figures: tellCosts(grouped),
  });
  expect(medianOf(grouped.map(({ server }) => server))).toBeLessThan(1);

  // A subscriber that cannot shard: this store publishes to every server.
  const plain = redisStore({ client, subscriber: ioredisCluster(url) });
  const sharded = await compare(store, plain, nodes);
  await report(store, {
    trial: "Sharded pub/sub on a cluster, as a share of plain pub/sub, time of masters and replicas",
    figures: tellCosts(sharded),
  });
  expect(medianOf(sharded.map(({ server }) => server))).toBeLessThan(1);
});
