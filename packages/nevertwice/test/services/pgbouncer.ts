/** A private PgBouncer in transaction mode, in front of a Postgres. */
import { join } from "node:path";
import { find } from "./packages.ts";
import { type Server, type Settings, startServer, writeShared } from "./server.ts";

const SETTINGS = { pool_mode: "transaction", max_client_conn: 200, default_pool_size: 20 };

/** `settings` are those of its file, under [pgbouncer]: `{ pool_mode: "session" }`. */
export async function startPgbouncer(given: { postgresUrl: string; settings?: Settings }): Promise<Server> {
  const postgres = new URL(given.postgresUrl);
  const { username, password, pathname } = postgres;
  const pgbouncer = find("pgbouncer");
  return startServer({
    name: "pgbouncer",
    user: "postgres",
    ready: /listening on 127\.0\.0\.1/,
    // Its SIGINT waits for clients; its SIGTERM does not.
    stopSignal: "SIGTERM",
    url: ({ port }) => `postgres://${username}@127.0.0.1:${port}${pathname}`,
    command: ({ folder }) => [pgbouncer, join(folder, "pgbouncer.ini")],
    async prepare({ folder, port }) {
      const users = await writeShared(join(folder, "users.txt"), `"${username}" "${password}"\n`);
      const settings = {
        listen_addr: "127.0.0.1",
        listen_port: port,
        unix_socket_dir: folder,
        auth_type: "trust",
        auth_file: users,
        ...SETTINGS,
        ...given.settings,
      };
      const lines = [
        "[databases]",
        `* = host=${postgres.hostname} port=${postgres.port || 5432}`,
        "[pgbouncer]",
        ...Object.entries(settings).map(([name, value]) => `${name} = ${value}`),
      ];
      await writeShared(join(folder, "pgbouncer.ini"), `${lines.join("\n")}\n`);
    },
  });
}
