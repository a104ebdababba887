/** A private etcd cluster. Its members reach each other through proxies, so that a test can cut one of them off. */
import { setTimeout as sleep } from "node:timers/promises";
import { find } from "./packages.ts";
import { type PeerNetwork, startPeerNetwork } from "./peer-network.ts";
import { freePort } from "./ports.ts";
import { type Server, type Settings, startServer } from "./server.ts";

export interface EtcdCluster {
  /** `etcd://` and the addresses of all members, as `openStore` takes it. */
  readonly url: string;
  readonly members: readonly Server[];
  readonly network: PeerNetwork;
  /** The index of the leader that the other members know; waits for one. */
  leader(except?: number): Promise<number>;
  stop(): Promise<void>;
}

export interface EtcdOptions {
  readonly members?: number;
  /** Command-line options: `{ "quota-backend-bytes": 4194304 }`. */
  readonly settings?: Settings;
  /** How clients reach the members; default `http`. */
  readonly scheme?: "http" | "https";
}

/** A member that was killed catches up first, which takes long on a busy machine. */
const READY_MS = 180_000;
const SETTINGS: Settings = {
  // A busy machine must not look like a lost leader.
  "heartbeat-interval": 100,
  "election-timeout": 1_000,
  "auto-compaction-mode": "revision",
  "auto-compaction-retention": "10000",
};

export async function startEtcd({
  members = 3,
  settings = {},
  scheme = "http",
}: EtcdOptions = {}): Promise<EtcdCluster> {
  const program = find("etcd");
  const names = Array.from({ length: members }, (_, i) => `member-${i}`);
  const peerPorts = await Promise.all(names.map(() => freePort()));
  const network = await startPeerNetwork(peerPorts);
  const cluster = names.map((name, i) => `${name}=${network.urls[i]}`).join(",");
  const given = Object.entries({ ...SETTINGS, ...settings });
  const start = (name: string, i: number) =>
    startServer({
      name: `etcd-${i}`,
      // Each member allocates more than a hundred megabytes for its log.
      onDisk: true,
      ready: /ready to serve client requests|serving client requests/,
      readyMs: READY_MS,
      url: ({ port }) => `${scheme}://127.0.0.1:${port}`,
      command: ({ folder, port }) => [
        program,
        ...["--name", name, "--data-dir", `${folder}/data`],
        ...["--listen-client-urls", `${scheme}://127.0.0.1:${port}`],
        ...["--advertise-client-urls", `${scheme}://127.0.0.1:${port}`],
        ...["--listen-peer-urls", `http://127.0.0.1:${peerPorts[i]}`],
        ...["--initial-advertise-peer-urls", String(network.urls[i]), "--initial-cluster", cluster],
        ...given.flatMap(([option, value]) => [`--${option}`, String(value)]),
      ],
    });
  const starts = await Promise.allSettled(names.map(start));
  const servers = starts.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  const stop = async (): Promise<void> => {
    await Promise.all(servers.map((server) => server.kill().then(() => server.stop())));
    await network.stop();
  };
  const failed = starts.find((each) => each.status === "rejected");
  if (failed !== undefined) {
    await stop();
    throw failed.reason;
  }
  const status = async ({ url }: Server): Promise<{ id: string; leader: string }> => {
    const response = await fetch(`${url}/v3/maintenance/status`, {
      method: "POST",
      body: "{}",
      signal: AbortSignal.timeout(1_000),
    });
    const { header, leader = "0" } = (await response.json()) as {
      header: { member_id: string };
      leader?: string;
    };
    return { id: header.member_id, leader };
  };
  /** On a busy machine a member may take longer than one request may. */
  const idOnceItAnswers = async (server: Server): Promise<string> => {
    for (let tries = 0; ; tries++) {
      try {
        return (await status(server)).id;
      } catch (error) {
        if (tries >= READY_MS / 1_000) {
          await stop();
          throw error;
        }
        await sleep(100);
      }
    }
  };
  // The certificate of a test is not trusted here, and one member alone cannot be cut off.
  const ids = scheme === "https" ? [] : await Promise.all(servers.map(idOnceItAnswers));
  network.name(ids);
  return {
    url: `etcd://${servers.map(({ port }) => `127.0.0.1:${port}`).join(",")}`,
    members: servers,
    network,
    async leader(except) {
      for (;;) {
        const asked = servers.filter((_, i) => i !== except);
        const answers = await Promise.allSettled(asked.map(status));
        for (const answer of answers) {
          const index = answer.status === "fulfilled" ? ids.indexOf(answer.value.leader) : -1;
          if (index !== -1 && index !== except) return index;
        }
        await sleep(50);
      }
    },
    stop,
  };
}
