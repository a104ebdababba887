/** A hot standby of a private Postgres: a replica that answers reads. */
import { realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { find } from "../../services/packages.ts";
import { type Server, startServer } from "../../services/server.ts";

export function startStandby(primary: Server): Promise<Server> {
  const basebackup = join(dirname(realpathSync(find("initdb"))), "pg_basebackup");
  return startServer({
    name: "standby",
    user: "postgres",
    ready: /database system is ready to accept read-only connections/,
    stopSignal: "SIGINT",
    url: ({ port }) => `postgres://nevertwice@127.0.0.1:${port}/postgres`,
    command: ({ folder, port }) => [
      find("postgres"),
      ...["-D", join(folder, "data"), "-p", String(port), "-k", folder],
      ...["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200"],
    ],
    async prepare({ folder }, run) {
      const from = ["-h", "127.0.0.1", "-p", String(primary.port), "-U", "nevertwice"];
      await run(basebackup, ...from, "-D", join(folder, "data"), "-R", "--checkpoint=fast", "--no-sync");
    },
  });
}
