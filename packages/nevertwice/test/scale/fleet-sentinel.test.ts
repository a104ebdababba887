/**
 * Tests Redis under Sentinel while its master is killed, paused, cut off and switched over. What a setting keeps or loses is
 * compared with what the doctor says about it. Needs the build.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, type TestContext, test } from "vitest";
import { diagnose } from "../../src/core/doctor.ts";
import { type SentinelGroup, type SentinelNode, startSentinel } from "../services/redis-sentinel.ts";
import type { Settings } from "../services/server.ts";
import { startFor } from "../services/services.ts";
import { type FleetFault, type FleetTrial, reportFleet, strikeFleet } from "./fleet.ts";
import { IS_FULL, sizeOf } from "./sizes.ts";
import { openSubject } from "./subjects.ts";

const REPLICAS = 2;
/** How long the replicas get nothing while clients still write to their master. */
const BEHIND_MS = 1_000;

async function untilFailedOver(group: SentinelGroup, old: number): Promise<void> {
  for (;;) {
    const master = await group.master();
    if (master !== old && master !== -1) return;
    await sleep(50);
  }
}

type Act = (node: SentinelNode) => unknown;

/** `begin` happens to the master, and `end` once another one leads. */
function onMaster(group: SentinelGroup, name: string, begin: Act, end: Act): FleetFault {
  return {
    name,
    async strike() {
      const master = await group.master();
      const node = group.nodes[master] as SentinelNode;
      await begin(node);
      await untilFailedOver(group, master);
      return () => end(node);
    },
  };
}

function faultsOf(group: SentinelGroup): readonly FleetFault[] {
  return [
    // Clients still reach it. When the cut ends, it comes back and believes that it is the master.
    onMaster(
      group,
      "master cut off from its replicas and from Sentinel, but not from clients",
      (node) => node.link.hang(),
      () => heal(group),
    ),
    onMaster(
      group,
      "master killed with SIGKILL",
      (node) => node.kill(),
      (node) => node.restart(),
    ),
    {
      name: "master switched over",
      async strike() {
        await group.switchOver();
        return () => {};
      },
    },
    onMaster(
      group,
      "master paused with SIGSTOP until another one led",
      (node) => node.pause(),
      (node) => node.resume(),
    ),
  ];
}

function heal({ nodes }: SentinelGroup): void {
  for (const { link } of nodes) link.heal();
}

/** Half of the processes use ioredis, and half node-redis, unless steps wait for replicas. */
function urlsOf({ name, sentinels, addresses }: SentinelGroup, replicas: number): readonly string[] {
  const drivers = replicas > 0 ? ["ioredis"] : ["ioredis", "redis"];
  const ports = sentinels.map(({ port }) => port);
  return drivers.map(
    (driver) => `sentinel:${JSON.stringify({ driver, name, sentinels: ports, addresses, replicas })}`,
  );
}

interface SentinelTrial {
  readonly settings?: Settings;
  readonly replicas: number;
  readonly title: string;
  readonly rounds: number;
  readonly faults: (group: SentinelGroup) => readonly FleetFault[];
}

async function failOver(context: TestContext, given: SentinelTrial): Promise<FleetTrial> {
  const { settings = {}, replicas, title, rounds, faults } = given;
  const { processes, lanes, pauseMs } = sizeOf("fleet");
  const group = await startFor(context, () => startSentinel({ settings }));
  const urls = urlsOf(group, replicas);
  // Redis promises none of it, however it goes here.
  const asked = await openSubject(context, urls[0] as string);
  expect((await diagnose(asked)).survives.failover.survives).toBe("no");
  // Reads at the end, when a replica may still be on its way back.
  const store = await openSubject(context, urlsOf(group, 0)[0] as string);
  const trial = await strikeFleet(context, {
    ...{ urls, processes, lanes, pauseMs, rounds, store },
    faults: faults(group),
    ready: () => group.untilFollowed(REPLICAS),
  });
  reportFleet(`Redis 7 under Sentinel, ${title}`, trial, processes);
  return trial;
}

test("under Sentinel with replicas: 2, which are all of them, no outcome is lost and no key has two winners", async (context) => {
  const rounds = sizeOf("fleet").sentinelFaults;
  const trial = await failOver(context, {
    ...{ replicas: REPLICAS, rounds, faults: faultsOf },
    title: "appendfsync always, replicas: 2 of 2",
  });
  expect(trial.duplicateWinners).toEqual([]);
  expect(trial.lostOutcomes).toEqual([]);
  expect(trial.fencesThatFell).toEqual([]);
  expect(trial.outcomes).toBeGreaterThan(0);
  // A refusal waits for no replica. So a stale master may refuse an owner because of a claim that no replica has: that is no
  // second winner, but the claim counts as lost in the figures.
});

/** The replicas get nothing for a moment, in which the master takes writes; then it dies. */
const behind = (group: SentinelGroup): FleetFault[] => [
  {
    name: "master cut off from its replicas for a second, and killed",
    async strike() {
      const master = await group.master();
      const node = group.nodes[master] as SentinelNode;
      node.link.hang();
      await sleep(BEHIND_MS);
      await node.kill();
      await untilFailedOver(group, master);
      return async () => {
        heal(group);
        await node.restart();
      };
    },
  },
];

test("without replicas a failover loses acknowledged outcomes", async (context) => {
  const trial = await failOver(context, {
    ...{ replicas: 0, rounds: IS_FULL ? 8 : 1, faults: behind },
    title: "appendfsync always, asynchronous replication",
  });
  expect(trial.lostOutcomes.length + trial.lostClaims.length).toBeGreaterThan(0);
});

if (IS_FULL)
  test("min-replicas-to-write alone loses acknowledged outcomes as well", async (context) => {
    const trial = await failOver(context, {
      ...{ replicas: 0, rounds: 8, faults: behind },
      settings: { "min-replicas-to-write": 1, "min-replicas-max-lag": 2 },
      title: "appendfsync always, min-replicas-to-write 1 with min-replicas-max-lag 2",
    });
    expect(trial.lostOutcomes.length + trial.lostClaims.length).toBeGreaterThan(0);
  });

/** The replica that confirmed every step dies with the master. */
const confirmedByTheOther = (group: SentinelGroup): FleetFault[] => [
  {
    name: "one replica gone for a second, then the master and the other replica killed and the first one back",
    async strike() {
      const master = await group.master();
      const node = group.nodes[master] as SentinelNode;
      const [late, current] = group.nodes.filter((each) => each !== node) as [SentinelNode, SentinelNode];
      await late.kill();
      await sleep(BEHIND_MS);
      await Promise.all([node.kill(), current.kill()]);
      await late.restart();
      await untilFailedOver(group, master);
      return () => Promise.all([node.restart(), current.restart()]);
    },
  },
];

if (IS_FULL)
  test("replicas: 1 of two replicas loses what only the other replica had", async (context) => {
    const trial = await failOver(context, {
      ...{ replicas: 1, rounds: 4, faults: confirmedByTheOther },
      title: "appendfsync always, replicas: 1 of 2",
    });
    expect(trial.lostOutcomes.length + trial.lostClaims.length).toBeGreaterThan(0);
  });
