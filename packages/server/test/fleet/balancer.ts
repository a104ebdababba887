/** One nginx in front of the APIs and the gateways of several servers, with the settings that docs/server.md shows. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { find } from "../../../nevertwice/test/services/packages.ts";
import { freePort } from "../../../nevertwice/test/services/ports.ts";
import { type Server, startServer, writeShared } from "../../../nevertwice/test/services/server.ts";

export interface Balancer {
  readonly server: Server;
  /** The addresses that clients use. */
  readonly apiUrl: string;
  readonly gatewayUrl: string;
}

export interface ServerPorts {
  readonly api: number;
  readonly gateway: number;
}

const PAGE = readFileSync(new URL("../../../../docs/server.md", import.meta.url), "utf8");
/** The servers that the page names. */
const EXAMPLE = /( *server )10\.0\.0\.\d+:\d+( .*;)\n(?:.*10\.0\.0\..*\n)*/;

function blockOf(name: string): string {
  const block = new RegExp(`<!-- ${name} -->\\s+\`\`\`nginx\\n([\\s\\S]+?)\\n\`\`\``).exec(PAGE)?.[1];
  if (block === undefined) throw new Error(`docs/server.md has no block ${name}`);
  return block;
}

/** The page's upstream block with these servers. */
function upstreamOf(name: string, ports: readonly number[]): string {
  const block = blockOf("nginx servers");
  if (!EXAMPLE.test(block)) throw new Error("docs/server.md names no server");
  const lines = (_: string, before: string, after: string) =>
    ports.map((port) => `${before}127.0.0.1:${port}${after}\n`).join("");
  return block.replace(EXAMPLE, lines).replace("upstream gateways", `upstream ${name}`);
}

export async function startBalancer(servers: readonly ServerPorts[]): Promise<Balancer> {
  const apiPort = await freePort();
  const server = await startServer({
    name: "nginx",
    user: "www-data",
    ready: /start worker process \d+/,
    url: ({ port }) => `http://127.0.0.1:${port}`,
    command: ({ folder }) => [find("nginx"), "-p", folder, "-c", join(folder, "nginx.conf"), "-e", "stderr"],
    async prepare({ folder, port }) {
      const location = blockOf("nginx location");
      const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
      const text = `
daemon off; worker_processes 1; pid ${join(folder, "nginx.pid")}; error_log stderr notice;
events { worker_connections 1024; }
http {
access_log off;
${temporary.map((one) => `${one}_temp_path ${join(folder, one)};`).join(" ")}
${upstreamOf(
  "gateways",
  servers.map(({ gateway }) => gateway),
)}
${upstreamOf(
  "apis",
  servers.map(({ api }) => api),
)}
server { listen 127.0.0.1:${port}; ${location} }
server { listen 127.0.0.1:${apiPort}; ${location.replace("http://gateways", "http://apis")} }
}`;
      await writeShared(join(folder, "nginx.conf"), text);
    },
  });
  return { server, gatewayUrl: server.url, apiUrl: `http://127.0.0.1:${apiPort}` };
}
