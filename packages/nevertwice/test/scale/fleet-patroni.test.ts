/**
 * Tests Postgres under Patroni while its leader is killed, paused, cut off and switched over: half of the processes reach it
 * through HAProxy with `pg`, the others choose the primary among all nodes with postgres.js. Needs the build.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, type TestContext, test } from "vitest";
import { diagnose } from "../../src/core/doctor.ts";
import type { Store } from "../../src/core/store.ts";
import { installMissing } from "../services/packages.ts";
import { type PatroniCluster, type PatroniOptions, startPatroni } from "../services/patroni.ts";
import { startFor } from "../services/services.ts";
import { claimOf, completionOf } from "../stores/postgres/database.ts";
import { expectSafe, type FleetFault, reportFleet, strikeFleet } from "./fleet.ts";
import { IS_FULL, sizeOf } from "./sizes.ts";
import { openSubject } from "./subjects.ts";

await installMissing(["patroni", "haproxy", "etcd", "postgres", "unshare", "setpriv"]);

/** How long standbys get nothing from the leader. */
const LINK_CUT_MS = 3_000;
const FAILOVER_MS = 30_000;

/** Patroni promotes nobody while the only synchronous standby is away: then the fault ends, and the old leader leads again. */
async function untilFailedOver(cluster: PatroniCluster, old: number): Promise<void> {
  const giveUpAt = performance.now() + FAILOVER_MS;
  while (performance.now() < giveUpAt) {
    const leader = await cluster.leader({ waits: false });
    if (leader !== old && leader !== -1) return;
    await sleep(100);
  }
}

function faultsOf(cluster: PatroniCluster): readonly FleetFault[] {
  const onLeader = (
    name: string,
    begin: (node: PatroniCluster["nodes"][number]) => unknown,
    end: (node: PatroniCluster["nodes"][number]) => unknown,
  ): FleetFault => ({
    name,
    async strike() {
      const leader = await cluster.leader();
      const node = cluster.nodes[leader] as PatroniCluster["nodes"][number];
      await begin(node);
      await untilFailedOver(cluster, leader);
      return () => end(node);
    },
  });
  return [
    onLeader(
      "leader killed with SIGKILL",
      (node) => node.kill(),
      (node) => node.restart(),
    ),
    {
      name: "leader switched over",
      async strike() {
        await cluster.switchOver();
        return () => {};
      },
    },
    onLeader(
      "leader cut off from etcd and its standbys, but not from clients",
      (node) => node.links.map((link) => link.hang()),
      (node) => node.links.map((link) => link.heal()),
    ),
    onLeader(
      "leader paused with SIGSTOP until another one led",
      (node) => node.pause(),
      (node) => node.resume(),
    ),
    {
      name: "standbys cut off from the leader",
      async strike() {
        const node = cluster.nodes[await cluster.leader()];
        const link = node?.links.at(-1);
        link?.hang();
        await sleep(LINK_CUT_MS);
        return () => link?.heal();
      },
    },
  ];
}

async function startTrial(context: TestContext, options: PatroniOptions) {
  const cluster = await startFor(context, () => startPatroni(options));
  await cluster.untilStreaming(1);
  const store = await openSubject(context, cluster.url);
  return { cluster, store, urls: [cluster.url, cluster.hosts.replace("postgres:", "postgres.js:")] };
}

/** A waiter from before the failover. The returned function settles its record, and waits until the waiter is woken for that. */
async function watchFailover(context: TestContext, url: string, other: Store): Promise<() => Promise<void>> {
  const store = await openSubject(context, url, { migrate: false });
  // Longer than the trial.
  const request = claimOf(randomUUID(), { leaseMs: 3_600_000 });
  expect(await store.claim(request)).toMatchObject({ status: "new" });
  let wakes = 0;
  await store.watch?.({ id: request.id, wake: () => void wakes++ });
  return async () => {
    // Notifications may have been missed, so the first connection to the new leader wakes every waiter.
    await expect.poll(() => wakes).toBeGreaterThan(0);
    const before = wakes;
    // Only a record that another claim has met announces that it is settled.
    await other.claim({ ...request, token: randomUUID() });
    expect(await other.complete(completionOf(request))).toBe(true);
    await expect.poll(() => wakes).toBeGreaterThan(before);
  };
}

async function failOver(context: TestContext, synchronous: "on" | "strict", rounds: number): Promise<void> {
  const { processes, lanes, pauseMs } = sizeOf("fleet");
  const { cluster, store, urls } = await startTrial(context, { synchronous });
  const { rung, notes } = await diagnose(store);
  expect(rung).toBe("failover");
  expect(notes).toContainEqual(expect.stringContaining("Patroni runs this server"));
  const watched = await Promise.all(urls.map((url) => watchFailover(context, url, store)));
  const trial = await strikeFleet(context, {
    ...{ urls, processes, lanes, pauseMs, rounds, store },
    faults: faultsOf(cluster),
    ready: () => cluster.untilStreaming(1),
  });
  reportFleet(`Postgres 15 under Patroni 3, synchronous_mode ${synchronous}`, trial, processes);
  expectSafe(trial, rounds);
  for (const isWokenAgain of watched) await isWokenAgain();
}

test("under Patroni with synchronous_mode_strict no outcome is lost and no key has two winners", (context) =>
  failOver(context, "strict", sizeOf("fleet").patroniFaults));

// Seconds of every test run are spent on the setting that the docs recommend.
if (IS_FULL)
  test("nor with synchronous_mode alone, as long as Patroni chooses the next leader", (context) =>
    failOver(context, "on", 10));

if (IS_FULL)
  test("with asynchronous replication a failover loses acknowledged outcomes", async (context) => {
    const { processes, lanes, pauseMs } = sizeOf("fleet");
    const { cluster, store, urls } = await startTrial(context, { synchronous: "off" });
    expect((await diagnose(store)).survives.failover.survives).toBe("no");
    const behind: FleetFault = {
      name: "leader killed while its standbys were a second behind",
      async strike() {
        const leader = await cluster.leader();
        const node = cluster.nodes[leader];
        const link = node?.links.at(-1);
        link?.hang();
        await sleep(1_000);
        await node?.kill();
        await untilFailedOver(cluster, leader);
        return async () => {
          link?.heal();
          await node?.restart();
        };
      },
    };
    const trial = await strikeFleet(context, {
      ...{ urls, processes, lanes, pauseMs, store },
      faults: [behind],
      rounds: 3,
      ready: () => cluster.untilStreaming(1),
    });
    reportFleet("Postgres 15 under Patroni 3, asynchronous replication", trial, processes);
    expect(trial.lostOutcomes.length + trial.duplicateWinners.length).toBeGreaterThan(0);
  });
