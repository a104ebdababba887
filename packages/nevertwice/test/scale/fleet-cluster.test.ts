/**
 * Tests a Redis Cluster while masters are killed, paused and switched over, some of them while their replica is behind. The
 * doctor promises nothing for it. Needs the build.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { expect, type TestContext, test } from "vitest";
import { diagnose } from "../../src/core/doctor.ts";
import { type FaultProxy, startProxy } from "../services/proxy.ts";
import { startRedisCluster } from "../services/redis-cluster.ts";
import type { Server } from "../services/server.ts";
import { startFor } from "../services/services.ts";
import { type FleetFault, reportFleet, strikeFleet } from "./fleet.ts";
import { sizeOf } from "./sizes.ts";
import { openSubject } from "./subjects.ts";

const READY_MS = 120_000;
/** Far shorter than an operator would choose, so that a failover takes seconds. */
const NODE_TIMEOUT_MS = 2_000;
const MASTERS = 3;
/** How long the replica gets nothing before its master dies. */
const BEHIND_MS = 1_000;

interface Node {
  readonly server: Server;
  /** Where the others find it: its replica copies from there. Clients and the cluster's bus go around it. */
  readonly link: FaultProxy;
}

interface Pair {
  readonly master: Node;
  readonly replica: Node;
}

async function ask(server: Server, ...command: [string, ...string[]]): Promise<string> {
  const client = new Redis(server.url, { retryStrategy: null, connectTimeout: 1_000, commandTimeout: 2_000 });
  client.on("error", () => {});
  try {
    return String(await client.call(...command));
  } catch {
    return "";
  } finally {
    client.disconnect();
  }
}

async function startNodes(context: TestContext): Promise<readonly Node[]> {
  const { nodes } = await startFor(context, () =>
    startRedisCluster({
      settings: {
        "cluster-node-timeout": NODE_TIMEOUT_MS,
        // A node that lost its files would come back as an empty master.
        appendonly: "yes",
        appendfsync: "always",
      },
    }),
  );
  return Promise.all(
    nodes.map(async (server) => {
      const node = { server, link: await startFor(context, () => startProxy(server.port)) };
      await announce(node);
      return node;
    }),
  );
}

async function announce({ server, link }: Node): Promise<void> {
  await ask(server, "CONFIG", "SET", "cluster-announce-port", String(link.port));
}

async function restart(node: Node): Promise<void> {
  node.link.heal();
  await node.server.restart();
  await announce(node);
}

/** Every master with slots, with a replica that follows it through the proxy. */
async function pairsOf(nodes: readonly Node[]): Promise<readonly Pair[]> {
  const healthy = await Promise.all(nodes.map(({ server }) => ask(server, "CLUSTER", "INFO")));
  if (!healthy.every((info) => info === "" || info.includes("cluster_state:ok"))) return [];
  const answers = await Promise.all(
    nodes.map(async (replica) => ({ replica, info: await ask(replica.server, "INFO", "replication") })),
  );
  return answers.flatMap(({ replica, info }) => {
    const port = Number(/master_port:(\d+)/.exec(info)?.[1]);
    const master = nodes.find(({ link }) => link.port === port);
    return master !== undefined && info.includes("master_link_status:up") ? [{ master, replica }] : [];
  });
}

async function untilPaired(nodes: readonly Node[]): Promise<readonly Pair[]> {
  const deadline = performance.now() + READY_MS;
  for (;;) {
    const pairs = await pairsOf(nodes);
    if (pairs.length === MASTERS) return pairs;
    if (performance.now() > deadline) throw new Error("a master of the cluster has no replica");
    await sleep(100);
  }
}

async function untilPromoted({ replica }: Pair): Promise<void> {
  const deadline = performance.now() + READY_MS;
  while (!(await ask(replica.server, "INFO", "replication")).includes("role:master")) {
    if (performance.now() > deadline) throw new Error("the replica was not promoted");
    await sleep(50);
  }
}

function faultsOf(nodes: readonly Node[]): readonly FleetFault[] {
  let turn = 0;
  const onPair = (name: string, strike: (pair: Pair) => Promise<() => unknown>): FleetFault => ({
    name,
    async strike() {
      const pairs = await untilPaired(nodes);
      return strike(pairs[turn++ % pairs.length] as Pair);
    },
  });
  return [
    onPair("master cut off from its replica for a second, and killed", async (pair) => {
      pair.master.link.hang();
      await sleep(BEHIND_MS);
      await pair.master.server.kill();
      await untilPromoted(pair);
      return () => restart(pair.master);
    }),
    onPair("master killed with SIGKILL", async (pair) => {
      await pair.master.server.kill();
      await untilPromoted(pair);
      return () => restart(pair.master);
    }),
    onPair("master switched over", async (pair) => {
      await ask(pair.replica.server, "CLUSTER", "FAILOVER");
      await untilPromoted(pair);
      return () => {};
    }),
    onPair("master paused with SIGSTOP until another one led", async (pair) => {
      pair.master.server.pause();
      await untilPromoted(pair);
      return () => pair.master.server.resume();
    }),
  ];
}

test("on a Redis Cluster a failover loses acknowledged outcomes, as the doctor says", async (context) => {
  const { processes, lanes, pauseMs, clusterFaults: rounds } = sizeOf("fleet");
  const nodes = await startNodes(context);
  await untilPaired(nodes);
  const place = {
    ports: nodes.map(({ server }) => server.port),
    addresses: Object.fromEntries(
      nodes.map(({ server, link }) => [`127.0.0.1:${link.port}`, { host: "127.0.0.1", port: server.port }]),
    ),
  };
  const url = `cluster:${JSON.stringify(place)}`;
  const store = await openSubject(context, url);
  expect((await diagnose(store)).survives.failover.survives).toBe("no");
  const trial = await strikeFleet(context, {
    ...{ urls: [url], processes, lanes, pauseMs, rounds, store },
    faults: faultsOf(nodes),
    ready: () => untilPaired(nodes),
  });
  reportFleet("Redis 7 Cluster, appendfsync always, three masters with a replica each", trial, processes);
  expect(trial.lostOutcomes.length + trial.lostClaims.length).toBeGreaterThan(0);
});
