/** A private Redis cluster: three masters, each with a replica. */
import { execFile } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { find } from "./packages.ts";
import { startRedis } from "./redis.ts";
import type { Server, Settings, StartOptions } from "./server.ts";

export interface Cluster {
  /** The URL of one node: a client finds the others through it. */
  readonly url: string;
  readonly nodes: readonly Server[];
  stop(): Promise<void>;
}

const NODES = 6;
const READY_MS = 30_000;
const SETTINGS: Settings = {
  "cluster-enabled": "yes",
  // Long enough that no replica takes over from a node that is only slow on a busy machine.
  "cluster-node-timeout": 30_000,
  // A replica starts its first copy at once, without waiting for other replicas.
  "repl-diskless-sync-delay": 0,
};

export async function startRedisCluster({ settings, clock }: StartOptions = {}): Promise<Cluster> {
  const cli = find("redis-cli");
  const options = { settings: { ...SETTINGS, ...settings }, clock: clock === true };
  const nodes = await Promise.all(Array.from({ length: NODES }, () => startRedis(options)));
  const stop = async (): Promise<void> => {
    await Promise.all(nodes.map((node) => node.stop()));
  };
  try {
    const addresses = nodes.map(({ port }) => `127.0.0.1:${port}`);
    const ask = async (node: Server, ...args: string[]): Promise<string> =>
      (await promisify(execFile)(cli, ["-p", String(node.port), ...args])).stdout;
    await promisify(execFile)(cli, [
      ...["--cluster", "create", ...addresses],
      ...["--cluster-replicas", "1", "--cluster-yes"],
    ]);
    await Promise.all(nodes.map((node) => untilReady((...args) => ask(node, ...args))));
  } catch (error) {
    await stop();
    throw error;
  }
  return { url: nodes[0]?.url ?? "", nodes, stop };
}

/** A node is ready once it knows of all slots and replicas and, being a replica, has its master's copy. */
async function untilReady(ask: (...args: string[]) => Promise<string>): Promise<void> {
  const deadline = Date.now() + READY_MS;
  for (;;) {
    const questions = [
      ["cluster", "info"],
      ["cluster", "nodes"],
      ["info", "replication"],
    ] as const;
    const [info = "", nodes = "", replication = ""] = await Promise.all(
      questions.map((each) => ask(...each)),
    );
    const knowsAll = info.includes("cluster_state:ok") && nodes.match(/\bslave\b/g)?.length === NODES / 2;
    if (knowsAll && /role:master|master_link_status:up/.test(replication)) return;
    if (Date.now() > deadline)
      throw new Error(`a node of the cluster is not ready:\n${info}\n${nodes}\n${replication}`);
    await sleep(20);
  }
}
