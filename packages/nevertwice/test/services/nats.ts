/** A private NATS server with JetStream. */
import { join } from "node:path";
import { find } from "./packages.ts";
import { type Server, startServer } from "./server.ts";

export async function startNats(): Promise<Server> {
  const server = find("nats-server");
  return startServer({
    name: "nats",
    ready: /Server is ready/,
    url: ({ port }) => `nats://127.0.0.1:${port}`,
    command: ({ folder, port }) => [
      server,
      ...["--addr", "127.0.0.1", "--port", String(port)],
      ...["--jetstream", "--store_dir", join(folder, "data")],
    ],
  });
}
