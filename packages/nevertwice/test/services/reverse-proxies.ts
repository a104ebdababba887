/** Starts a private nginx, HAProxy or Varnish in front of other servers, with the lines of a documented setting. */
import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { find } from "./packages.ts";
import { type Plan, type Server, startServer, writeShared } from "./server.ts";

export type ReverseProxyName = "nginx" | "haproxy" | "varnish";

export interface ReverseProxyOptions {
  /** Ports of the servers behind it. Varnish has only the first. */
  readonly behind: readonly number[];
  /** Lines of its configuration, where it says how requests are passed on. */
  readonly setting: string;
}

const PLANS: Readonly<Record<ReverseProxyName, (how: ReverseProxyOptions) => Omit<Plan, "name" | "url">>> = {
  nginx: ({ behind, setting }) => ({
    user: "www-data",
    ready: /start worker process \d+/,
    command: ({ folder }) => [find("nginx"), "-p", folder, "-c", join(folder, "nginx.conf"), "-e", "stderr"],
    async prepare({ folder, port }) {
      await writeShared(
        join(folder, "nginx.conf"),
        `daemon off; worker_processes 1; pid ${join(folder, "nginx.pid")}; error_log stderr notice;
events { worker_connections 256; }
http {
  access_log off;
  ${["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${join(folder, name)};`).join(" ")}
  upstream service { ${behind.map((one) => `server 127.0.0.1:${one};`).join(" ")} }
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://service;
${setting}
    }
  }
}
`,
      );
    },
  }),
  haproxy: ({ behind, setting }) => ({
    ready: /Using \w+\(\) as the polling mechanism/,
    command: ({ folder }) => [find("haproxy"), "-db", "-V", "-f", join(folder, "haproxy.cfg")],
    async prepare({ folder, port }) {
      await writeShared(
        join(folder, "haproxy.cfg"),
        `defaults
  mode http
  timeout connect 10s
  timeout client 60s
  timeout server 60s
frontend clients
  bind 127.0.0.1:${port}
  default_backend service
backend service
${setting}
${behind.map((one, index) => `  server s${index} 127.0.0.1:${one}`).join("\n")}
`,
      );
    },
  }),
  varnish: ({ behind, setting }) => ({
    ready: /Child starts/,
    readyMs: 120_000,
    command: ({ folder, port }) => [
      find("varnishd"),
      ...["-F", "-j", "none", "-n", join(folder, "v"), "-f", join(folder, "default.vcl")],
      ...["-a", `127.0.0.1:${port}`, "-s", "malloc,32m"],
    ],
    async prepare({ folder }) {
      await writeShared(
        join(folder, "default.vcl"),
        `vcl 4.1;
import std;
backend service { .host = "127.0.0.1"; .port = "${behind[0]}"; }
${setting}
`,
      );
    },
  }),
};

export async function startReverseProxy(name: ReverseProxyName, how: ReverseProxyOptions): Promise<Server> {
  const server = await startServer({
    ...PLANS[name](how),
    name,
    url: ({ port }) => `http://127.0.0.1:${port}`,
  });
  await untilOpen(server.port);
  return server;
}

const LOOK_EVERY_MS = 20;

/** HAProxy says that it is ready before it accepts connections. */
async function untilOpen(port: number): Promise<void> {
  for (;;) {
    const socket = connect(port, "127.0.0.1");
    const isOpen = await once(socket, "connect").then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (isOpen) return;
    await setTimeout(LOOK_EVERY_MS);
  }
}
