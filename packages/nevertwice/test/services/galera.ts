/** A private Galera cluster: three MariaDB servers of which each takes writes. Clients may reach a node through a proxy. */
import { setTimeout as sleep } from "node:timers/promises";
import { createConnection } from "mysql2/promise";
import { startMariadb } from "./mariadb.ts";
import { find } from "./packages.ts";
import { freePort } from "./ports.ts";
import type { Server, Settings } from "./server.ts";

export interface GaleraCluster {
  readonly nodes: readonly Server[];
  /** Waits until so many nodes belong to the cluster and take statements. */
  untilSynced(nodes: number): Promise<void>;
  stop(): Promise<void>;
}

const NODES = 3;
const READY_MS = 180_000;
const PROVIDER = "/usr/lib/galera/libgalera_smm.so";

const SETTINGS: Settings = {
  wsrep_on: "ON",
  wsrep_provider: PROVIDER,
  wsrep_cluster_name: "nevertwice",
  wsrep_sst_method: "rsync",
  wsrep_sync_wait: 7,
  binlog_format: "ROW",
  "default-storage-engine": "InnoDB",
  "innodb-autoinc-lock-mode": 2,
  "innodb-flush-log-at-trx-commit": 1,
};

export async function startGalera(settings: Settings = {}): Promise<GaleraCluster> {
  find("rsync");
  const ports = await Promise.all(Array.from({ length: NODES }, () => freePort()));
  const servers: Server[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(servers.map((server) => server.kill().then(() => server.stop())));
  };
  try {
    for (const [index, port] of ports.entries()) {
      const sst = await freePort();
      // Only the first start of the first node founds a cluster; later it joins the others again.
      let founds = index === 0;
      servers.push(
        await startMariadb({
          onDisk: true,
          readyMs: READY_MS,
          moreOptions() {
            const options = founds ? ["--wsrep-new-cluster"] : [];
            founds = false;
            return options;
          },
          settings: {
            ...SETTINGS,
            ...settings,
            wsrep_cluster_address: `gcomm://${ports.map((each) => `127.0.0.1:${each}`).join(",")}`,
            wsrep_node_name: `node-${index}`,
            wsrep_node_address: `127.0.0.1:${port}`,
            wsrep_sst_receive_address: `127.0.0.1:${sst}`,
            wsrep_provider_options: [
              `base_port=${port}`,
              `gmcast.listen_addr=tcp://127.0.0.1:${port}`,
              `ist.recv_addr=127.0.0.1:${await freePort()}`,
              "gcache.size=32M",
            ].join(";"),
          },
        }),
      );
    }
    const cluster: GaleraCluster = {
      nodes: servers,
      async untilSynced(nodes) {
        const deadline = performance.now() + READY_MS;
        for (;;) {
          const sizes = await Promise.all(servers.map(syncedSize));
          if (sizes.filter((size) => size >= nodes).length >= nodes) return;
          if (performance.now() > deadline) throw new Error(`the Galera cluster is not complete: ${sizes}`);
          await sleep(200);
        }
      },
      stop,
    };
    await cluster.untilSynced(NODES);
    return cluster;
  } catch (error) {
    await stop();
    throw error;
  }
}

/** How many nodes this one sees; 0 while it does not take statements. */
async function syncedSize({ url }: Server): Promise<number> {
  try {
    const connection = await createConnection({ uri: url, connectTimeout: 2_000 });
    connection.on("error", () => {});
    try {
      const [rows] = await connection.query(
        "SHOW STATUS WHERE Variable_name IN ('wsrep_cluster_size', 'wsrep_local_state_comment')",
      );
      const values = Object.fromEntries(
        (rows as { Variable_name: string; Value: string }[]).map((row) => [row.Variable_name, row.Value]),
      );
      return values.wsrep_local_state_comment === "Synced" ? Number(values.wsrep_cluster_size) : 0;
    } finally {
      connection.destroy();
    }
  } catch {
    return 0;
  }
}
