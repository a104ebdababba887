/**
 * A private Postgres cluster that fails over by itself: three nodes under Patroni with etcd, and an HAProxy that leads clients
 * to the leader. The nodes reach etcd and each other through proxies, so that a test can cut one of them off.
 *
 * Patroni starts Postgres so that it outlives Patroni. So each node has its own process namespace, as in a container: all of it
 * is killed, paused and resumed as one. Only root can do this.
 */
import { realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { startEtcd } from "./etcd.ts";
import { find, NotInstalled } from "./packages.ts";
import { freePort } from "./ports.ts";
import { type FaultProxy, startProxy } from "./proxy.ts";
import { type Server, type Settings, startServer, writeShared } from "./server.ts";

export interface PatroniNode extends Server {
  /** Of its REST interface. */
  readonly api: string;
  /** What this node sends to etcd, and what the other nodes send to its Postgres. Clients do not pass here. */
  readonly links: readonly FaultProxy[];
}

export interface PatroniCluster {
  /** HAProxy, which leads to the leader. */
  readonly url: string;
  /** Every node, as postgres.js takes several hosts. */
  readonly hosts: string;
  readonly nodes: readonly PatroniNode[];
  /** The index of the node that holds the leader's lock; waits for one, or is -1. */
  leader(options?: { readonly waits: boolean }): Promise<number>;
  /** Waits until so many standbys stream from the leader, one of them synchronously unless `synchronous` is `off`. */
  untilStreaming(standbys: number): Promise<void>;
  /** Hands the leader's lock to another node, as an operator does. */
  switchOver(): Promise<void>;
  stop(): Promise<void>;
}

export interface PatroniOptions {
  /** The setting `synchronous_mode`, and with `strict` also `synchronous_mode_strict`; default `strict`. */
  readonly synchronous?: "off" | "on" | "strict";
  readonly settings?: Settings;
}

const SCOPE = "nevertwice";
const READY_MS = 300_000;
/** Far shorter than an operator would choose, so that a failover takes seconds. */
const TIMES = { ttl: 5, loop_wait: 1, retry_timeout: 2 };

const SETTINGS: Settings = {
  max_connections: 100,
  max_wal_senders: 10,
  max_replication_slots: 10,
  wal_keep_size: "128MB",
  wal_log_hints: "on",
  hot_standby: "on",
  fsync: "on",
};

interface Place {
  readonly name: string;
  readonly folder: string;
  readonly port: number;
  readonly apiPort: number;
  /** Where the node finds etcd, and where the other nodes find its Postgres. */
  readonly etcdPort: number;
  readonly peerPort: number;
}

function nodeConfig(place: Place, synchronous: string, settings: Settings): string {
  const { name, folder, port, apiPort, etcdPort, peerPort } = place;
  const parameters = Object.entries({ ...SETTINGS, ...settings })
    .map(([setting, value]) => `        ${setting}: '${value}'`)
    .join("\n");
  return `scope: ${SCOPE}
name: ${name}
restapi: { listen: 127.0.0.1:${apiPort}, connect_address: 127.0.0.1:${apiPort} }
# Otherwise Patroni would ask etcd for the addresses of its members, and go around the proxy.
etcd3: { hosts: ['127.0.0.1:${etcdPort}'], use_proxies: true }
bootstrap:
  dcs:
    ttl: ${TIMES.ttl}
    loop_wait: ${TIMES.loop_wait}
    retry_timeout: ${TIMES.retry_timeout}
    maximum_lag_on_failover: 1048576
    synchronous_mode: ${synchronous !== "off"}
    synchronous_mode_strict: ${synchronous === "strict"}
    postgresql:
      use_pg_rewind: true
      use_slots: true
      parameters:
${parameters}
  initdb: [{ encoding: UTF8 }, { locale: C }, no-sync]
postgresql:
  listen: 127.0.0.1:${port}
  connect_address: 127.0.0.1:${peerPort}
  data_dir: ${folder}/data
  bin_dir: ${dirname(realpathSync(find("postgres")))}
  pgpass: ${folder}/pgpass
  pg_hba: ['local all all trust', 'host all,replication all 127.0.0.1/32 trust']
  remove_data_directory_on_diverged_timelines: true
  authentication:
    superuser: { username: nevertwice }
    replication: { username: nevertwice }
    rewind: { username: nevertwice }
  parameters: { unix_socket_directories: '${folder}' }
`;
}

export async function startPatroni({
  synchronous = "strict",
  settings = {},
}: PatroniOptions = {}): Promise<PatroniCluster> {
  const programs = { patroni: find("patroni"), unshare: find("unshare"), setpriv: find("setpriv") };
  find("haproxy");
  if (process.getuid?.() !== 0) throw new NotInstalled("patroni");
  const started: { stop(): Promise<void> }[] = [];
  const stop = async (): Promise<void> => {
    for (const each of started.reverse()) await each.stop();
  };
  const kept = async <Started extends { stop(): Promise<void> }>(coming: Promise<Started>) => {
    const each = await coming;
    started.push(each);
    return each;
  };
  try {
    const etcd = await kept(startEtcd({ members: 1 }));
    const start = async (index: number): Promise<PatroniNode> => {
      const apiPort = await freePort();
      const toEtcd = await kept(startProxy(etcd.members[0]?.port ?? 0));
      let toPeer: FaultProxy | undefined;
      const server = await startServer({
        name: `patroni-${index}`,
        onDisk: true,
        ready: /i am \(node-\d\)(?:, (?:the leader with the lock|a secondary))|no action\. I am/i,
        readyMs: READY_MS,
        url: ({ port }) => `postgres://nevertwice@127.0.0.1:${port}/postgres`,
        command: ({ folder }) => [
          programs.unshare,
          ...["--pid", "--fork", "--kill-child", "--mount-proc"],
          ...[programs.setpriv, "--reuid=postgres", "--regid=postgres", "--clear-groups"],
          ...[programs.patroni, join(folder, "patroni.yml")],
        ],
        async prepare({ folder, port }, run) {
          toPeer = await kept(startProxy(port));
          await run("chown", "postgres:postgres", folder);
          const place = { name: `node-${index}`, folder, port, apiPort, etcdPort: toEtcd.port };
          const config = nodeConfig({ ...place, peerPort: toPeer.port }, synchronous, settings);
          await writeShared(join(folder, "patroni.yml"), config);
        },
      });
      const links = [toEtcd, ...(toPeer === undefined ? [] : [toPeer])];
      return { ...server, api: `http://127.0.0.1:${apiPort}`, links, stop: () => ended(server) };
    };
    // The first one creates the database; the others copy it.
    const first = await kept(start(0));
    const others = await Promise.allSettled([1, 2].map((index) => kept(start(index))));
    const failed = others.find((each) => each.status === "rejected");
    if (failed !== undefined) throw failed.reason;
    const nodes = [first, ...others.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []))];
    nodes.sort((a, b) => a.links.length - b.links.length);
    const proxy = await kept(startAddress(nodes));
    return {
      url: proxy.url,
      hosts: `postgres://nevertwice@${nodes.map(({ port }) => `127.0.0.1:${port}`).join(",")}/postgres?target_session_attrs=primary`,
      nodes,
      leader: ({ waits } = { waits: true }) => leaderOf(nodes, waits),
      untilStreaming: (standbys) => untilStreaming(nodes, standbys, synchronous !== "off"),
      switchOver: () => switchOver(nodes),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Nothing is kept, so the node need not end in good order. */
async function ended(server: Server): Promise<void> {
  await server.kill();
  await server.stop();
}

/** HAProxy as Patroni's documentation sets it up: it asks each node whether it is the leader. */
function startAddress(nodes: readonly PatroniNode[]): Promise<Server> {
  const servers = nodes.map(
    ({ port, api }, index) =>
      `  server node-${index} 127.0.0.1:${port} check port ${new URL(api).port} maxconn 200`,
  );
  return startServer({
    name: "haproxy",
    ready: /Using \w+\(\) as the polling mechanism/,
    url: ({ port }) => `postgres://nevertwice@127.0.0.1:${port}/postgres`,
    command: ({ folder }) => [find("haproxy"), "-db", "-V", "-f", join(folder, "haproxy.cfg")],
    async prepare({ folder, port }) {
      await writeShared(
        join(folder, "haproxy.cfg"),
        `defaults
  mode tcp
  timeout connect 2s
  timeout client 30m
  timeout server 30m
  timeout check 1s
listen postgres
  bind 127.0.0.1:${port}
  option httpchk OPTIONS /primary
  http-check expect status 200
  default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
${servers.join("\n")}
`,
      );
    },
  });
}

interface Member {
  readonly name: string;
  readonly role: string;
  readonly state: string;
}

/** What the first node that answers knows about the cluster. */
async function members(nodes: readonly PatroniNode[]): Promise<readonly Member[]> {
  const asked = nodes.map(async ({ api }) => {
    const response = await fetch(`${api}/cluster`, { signal: AbortSignal.timeout(2_000) });
    return ((await response.json()) as { members?: readonly Member[] }).members ?? [];
  });
  return Promise.any(asked).catch(() => []);
}

async function isLeader({ api }: PatroniNode): Promise<boolean> {
  try {
    const { ok } = await fetch(`${api}/primary`, { signal: AbortSignal.timeout(2_000) });
    return ok;
  } catch {
    return false;
  }
}

async function leaderOf(nodes: readonly PatroniNode[], waits = true): Promise<number> {
  const deadline = performance.now() + READY_MS;
  for (;;) {
    const answers = await Promise.all(nodes.map(isLeader));
    const index = answers.indexOf(true);
    if (index !== -1 || !waits) return index;
    if (performance.now() > deadline) throw new Error("no node of the Patroni cluster is the leader");
    await sleep(100);
  }
}

async function untilStreaming(
  nodes: readonly PatroniNode[],
  standbys: number,
  isSynchronous: boolean,
): Promise<void> {
  const deadline = performance.now() + READY_MS;
  for (;;) {
    const known = await members(nodes);
    const streaming = known.filter(
      ({ role, state }) => role !== "leader" && /running|streaming/.test(state),
    ).length;
    const synchronous = known.filter(({ role }) => role === "sync_standby").length;
    if (streaming >= standbys && (synchronous > 0 || !isSynchronous)) return;
    if (performance.now() > deadline)
      throw new Error(`the Patroni cluster is not complete: ${JSON.stringify(known)}`);
    await sleep(200);
  }
}

async function switchOver(nodes: readonly PatroniNode[]): Promise<void> {
  const index = await leaderOf(nodes);
  const response = await fetch(`${nodes[index]?.api}/switchover`, {
    method: "POST",
    body: JSON.stringify({ leader: `node-${index}` }),
    signal: AbortSignal.timeout(60_000),
  });
  if (!response.ok) throw new Error(`the switchover failed: ${await response.text()}`);
}
