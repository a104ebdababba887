/** Starts a private nginx in front of another server. It adds to each request how it read the path. */
import { join } from "node:path";
import { find } from "./packages.ts";
import { type Server, startServer, writeShared } from "./server.ts";

export interface NginxOptions {
  /** Where it sends requests on, on this machine. */
  readonly upstreamPort: number;
  /** Patterns of paths: a request whose path fits one, as nginx reads it, goes on with its name in `X-Location`. */
  readonly locations: Readonly<Record<string, string>>;
  /** Whether it reuses its connections to the server. It treats unrequested bytes of a server as its next answer. */
  readonly keepsConnections: boolean;
}

export async function startNginx({
  upstreamPort,
  locations,
  keepsConnections,
}: NginxOptions): Promise<Server> {
  const nginx = find("nginx");
  const proxying = `${PROXYING} proxy_set_header Connection "${keepsConnections ? "" : "close"}";`;
  return startServer({
    name: "nginx",
    // Its workers would run as this user anyway, and could not write to a folder of root.
    user: "www-data",
    ready: /start worker process \d+/,
    url: ({ port }) => `http://127.0.0.1:${port}`,
    command: ({ folder }) => [nginx, "-p", folder, "-c", join(folder, "nginx.conf"), "-e", "stderr"],
    async prepare({ folder, port }) {
      const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
      const places = Object.entries(locations).map(
        ([name, pattern]) =>
          `location ~* "${pattern}" { proxy_set_header X-Location ${name}; ${proxying} proxy_pass http://behind; }`,
      );
      const text = `
        daemon off; worker_processes 1; pid ${join(folder, "nginx.pid")}; error_log stderr notice;
        events { worker_connections 4096; }
        http {
          access_log off; client_max_body_size 0; large_client_header_buffers 8 64k; keepalive_requests 1000000;
          ${temporary.map((name) => `${name}_temp_path ${join(folder, name)};`).join(" ")}
          upstream behind { server 127.0.0.1:${upstreamPort}; ${keepsConnections ? "keepalive 64;" : ""} }
          server {
            listen 127.0.0.1:${port};
            ${places.join("\n            ")}
            location / { ${proxying} proxy_pass http://behind; }
          }
        }`;
      await writeShared(join(folder, "nginx.conf"), text);
    },
  });
}

/** Each request is sent on once. */
const PROXYING = "proxy_http_version 1.1; proxy_set_header Host $host; proxy_next_upstream off;";
