/**
 * Starts a private Postgres. Any client on the loopback address may log in as `nevertwice`, its superuser; the user
 * `guarded` needs the password `secret`.
 */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { find } from "./packages.ts";
import { type Server, type StartOptions, startServer, writeShared } from "./server.ts";

const SETTINGS = { max_connections: 200, listen_addresses: "127.0.0.1" };

const ROLES = "CREATE ROLE guarded LOGIN PASSWORD 'secret';\n";
const ACCESS = `
host all guarded 127.0.0.1/32 scram-sha-256
host all,replication all 127.0.0.1/32 trust
local all all trust
`;

/** `settings` are those of postgresql.conf: `{ fsync: "off" }`. `fsync` is on by default. */
export async function startPostgres({ settings, clock, env, onDisk }: StartOptions = {}): Promise<Server> {
  const given = Object.entries({ ...SETTINGS, ...settings });
  const initdb = find("initdb");
  const postgres = find("postgres");
  return startServer({
    name: "postgres",
    user: "postgres",
    clock,
    env,
    onDisk,
    ready: /database system is ready to accept connections/,
    // Fast shutdown: it does not wait for clients to leave.
    stopSignal: "SIGINT",
    url: ({ port }) => `postgres://nevertwice@127.0.0.1:${port}/postgres`,
    command: ({ folder, port }) => [
      postgres,
      ...["-D", join(folder, "data"), "-p", String(port), "-k", folder],
      ...given.flatMap(([name, value]) => ["-c", `${name}=${value}`]),
    ],
    async prepare({ folder }, run) {
      const data = join(folder, "data");
      const options = ["--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"];
      await run(initdb, `--pgdata=${data}`, "--username=nevertwice", ...options);
      const roles = await writeShared(join(folder, "roles.sql"), ROLES);
      await run("sh", "-c", `"$1" --single -D "$2" postgres < "$3"`, "sh", postgres, data, roles);
      await writeFile(join(data, "pg_hba.conf"), ACCESS);
    },
  });
}
