/** The Redis Cluster of the long trial: its slots are moved, and a master is killed whose replica is promoted. */
import { execFile } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { Redis } from "ioredis";
import type { TestContext } from "vitest";
import { find } from "../services/packages.ts";
import { type Cluster, startRedisCluster } from "../services/redis-cluster.ts";
import type { Server } from "../services/server.ts";
import { startFor } from "../services/services.ts";
import type { EnduredStore } from "./endurance.ts";
import { medianOf } from "./figures.ts";
import { sizeOf } from "./sizes.ts";

interface Member {
  readonly server: Server;
  readonly id: string;
  readonly master: string | undefined;
}

/** A slow reader takes so few keys at once, and rests after each portion. */
const SCANNED_AT_ONCE = "10";
const SCAN_REST_MS = 5;
const WAIT_MS = 5_000;
const SETTLED_WITHIN_MS = 30_000;

async function ask(server: Server, command: string, ...args: string[]): Promise<unknown> {
  const client = new Redis(server.url, { maxRetriesPerRequest: 3 });
  client.on("error", () => {});
  try {
    return await client.call(command, ...args);
  } finally {
    client.disconnect();
  }
}

async function listMembers({ nodes }: Cluster, from: Server): Promise<Member[]> {
  const lines = String(await ask(from, "CLUSTER", "NODES"))
    .trim()
    .split("\n");
  return lines.flatMap((line) => {
    const [id = "", address = "", , master = "-"] = line.split(" ");
    const server = nodes.find(({ port }) => address.includes(`:${port}@`));
    return server === undefined ? [] : [{ server, id, master: master === "-" ? undefined : master }];
  });
}

/** Waits until all nodes agree about the slots, and every replica has a master that it is connected to. */
async function untilSettled({ nodes }: Cluster): Promise<void> {
  const deadline = performance.now() + SETTLED_WITHIN_MS;
  for (;;) {
    const states = await Promise.all(
      nodes.map(async (node) => {
        const [nodesText, replication] = await Promise.all([
          ask(node, "CLUSTER", "NODES"),
          ask(node, "INFO", "replication"),
        ]);
        const isLinked = /role:master|master_link_status:up/.test(String(replication));
        const isFailing = /\b(fail\??|handshake|disconnected)\b/.test(String(nodesText));
        const slots = String(nodesText)
          .trim()
          .split("\n")
          .map((line) => [line.split(" ")[0], ...line.split(" ").slice(8)].join(" "))
          .sort()
          .join("\n");
        return { slots, isReady: isLinked && !isFailing && !slots.includes("[") };
      }),
    ).catch(() => []);
    const isAgreed = new Set(states.map(({ slots }) => slots)).size === 1;
    if (isAgreed && states.every(({ isReady }) => isReady)) return;
    if (performance.now() > deadline) throw new Error("the nodes of the cluster do not agree");
    await sleep(50);
  }
}

async function moveSlots(cluster: Cluster): Promise<void> {
  await untilSettled(cluster);
  const [first] = cluster.nodes;
  if (first === undefined) throw new Error("the cluster has no nodes");
  const masters = (await listMembers(cluster, first)).filter(({ master }) => master === undefined);
  const [from, to] = masters;
  const reshard = ["--cluster-from", String(from?.id), "--cluster-to", String(to?.id)];
  await promisify(execFile)(
    find("redis-cli"),
    [
      ...["--cluster", "reshard", `127.0.0.1:${first.port}`, ...reshard],
      ...["--cluster-slots", String(sizeOf("endurance-slots").slots), "--cluster-yes"],
    ],
    { maxBuffer: 64 << 20 },
  );
}

/**
 * Replication is asynchronous: what the replica has not received is lost with the master, whatever a store does. So the master
 * takes no more writes, and is killed once its replica has all of them, in the middle of the calls that wait.
 */
async function loseMaster(cluster: Cluster): Promise<void> {
  const [first] = cluster.nodes;
  if (first === undefined) throw new Error("the cluster has no nodes");
  const members = await listMembers(cluster, first);
  const replica = members.find(({ master }) => master !== undefined);
  const master = members.find(({ id }) => id === replica?.master);
  if (replica === undefined || master === undefined) throw new Error("no master has a replica");
  await ask(master.server, "CLIENT", "PAUSE", String(2 * WAIT_MS), "WRITE");
  await untilCaughtUp(master.server, replica.server);
  await master.server.kill();
  await ask(replica.server, "CLUSTER", "FAILOVER", "TAKEOVER");
  await master.server.restart();
  await untilSettled(cluster);
}

async function untilCaughtUp(master: Server, replica: Server): Promise<void> {
  const deadline = performance.now() + WAIT_MS;
  const offset = async (server: Server, name: string) =>
    Number(new RegExp(`${name}:(\\d+)`).exec(String(await ask(server, "INFO", "replication")))?.[1]);
  for (;;) {
    const written = await offset(master, "master_repl_offset");
    if ((await offset(replica, "slave_repl_offset")) >= written) return;
    if (performance.now() > deadline) throw new Error("the replica does not catch up with its master");
    await sleep(10);
  }
}

/** Reads through all keys of all nodes, over and over, until it is stopped. */
function scanSlowly({ nodes }: Cluster): () => Promise<void> {
  let isOver = false;
  const scanning = nodes.map(async (node) => {
    const client = new Redis(node.url);
    client.on("error", () => {});
    for (let cursor = "0"; !isOver; ) {
      [cursor] = await client.scan(cursor, "COUNT", SCANNED_AT_ONCE);
      await sleep(SCAN_REST_MS);
    }
    client.disconnect();
  });
  return async () => {
    isOver = true;
    await Promise.all(scanning);
  };
}

/** How many records of each master are weighed. They are all alike. */
const WEIGHED = 20;

/** What the records of all masters take. The memory of a whole server also has buffers, which a failover changes. */
async function measureRecords({ nodes }: Cluster): Promise<number> {
  const sizes = await Promise.all(
    nodes.map(async (node) => {
      if (!String(await ask(node, "INFO", "replication")).includes("role:master")) return 0;
      const records = Number(await ask(node, "DBSIZE"));
      const weights = await Promise.all(Array.from({ length: WEIGHED }, () => weighRecord(node)));
      return records * medianOf(weights);
    }),
  );
  return sizes.reduce((sum, bytes) => sum + bytes, 0);
}

async function weighRecord(node: Server): Promise<number> {
  const key = await ask(node, "RANDOMKEY");
  return key === null ? 0 : Number(await ask(node, "MEMORY", "USAGE", String(key)));
}

export async function startEnduredCluster(context: TestContext): Promise<EnduredStore> {
  const cluster = await startFor(context, () => startRedisCluster());
  const hosts = cluster.nodes.map(({ port }) => `127.0.0.1:${port}`).join(",");
  return {
    url: `redis+cluster://${hosts}?prefix=endurance:`,
    readForLong: async () => scanSlowly(cluster),
    faults: [
      { name: "slots are moved from one master to another", strike: () => moveSlots(cluster) },
      { name: "a master is killed and its replica promoted", strike: () => loseMaster(cluster) },
    ],
    size: () => measureRecords(cluster),
  };
}
