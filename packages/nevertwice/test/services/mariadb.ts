/** A private MariaDB with a database and a user for the tests. */
import { join } from "node:path";
import { find } from "./packages.ts";
import { type Server, type StartOptions, startServer, writeShared } from "./server.ts";

const SETTINGS = { max_connections: 200 };

/** Read at every start, before the first connection is taken. */
const ACCOUNTS = `
CREATE DATABASE IF NOT EXISTS nevertwice CHARACTER SET utf8mb4;
CREATE USER IF NOT EXISTS 'nevertwice'@'127.0.0.1' IDENTIFIED BY 'secret';
GRANT ALL ON *.* TO 'nevertwice'@'127.0.0.1' WITH GRANT OPTION;
`;

interface MariadbOptions extends StartOptions {
  readonly readyMs?: number;
  /** Options of this start alone. */
  moreOptions?(): readonly string[];
}

/** `settings` are those of my.cnf, under [mariadbd]: `{ "innodb-flush-log-at-trx-commit": 2 }`. */
export async function startMariadb({
  settings,
  clock,
  env,
  onDisk,
  readyMs,
  moreOptions = () => [],
}: MariadbOptions = {}): Promise<Server> {
  const given = Object.entries({ ...SETTINGS, ...settings });
  const install = find("mariadb-install-db");
  const mariadbd = find("mariadbd");
  return startServer({
    name: "mariadb",
    user: "mysql",
    clock,
    env,
    onDisk,
    ...(readyMs !== undefined && { readyMs }),
    ready: /ready for connections/,
    url: ({ port }) => `mysql://nevertwice:secret@127.0.0.1:${port}/nevertwice`,
    command: ({ folder, port }) => [
      mariadbd,
      "--no-defaults",
      `--datadir=${join(folder, "data")}`,
      `--tmpdir=${folder}`,
      `--socket=${join(folder, "socket")}`,
      `--pid-file=${join(folder, "pid")}`,
      `--init-file=${join(folder, "accounts.sql")}`,
      `--port=${port}`,
      "--bind-address=127.0.0.1",
      "--skip-name-resolve",
      ...given.map(([name, value]) => `--${name}=${value}`),
      ...moreOptions(),
    ],
    async prepare({ folder }, run) {
      await writeShared(join(folder, "accounts.sql"), ACCOUNTS);
      const options = ["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal"];
      // A server removes files from its temporary folder that look like its own leftovers, so each has its own folder.
      await run(install, ...options, `--datadir=${join(folder, "data")}`, `--tmpdir=${folder}`);
    },
  });
}
