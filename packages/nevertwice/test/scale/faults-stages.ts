/** The stores of the fault campaign: each with the faults that its processes, its network and its server meet. */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import type { TestContext } from "vitest";
import { type FaultKind, type FaultScene, strikeAgain } from "../../../server/cli/prove/fault-kinds.ts";
import { scratchFolder } from "../scratch-folder.ts";
import { startEtcd } from "../services/etcd.ts";
import { createFailingFlush } from "../services/failing-flush.ts";
import { startMariadb } from "../services/mariadb.ts";
import { startPostgres } from "../services/postgres.ts";
import { type FaultProxy, startProxy } from "../services/proxy.ts";
import { startRedis } from "../services/redis.ts";
import type { Server } from "../services/server.ts";
import { startFor } from "../services/services.ts";
import { mountSmallDisk } from "../services/small-disk.ts";
import { query } from "../stores/postgres/database.ts";
import { startStandby } from "../stores/postgres/standby.ts";
import { startEnduredCluster } from "./endurance-cluster.ts";
import { restart } from "./restarting.ts";
import { EVERY_SUBJECT } from "./subjects.ts";

export interface FaultStage {
  readonly url: string;
  /** In front of the store, for the faults of the network. */
  readonly proxy?: FaultProxy;
  /** What happens to the server, besides what happens to processes and the network. */
  readonly faults: readonly FaultKind[];
  /** Too small for the records that the ledger's processes leave. */
  readonly isSmall?: true;
  /** For the processes of the trial. */
  readonly env?: Readonly<Record<string, string>>;
}

type OpenStage = (context: TestContext) => Promise<FaultStage>;

const MINUTE_MS = 60_000;
const CLOCK_BOUNDS = { earlyMs: MINUTE_MS + 1_000, lateMs: MINUTE_MS + 1_000, goesBack: true };

/** The clock of the server goes ahead a minute and back again, or back first. */
const clockSteps = (server: Server): FaultKind => ({
  name: "clock",
  what: "the clock of the server jumps a minute",
  bounds: CLOCK_BOUNDS,
  strike: (scene) =>
    strikeAgain(scene, 400, async () => {
      const byMs = scene.draws.chance(0.5) ? MINUTE_MS : -MINUTE_MS;
      server.stepClock(byMs);
      await sleep(150);
      server.stepClock(-byMs);
    }),
});

const restarts = (server: Server): FaultKind => ({
  name: "restart",
  what: "the server is killed with SIGKILL and started again",
  strike: (scene) =>
    strikeAgain(scene, 600, async () => {
      await server.kill();
      await restart(server);
    }),
});

/** Strikes once a round, after a moment in which calls have begun. */
async function strikeOnce(scene: FaultScene, strike: () => Promise<unknown>): Promise<number> {
  await sleep(100 + scene.draws.below(400));
  await strike();
  return 1;
}

async function openRedis(context: TestContext, appendonly: "yes" | "no"): Promise<FaultStage> {
  const settings = { appendonly, appendfsync: "always" };
  const server = await startFor(context, () => startRedis({ settings, clock: true }));
  const proxy = await startFor(context, () => startProxy(server.url));
  return { url: proxy.url, proxy, faults: [clockSteps(server), restarts(server)] };
}

async function openPostgres(context: TestContext): Promise<FaultStage> {
  const server = await startFor(context, () => startPostgres({ clock: true }));
  const proxy = await startFor(context, () => startProxy(server.url));
  return { url: proxy.url, proxy, faults: [clockSteps(server), restarts(server)] };
}

async function openMariadb(context: TestContext): Promise<FaultStage> {
  const server = await startFor(context, () => startMariadb({ onDisk: true }));
  const proxy = await startFor(context, () => startProxy(server.url));
  return { url: proxy.url, proxy, faults: [restarts(server)] };
}

/** Flushes fail in the processes of the trial, which write the file themselves. */
async function openSqlite(context: TestContext): Promise<FaultStage> {
  const flush = await createFailingFlush(await scratchFolder(context));
  const disk = await mountSmallDisk(24);
  if (disk !== undefined) context.onTestFinished(() => disk.stop());
  const folder = disk?.folder ?? (await scratchFolder(context));
  const flushFails: FaultKind = {
    name: "flush",
    what: "fsync fails with EIO for a while",
    strike: (scene) =>
      strikeAgain(scene, 300, async () => {
        flush.fail();
        await sleep(50);
        flush.heal();
      }),
  };
  return {
    url: `sqlite:${join(folder, "records.db")}`,
    env: flush.env,
    isSmall: true,
    faults: [flushFails, ...(disk === undefined ? [] : [diskFills(disk.fill, disk.empty)])],
  };
}

const diskFills = (fill: () => void, empty: () => void, mend?: () => Promise<unknown>): FaultKind => ({
  name: "disk-full",
  what: "the disk is full for a while",
  strike: (scene) =>
    strikeAgain(scene, 500, async () => {
      fill();
      await sleep(150);
      empty();
      await mend?.();
    }),
});

/** A Redis whose disk can be full, and whose flushes can fail: it ends itself then, and is started again. */
async function openRedisDisk(context: TestContext): Promise<FaultStage> {
  const flush = await createFailingFlush(await scratchFolder(context));
  const disk = await mountSmallDisk(48);
  if (disk === undefined) return context.skip("only root can mount a small disk");
  context.onTestFinished(() => disk.stop());
  const settings = { appendonly: "yes", appendfsync: "always", dir: disk.folder };
  const server = await startFor(context, () => startRedis({ settings, env: flush.env }));
  const proxy = await startFor(context, () => startProxy(server.url));
  const mend = () => restart(server);
  const flushFails: FaultKind = {
    name: "flush",
    what: "fsync fails with EIO for a while, and the server is started again",
    strike: (scene) =>
      strikeAgain(scene, 500, async () => {
        flush.fail();
        await sleep(100);
        flush.heal();
        await mend();
      }),
  };
  return {
    url: proxy.url,
    proxy,
    isSmall: true,
    faults: [flushFails, diskFills(disk.fill, disk.empty, mend)],
  };
}

async function ask({ url }: Server, ...command: [string, ...string[]]): Promise<string> {
  const client = new Redis(url, { retryStrategy: () => 50 });
  client.on("error", () => {});
  try {
    return String(await client.call(...command));
  } finally {
    client.disconnect();
  }
}

/** A master whose replica is cut off for a moment, and promoted when the master is killed. */
async function openRedisPair(context: TestContext, parameters: string): Promise<FaultStage> {
  const settings = { "repl-diskless-sync-delay": 0 };
  const servers = await Promise.all([1, 2].map(() => startFor(context, () => startRedis({ settings }))));
  const links = await Promise.all(servers.map(({ url }) => startFor(context, () => startProxy(url))));
  const proxy = await startFor(context, () => startProxy(String(servers[0]?.url)));
  let master = 0;
  const follow = async (index: number): Promise<void> => {
    const [replica, link] = [servers[index] as Server, links[1 - index] as FaultProxy];
    await ask(replica, "REPLICAOF", "127.0.0.1", String(link.port));
    while (!(await ask(replica, "INFO", "replication")).includes("master_link_status:up")) await sleep(50);
  };
  await follow(1);
  const failOver = async (): Promise<void> => {
    const [old, next] = [master, 1 - master];
    links[old]?.hang();
    await sleep(400);
    await servers[old]?.kill();
    await ask(servers[next] as Server, "REPLICAOF", "NO", "ONE");
    proxy.moveTo(String(servers[next]?.url));
    master = next;
    links[old]?.heal();
    await restart(servers[old] as Server);
    await follow(old);
  };
  const failover: FaultKind = {
    name: "failover",
    what: "the master is cut off from its replica and killed, and the replica is promoted",
    strike: (scene) => strikeOnce(scene, failOver),
  };
  return { url: `${proxy.url}${parameters}`, proxy, faults: [failover] };
}

async function openRedisCluster(context: TestContext): Promise<FaultStage> {
  const cluster = await startEnduredCluster(context);
  const pool = { replaceOne: async () => {} };
  const faults = cluster.faults.map(({ name, strike }, index) => ({
    name: index === 0 ? "reshard" : "master-kill",
    what: name,
    strike: (scene: FaultScene) => strikeOnce(scene, () => strike(pool)),
  }));
  return { url: cluster.url, faults };
}

/** The leader is killed, or cut off from the other members. */
async function openEtcd(context: TestContext): Promise<FaultStage> {
  const cluster = await startFor(context, () => startEtcd());
  const leaderKill: FaultKind = {
    name: "leader-kill",
    what: "the leader is killed with SIGKILL, and started again",
    strike: (scene) =>
      strikeOnce(scene, async () => {
        const leader = cluster.members[await cluster.leader()];
        await leader?.kill();
        await leader?.restart();
      }),
  };
  const leaderCut: FaultKind = {
    name: "leader-cut",
    what: "the leader is cut off from the other members for a while",
    strike: (scene) =>
      strikeOnce(scene, async () => {
        cluster.network.cutOff(await cluster.leader());
        await sleep(1_500);
        cluster.network.heal();
      }),
  };
  return { url: `${cluster.url}/faults`, faults: [leaderKill, leaderCut] };
}

/** A primary with a standby, which is promoted when the primary is killed. It fails over once, so it stands for one round. */
async function openPostgresPair(context: TestContext, isSynchronous: boolean): Promise<FaultStage> {
  const primary = await startFor(context, () => startPostgres());
  const standby = await startFor(context, () => startStandby(primary));
  const proxy = await startFor(context, () => startProxy(primary.url));
  if (isSynchronous) {
    await query(primary.url, "ALTER SYSTEM SET synchronous_standby_names = '*'");
    await query(primary.url, "SELECT pg_reload_conf()");
  }
  let hasFailedOver = false;
  const failOver = async (): Promise<void> => {
    if (hasFailedOver) return;
    hasFailedOver = true;
    if (!isSynchronous) {
      standby.pause();
      await sleep(400);
    }
    await primary.kill();
    standby.resume();
    await query(standby.url, "ALTER SYSTEM SET synchronous_standby_names = ''");
    await query(standby.url, "SELECT pg_promote(true, 120)");
    proxy.moveTo(standby.url);
  };
  const failover: FaultKind = {
    name: "failover",
    what: "the primary is killed, and its standby promoted",
    strike: (scene) => strikeOnce(scene, failOver),
  };
  return { url: proxy.url, proxy, faults: [failover] };
}

async function openDynamodb(context: TestContext): Promise<FaultStage> {
  const subject = EVERY_SUBJECT.find(({ name }) => name === "DynamoDB");
  const url = await subject?.create(context);
  return {
    url: String(url),
    faults: [],
    env: { AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test" },
  };
}

/** The stores whose rows promise that what they acknowledged survives the faults. */
export const STAGES: Readonly<Record<string, OpenStage>> = {
  SQLite: openSqlite,
  Redis: (context) => openRedis(context, "yes"),
  "Redis on a failing disk": openRedisDisk,
  "Redis with replicas": (context) => openRedisPair(context, "?replicas=1"),
  "Redis Cluster": openRedisCluster,
  Postgres: openPostgres,
  "Postgres with a synchronous standby": (context) => openPostgresPair(context, true),
  MySQL: openMariadb,
  etcd: openEtcd,
  DynamoDB: openDynamodb,
};

/** The same with settings that promise less: they must be seen losing. */
export const LOSING_STAGES: Readonly<Record<string, OpenStage>> = {
  "Redis without a file": (context) => openRedis(context, "no"),
  "Redis without replicas": (context) => openRedisPair(context, ""),
  "Postgres with an asynchronous standby": (context) => openPostgresPair(context, false),
};
