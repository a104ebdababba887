/** How each store is backed up while it is in use, and restored elsewhere: the commands of docs/backup.md. */
import { execFile } from "node:child_process";
import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { TestContext } from "vitest";
import { scratchFolder } from "../scratch-folder.ts";
import { find } from "../services/packages.ts";
import { startRedis } from "../services/redis.ts";
import { startFor } from "../services/services.ts";
import { MYSQL, POSTGRES, SQLITE, type Subject } from "./subjects.ts";

export interface Backup {
  readonly name: string;
  /** What the doctor names, because a restore from this backup repeats what was completed after it. */
  readonly setting: string;
  start(context: TestContext): Promise<{
    readonly url: string;
    backUp(): Promise<unknown>;
    /** The URL of the restored store. */
    restore(): Promise<string>;
  }>;
}

const run = promisify(execFile);

/** Runs in a process of its own, as a cron job would. It uses the SQLite of the application, not the system's older one. */
const VACUUM_INTO = `import { DatabaseSync } from "@photostructure/sqlite";
  const [file, copy] = process.argv.slice(1);
  const database = new DatabaseSync(file, { readOnly: true, timeout: 10_000 });
  database.prepare("VACUUM INTO ?").run(copy);
  database.close();`;

const SQLITE_BACKUP: Backup = {
  name: SQLITE.name,
  setting: "none of SQLite",
  async start(context) {
    const url = await SQLITE.create(context);
    const copy = join(await scratchFolder(context), "copy.db");
    const file = url.slice("sqlite:".length);
    return {
      url,
      backUp: () => run(process.execPath, ["--input-type=module", "-e", VACUUM_INTO, file, copy]),
      async restore() {
        const restored = join(await scratchFolder(context), "records.db");
        await copyFile(copy, restored);
        return `sqlite:${restored}`;
      },
    };
  },
};

/** A backup by a program of the database that writes a file, which another one reads into an empty database. */
function dumped(
  subject: Subject,
  setting: string,
  dump: (url: string, file: string) => Promise<unknown>,
  load: (url: string, file: string) => Promise<unknown>,
): Backup {
  return {
    name: subject.name,
    setting,
    async start(context) {
      const url = await subject.create(context);
      const file = join(await scratchFolder(context), "dump");
      return {
        url,
        backUp: () => dump(url, file),
        async restore() {
          const empty = await subject.create(context);
          await load(empty, file);
          return empty;
        },
      };
    },
  };
}

const POSTGRES_BACKUP = dumped(
  POSTGRES,
  "archive_mode = on",
  (url, file) => run(find("pg_dump"), ["--format=custom", `--file=${file}`, url]),
  (url, file) => run(find("pg_restore"), ["--exit-on-error", `--dbname=${url}`, file]),
);

function mysqlOptions(url: string): readonly string[] {
  const { hostname, port, username, password } = new URL(url);
  return ["--no-defaults", `-h${hostname}`, `-P${port}`, `-u${username}`, `-p${password}`];
}

const databaseOf = (url: string) => new URL(url).pathname.slice(1);

const MYSQL_BACKUP = dumped(
  MYSQL,
  "log_bin and sync_binlog = 1",
  (url, file) =>
    run(find("mariadb-dump"), [
      ...mysqlOptions(url),
      "--single-transaction",
      `--result-file=${file}`,
      databaseOf(url),
    ]),
  (url, file) => run(find("mariadb"), [...mysqlOptions(url), databaseOf(url), "-e", `source ${file}`]),
);

const REDIS_BACKUP: Backup = {
  name: "Redis",
  setting: "appendonly yes and appendfsync always",
  async start(context) {
    const server = await startFor(context, startRedis);
    const copy = join(await scratchFolder(context), "dump.rdb");
    return {
      url: server.url,
      async backUp() {
        await run(find("redis-cli"), ["-u", server.url, "--rdb", copy]);
      },
      async restore() {
        const folder = await scratchFolder(context);
        await copyFile(copy, join(folder, "dump.rdb"));
        return (await startFor(context, () => startRedis({ settings: { dir: folder } }))).url;
      },
    };
  },
};

export const BACKUPS: readonly Backup[] = [SQLITE_BACKUP, POSTGRES_BACKUP, MYSQL_BACKUP, REDIS_BACKUP];
