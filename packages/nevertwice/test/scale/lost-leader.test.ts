/**
 * Tests that what etcd acknowledged survives the loss of its leader, again and again, and shows what the same trial does to Redis
 * with asynchronous replication. Needs the build.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { expect, type TestContext, test } from "vitest";
import { startEtcd } from "../services/etcd.ts";
import { startMovingAddress } from "../services/moving-address.ts";
import { startProxy } from "../services/proxy.ts";
import { startRedis } from "../services/redis.ts";
import type { Server } from "../services/server.ts";
import { startFor } from "../services/services.ts";
import { count, report, reportOn } from "./figures.ts";
import { type LostLeaderTrial, loseLeaders } from "./lost-leader.ts";
import { IS_FULL, sizeOf } from "./sizes.ts";
import { openSubject } from "./subjects.ts";

const TRIAL = "Acknowledged claims and outcomes while the leader is lost";

function figuresOf(trial: LostLeaderTrial, processes: number, how: string): string {
  const { steps, repeated, owners, outcomes, faults, speeds, lastedS } = trial;
  const { lostOutcomes, lostClaims, freedBefore, duplicateWinners, fencesThatFell } = trial;
  return (
    `${processes} processes for ${lastedS} s, ${faults} faults (${how}): ${count(steps)} acknowledged steps, ` +
    `${count(repeated)} of them after a repetition, ${count(owners)} owners, ${count(outcomes)} outcomes; ` +
    `${count(lostOutcomes.length)} acknowledged outcomes lost, ${count(lostClaims.length)} claims lost ` +
    `(and ${count(freedBefore)} given up twice, because the first answer was lost), ` +
    `${count(duplicateWinners.length)} duplicate winners, ${count(fencesThatFell.length)} fences that did not grow; ` +
    `during the faults ${speeds.during}; between them ${speeds.after}`
  );
}

test("on etcd, whose leader is killed or cut off, no acknowledged outcome is lost and no key has two winners", async (context) => {
  const size = sizeOf("lost-leader");
  const cluster = await startFor(context, () => startEtcd());
  const url = `${cluster.url}/lost-leader`;
  const store = await openSubject(context, url);
  const trial = await loseLeaders(context, {
    url,
    store,
    ...size,
    async strike(round) {
      const leader = await cluster.leader();
      if (round % 2 === 0) {
        await cluster.members[leader]?.kill();
        return async () => cluster.members[leader]?.restart();
      }
      cluster.network.cutOff(leader);
      return async () => cluster.network.heal();
    },
  });
  const how = "the leader killed with SIGKILL, or cut off from the other members, in turn";
  await report(store, { trial: TRIAL, figures: figuresOf(trial, size.processes, how) });
  expect(trial.lostOutcomes).toEqual([]);
  expect(trial.lostClaims).toEqual([]);
  expect(trial.duplicateWinners).toEqual([]);
  expect(trial.fencesThatFell).toEqual([]);
  expect(trial.faults).toBe(Math.floor((size.seconds * 1_000) / size.everyMs));
  expect(trial.outcomes).toBeGreaterThan(0);
  // Healing after the last fault may take a while.
  expect(trial.steps / trial.lastedS).toBeGreaterThanOrEqual(size.leastSteps / size.seconds);
});

/** A master with a replica behind a proxy. After each failover the old master becomes the replica of the new one. */
async function startReplicated(context: TestContext) {
  const servers = await Promise.all(
    [1, 2].map(() => startFor(context, () => startRedis({ settings: { "repl-diskless-sync-delay": 0 } }))),
  );
  const links = await Promise.all(servers.map(({ url }) => startFor(context, () => startProxy(url))));
  const ask = async (index: number, ...command: [string, ...string[]]) => {
    const client = new Redis((servers[index] as Server).url, { retryStrategy: () => 50 });
    client.on("error", () => {});
    try {
      return await client.call(...command);
    } finally {
      client.disconnect();
    }
  };
  const follow = async (index: number, master: number) => {
    await ask(index, "REPLICAOF", "127.0.0.1", String(links[master]?.port));
    while (!String(await ask(index, "INFO", "replication")).includes("master_link_status:up"))
      await sleep(50);
  };
  let master = 0;
  await follow(1, 0);
  const address = await startFor(context, () => startMovingAddress((servers[0] as Server).port));
  return {
    url: `redis://127.0.0.1:${address.port}`,
    /** The master loses its replica, and `aloneMs` later the replica is promoted. With `isKilled` the master dies then. */
    async failOver(aloneMs: number, isKilled: boolean): Promise<() => Promise<void>> {
      const [old, next] = [master, 1 - master];
      links[old]?.hang();
      await sleep(aloneMs);
      if (isKilled) await servers[old]?.kill();
      await ask(next, "REPLICAOF", "NO", "ONE");
      address.moveTo((servers[next] as Server).port);
      master = next;
      return async () => {
        links[old]?.heal();
        if (isKilled) await servers[old]?.restart();
        await follow(old, next);
      };
    },
  };
}

test("on Redis with asynchronous replication the same trial loses claims and outcomes", async (context) => {
  const size = sizeOf("lost-leader");
  const redis = await startReplicated(context);
  const store = await openSubject(context, redis.url);
  const aloneMs = size.faultMs / 2;
  const trial = await loseLeaders(context, {
    ...size,
    pauseMs: IS_FULL ? 200 : 20,
    url: redis.url,
    store,
    strike: (round) => redis.failOver(aloneMs, round % 2 === 0),
  });
  const how = `the master cut off from its replica, which is promoted ${aloneMs / 1_000} s later; every other master is killed then`;
  reportOn("Redis, master and replica, asynchronous", {
    trial: TRIAL,
    figures: figuresOf(trial, size.processes, how),
  });
  expect(trial.lostOutcomes.length).toBeGreaterThan(0);
  // Enough to show it: at full size the acknowledged steps are many, and so are the lost ones.
  expect(trial.lostOutcomes.length + trial.lostClaims.length).toBeGreaterThan(IS_FULL ? 100 : 0);
});
