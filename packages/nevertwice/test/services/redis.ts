/** A private Redis that keeps nothing on disk unless its settings say so. */
import { find } from "./packages.ts";
import { type Server, type StartOptions, startServer } from "./server.ts";

const SETTINGS = { save: "", appendonly: "no" };

/** `settings` are directives of redis.conf: `{ appendonly: "yes", "maxmemory-policy": "allkeys-lru" }`. */
export async function startRedis({ settings, clock, env }: StartOptions = {}): Promise<Server> {
  const given = Object.entries({ ...SETTINGS, ...settings });
  const server = find("redis-server");
  return startServer({
    name: "redis",
    clock,
    env,
    ready: /Ready to accept connections/,
    url: ({ port }) => `redis://127.0.0.1:${port}`,
    command: ({ folder, port }) => [
      server,
      ...["--port", String(port), "--bind", "127.0.0.1", "--dir", folder],
      ...given.flatMap(([name, value]) => [`--${name}`, String(value)]),
    ],
  });
}
