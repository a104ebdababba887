/**
 * A private Redis with two replicas, watched by three Sentinels. The servers reach each other, and Sentinel reaches them, through
 * proxies, so that a test can cut one of them off. Clients that map addresses go around the proxies.
 */
import { execFile } from "node:child_process";
import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { find } from "./packages.ts";
import { type FaultProxy, startProxy } from "./proxy.ts";
import { type Server, type Settings, startServer } from "./server.ts";

export interface SentinelNode extends Server {
  /** What Sentinel and the other servers send to this one. */
  readonly link: FaultProxy;
}

export interface SentinelGroup {
  readonly name: string;
  readonly nodes: readonly SentinelNode[];
  readonly sentinels: readonly Server[];
  /** The address that Sentinel tells, and the one that clients use instead: `127.0.0.1:proxy` to a port. */
  readonly addresses: Readonly<Record<string, { readonly host: string; readonly port: number }>>;
  /** The index of the master that a majority of the Sentinels names. */
  master(): Promise<number>;
  /** Waits until the master has so many replicas that follow it. */
  untilFollowed(replicas: number): Promise<void>;
  /** Promotes a replica, as an operator does. */
  switchOver(): Promise<void>;
  ask(node: Server, ...command: readonly string[]): Promise<string>;
  stop(): Promise<void>;
}

const NODES = 3;
const SENTINELS = 3;
const QUORUM = 2;
const NAME = "shop";
const HOST = "127.0.0.1";
const READY_MS = 60_000;
/** Shorter than an operator would choose, so that a failover takes seconds. */
const TIMES = { down: 1_500, failover: 6_000 };

const SETTINGS: Settings = {
  save: '""',
  appendonly: "yes",
  appendfsync: "always",
  "repl-diskless-sync-delay": 0,
  "repl-timeout": 5,
  "repl-ping-replica-period": 1,
};

export async function startSentinel({
  settings = {},
}: {
  readonly settings?: Settings;
} = {}): Promise<SentinelGroup> {
  const cli = find("redis-cli");
  const started: { stop(): Promise<void> }[] = [];
  const stop = async (): Promise<void> => {
    for (const each of started.reverse()) await each.stop();
  };
  const kept = async <Started extends { stop(): Promise<void> }>(coming: Promise<Started>) => {
    const each = await coming;
    started.push(each);
    return each;
  };
  const ask = async ({ port }: Pick<Server, "port">, ...command: readonly string[]): Promise<string> =>
    (await promisify(execFile)(cli, ["-p", String(port), ...command], { timeout: 3_000 })).stdout;
  try {
    const nodes: SentinelNode[] = [];
    for (let index = 0; index < NODES; index++)
      nodes.push(await startNode(index, nodes[0]?.link.port, { ...SETTINGS, ...settings }, kept));
    const sentinels = await Promise.all(
      Array.from({ length: SENTINELS }, (_, i) => kept(startOneSentinel(i, nodes[0]?.link.port ?? 0))),
    );
    const indexOf = (port: number) => nodes.findIndex(({ link }) => link.port === port);
    const group: SentinelGroup = {
      name: NAME,
      nodes,
      sentinels,
      addresses: Object.fromEntries(
        nodes.map(({ port, link }) => [`${HOST}:${link.port}`, { host: HOST, port }]),
      ),
      async master() {
        const answers = await Promise.allSettled(
          sentinels.map((each) => ask(each, "SENTINEL", "get-master-addr-by-name", NAME)),
        );
        const named = answers.map((each) =>
          each.status === "fulfilled" ? indexOf(Number(each.value.split("\n")[1])) : -1,
        );
        return named.find((index) => named.filter((other) => other === index).length >= QUORUM) ?? -1;
      },
      async untilFollowed(replicas) {
        const deadline = performance.now() + READY_MS;
        for (;;) {
          const master = nodes[await group.master()];
          const info = master === undefined ? "" : await ask(master, "INFO", "replication").catch(() => "");
          const following = info.match(/^slave\d+:.*state=online/gm)?.length ?? 0;
          if (info.includes("role:master") && following >= replicas && (await areKnown(group))) return;
          if (performance.now() > deadline) throw new Error(`the master has too few replicas:\n${info}`);
          await sleep(100);
        }
      },
      async switchOver() {
        const deadline = performance.now() + READY_MS;
        const old = await group.master();
        for (;;) {
          // Refused for a while after another failover.
          await ask(sentinels[0] as Server, "SENTINEL", "FAILOVER", NAME).catch(() => {});
          for (let looks = 0; looks < 20; looks++) {
            if ((await group.master()) !== old) return;
            await sleep(100);
          }
          if (performance.now() > deadline) throw new Error("Sentinel did not switch over");
        }
      },
      ask,
      stop,
    };
    await group.untilFollowed(NODES - 1);
    return group;
  } catch (error) {
    await stop();
    throw error;
  }
}

type Keep = <Started extends { stop(): Promise<void> }>(coming: Promise<Started>) => Promise<Started>;

/** Sentinel writes the master of each server into its configuration, so that it comes back as a replica. */
async function startNode(
  index: number,
  masterPort: number | undefined,
  settings: Settings,
  kept: Keep,
): Promise<SentinelNode> {
  const program = find("redis-server");
  let link: FaultProxy | undefined;
  const server = await kept(
    startServer({
      name: `redis-${index}`,
      ready: /Ready to accept connections/,
      url: ({ port }) => `redis://${HOST}:${port}`,
      command: ({ folder }) => [program, join(folder, "redis.conf")],
      async prepare({ folder, port }) {
        link = await kept(startProxy(port));
        const lines = Object.entries({
          ...{ port, bind: HOST, dir: folder },
          ...{ "replica-announce-ip": HOST, "replica-announce-port": link.port },
          ...(masterPort !== undefined && { replicaof: `${HOST} ${masterPort}` }),
          ...settings,
        }).map(([name, value]) => `${name} ${value}\n`);
        await writeFile(join(folder, "redis.conf"), lines.join(""));
      },
    }),
  );
  return { ...server, link: link as FaultProxy };
}

function startOneSentinel(index: number, masterPort: number): Promise<Server> {
  const program = find("redis-server");
  return startServer({
    name: `sentinel-${index}`,
    ready: /\+monitor master/,
    url: ({ port }) => `redis://${HOST}:${port}`,
    command: ({ folder }) => [program, join(folder, "sentinel.conf"), "--sentinel"],
    async prepare({ folder, port }) {
      const path = join(folder, "sentinel.conf");
      await writeFile(
        path,
        `port ${port}
bind ${HOST}
dir ${folder}
sentinel monitor ${NAME} ${HOST} ${masterPort} ${QUORUM}
sentinel down-after-milliseconds ${NAME} ${TIMES.down}
sentinel failover-timeout ${NAME} ${TIMES.failover}
sentinel parallel-syncs ${NAME} 2
`,
      );
      await chmod(path, 0o600);
    },
  });
}

/** Whether every Sentinel knows the other ones and all replicas: before that it would not fail over. */
async function areKnown({ sentinels, ask }: SentinelGroup): Promise<boolean> {
  const answers = await Promise.all(
    sentinels.map((each) => ask(each, "SENTINEL", "master", NAME).catch(() => "")),
  );
  const value = (answer: string, name: string) => {
    const lines = answer.split("\n");
    return Number(lines[lines.indexOf(name) + 1]);
  };
  return answers.every(
    (answer) =>
      value(answer, "num-slaves") >= NODES - 1 && value(answer, "num-other-sentinels") === SENTINELS - 1,
  );
}
