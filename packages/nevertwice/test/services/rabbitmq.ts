/**
 * Starts a private RabbitMQ node without plugins, with its own epmd. It reads, uses and leaves nothing of the system's.
 * Any client on the loopback address may log in as `guest`.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { find } from "./packages.ts";
import { freePort } from "./ports.ts";
import { type Server, type Settings, startServer, writeShared } from "./server.ts";

/** Debian's program of this name changes to a user and folders of the system; this is what it calls. */
const SCRIPT = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/** The node must not stop because the machine has little disk space or memory. */
const SETTINGS = { "disk_free_limit.absolute": "1MB", "vm_memory_high_watermark.absolute": "1GB" };

/** Ends the epmd with its node, which it would outlive. */
const RUN = `
  "$1" -port "$ERL_EPMD_PORT" & epmd=$!
  "$2" & node=$!
  trap 'kill -s TERM "$node"' TERM
  wait "$node"
  wait "$node"
  kill -s KILL "$epmd"
`;

/** `settings` are those of rabbitmq.conf: `{ consumer_timeout: 10_000 }`. */
export async function startRabbitmq({ settings }: { settings?: Settings } = {}): Promise<Server> {
  const found = find("rabbitmq-server");
  const server = existsSync(SCRIPT) ? SCRIPT : found;
  const epmd = find("epmd");
  let ports = {};
  return startServer({
    name: "rabbitmq",
    ready: /Server startup complete/,
    readyMs: 90_000,
    url: ({ port }) => `amqp://guest:guest@127.0.0.1:${port}`,
    command: ({ folder, port }) => [
      "env",
      ...Object.entries({ ...variables(folder, port), ...ports }).map((pair) => pair.join("=")),
      ...["sh", "-c", RUN, "sh", epmd, server],
    ],
    async prepare({ folder }) {
      ports = { ERL_EPMD_PORT: await freePort(), RABBITMQ_DIST_PORT: await freePort() };
      const given = Object.entries({ ...SETTINGS, ...settings }).map((pair) => pair.join(" = "));
      await writeShared(join(folder, "rabbitmq.conf"), `${given.join("\n")}\n`);
      await writeShared(join(folder, "enabled-plugins"), "[].\n");
    },
  });
}

function variables(folder: string, port: number): Readonly<Record<string, string | number>> {
  return {
    // RabbitMQ creates its cookie there.
    HOME: folder,
    ERL_EPMD_ADDRESS: "127.0.0.1",
    RABBITMQ_NODENAME: `nevertwice-${port}@localhost`,
    RABBITMQ_NODE_IP_ADDRESS: "127.0.0.1",
    RABBITMQ_NODE_PORT: port,
    RABBITMQ_CONF_ENV_FILE: join(folder, "no-such-file"),
    RABBITMQ_CONFIG_FILE: join(folder, "rabbitmq.conf"),
    RABBITMQ_ADVANCED_CONFIG_FILE: join(folder, "advanced.config"),
    RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, "enabled-plugins"),
    RABBITMQ_GENERATED_CONFIG_DIR: join(folder, "generated"),
    RABBITMQ_MNESIA_BASE: join(folder, "mnesia"),
    RABBITMQ_LOG_BASE: join(folder, "log"),
    RABBITMQ_PID_FILE: join(folder, "pid"),
    RABBITMQ_LOGS: "-",
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: "-kernel inet_dist_use_interface {127,0,0,1}",
    // The script replaces itself by the node, which then gets its signals directly.
    detached: "yes",
  };
}
