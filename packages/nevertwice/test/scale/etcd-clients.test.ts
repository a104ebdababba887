/**
 * Tests two clients of etcd, to choose the store's: the package `etcd3`, which speaks gRPC, and the HTTP gateway of etcd, with a
 * request for each transaction and with requests that transactions share. Needs the build.
 * `npm run campaign -- etcd-clients` runs it; it downloads the package, so `npm test` does not.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, type TestContext, test } from "vitest";
import { createGateway } from "../../src/stores/etcd/gateway.ts";
import * as tx from "../../src/stores/etcd/transactions.ts";
import { scratchFolder } from "../scratch-folder.ts";
import { type EtcdCluster, startEtcd } from "../services/etcd.ts";
import { startFor } from "../services/services.ts";
import { install, versionIn, writeManifest } from "../user-projects.ts";
import { count, ms, reportOn } from "./figures.ts";
import { startProcess } from "./processes.ts";
import type { ClientReport } from "./workers/etcd-client.js";

const CLIENTS = [
  ["etcd3", "etcd3"],
  ["gateway", "the HTTP gateway, one request for each transaction"],
  ["shared", "the HTTP gateway, with shared requests"],
] as const;

const LANES = 32;
const HEALTHY_MS = 10_000;
const ALONE_MS = 5_000;
const EVERY_MS = 10_000;
const FAULT_MS = 5_000;

let folder: string;
let etcd3: string;
const ends: (() => Promise<void>)[] = [];

beforeAll(async () => {
  folder = await scratchFolder({ onTestFinished: (end) => void ends.push(end) });
  await writeManifest(folder, { dependencies: {}, devDependencies: {}, scripts: {} });
  await install(folder, "etcd3@1");
  etcd3 = await versionIn(folder, "etcd3");
});
afterAll(() => Promise.all(ends.map((end) => end())));

const endpointsOf = (cluster: EtcdCluster) => cluster.members.map(({ url }) => url);

interface Run {
  readonly client: string;
  readonly cluster: EtcdCluster;
  readonly prefix: string;
  readonly lanes: number;
}

/** Lets a process write while `meanwhile` goes on. */
async function write(
  context: TestContext,
  { cluster, ...run }: Run,
  meanwhile: () => Promise<unknown>,
): Promise<ClientReport> {
  const options = { ...run, folder, endpoints: endpointsOf(cluster) };
  const child = startProcess(context, "etcd-client.js", options);
  await child.next("ready");
  child.tell("begin");
  await meanwhile();
  child.tell("end");
  const report = await child.next<ClientReport>("report");
  await child.ended;
  return report;
}

/** The leader is killed, and cut off, twice each. */
async function strikeFourTimes(cluster: EtcdCluster): Promise<void> {
  for (let round = 0; round < 4; round++) {
    await sleep(EVERY_MS - FAULT_MS);
    const leader = await cluster.leader();
    if (round % 2 === 0) await cluster.members[leader]?.kill();
    else cluster.network.cutOff(leader);
    await sleep(FAULT_MS);
    if (round % 2 === 0) await cluster.members[leader]?.restart();
    else cluster.network.heal();
  }
}

/** The acknowledged keys that etcd does not have. */
async function keysLost(cluster: EtcdCluster, prefix: string, keys: readonly string[]): Promise<string[]> {
  const credentials = undefined;
  const limits = { memberTimeoutMs: 30_000, timeoutMs: 60_000 };
  const gateway = createGateway({ endpoints: endpointsOf(cluster), fetch, credentials, ...limits });
  const { body } = await gateway.call("kv/range", tx.range(prefix, { to: `${prefix}~`, keysOnly: true }));
  gateway.close();
  const present = new Set(tx.readRange(body).found.map(({ key }) => key));
  return keys.filter((key) => !present.has(key));
}

function speedOf({ keys, tookMs, lastedMs, cpuMs }: ClientReport): string {
  const sorted = tookMs.toSorted((a, b) => a - b);
  const at = (share: number) => ms(sorted[Math.floor(sorted.length * share)] ?? Number.NaN);
  return (
    `${count(keys.length / (lastedMs / 1_000))} transactions a second, p50 ${at(0.5)}, p99 ${at(0.99)}, ` +
    `${ms(cpuMs / keys.length)} of the client's processor for each`
  );
}

test.for(CLIENTS)("no write that %s acknowledged is lost with a leader", async ([client, name], context) => {
  const cluster = await startFor(context, () => startEtcd());
  const run = (phase: string, lanes: number) => ({ client, cluster, prefix: `${phase}/`, lanes });
  const title = client === "etcd3" ? etcd3 : name;

  const alone = await write(context, run("alone", 1), () => sleep(ALONE_MS));
  reportOn(title, { trial: "One transaction at a time", figures: speedOf(alone) });
  const healthy = await write(context, run("healthy", LANES), () => sleep(HEALTHY_MS));
  reportOn(title, { trial: `${LANES} transactions at a time`, figures: speedOf(healthy) });

  const faulty = await write(context, run("faulty", LANES), () => strikeFourTimes(cluster));
  const lost = await keysLost(cluster, "faulty/", faulty.keys);
  reportOn(title, {
    trial: `${LANES} transactions at a time, while the leader is killed or cut off four times in 40 seconds`,
    figures:
      `${speedOf(faulty)}; ${count(faulty.failed)} tries failed, ${count(faulty.repeated)} of those had been applied; ` +
      `at most ${ms(faulty.longestGapMs)} without an answer; ${count(lost.length)} acknowledged writes lost`,
  });
  expect(lost).toEqual([]);
  expect(faulty.keys.length).toBeGreaterThan(0);
});
