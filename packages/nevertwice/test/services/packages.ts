/** Finds the programs that the tests run servers with, and installs those that are missing where that is possible. */
import { execFile } from "node:child_process";
import { accessSync, constants, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";

/** The Debian package of each program. */
const PACKAGES = {
  "redis-server": "redis-server",
  "redis-cli": "redis-tools",
  initdb: "postgresql",
  postgres: "postgresql",
  pg_dump: "postgresql",
  pg_restore: "postgresql",
  pgbouncer: "pgbouncer",
  mariadbd: "mariadb-server",
  "mariadb-install-db": "mariadb-server",
  "mariadb-dump": "mariadb-client",
  mariadb: "mariadb-client",
  cc: "gcc libc6-dev",
  "rabbitmq-server": "rabbitmq-server",
  epmd: "erlang-base",
  "nats-server": "nats-server",
  kcat: "kcat",
  chromium: "chromium",
  wrk: "wrk",
  nginx: "nginx-light",
  haproxy: "haproxy",
  varnishd: "varnish",
  spin: "spin",
  openssl: "openssl",
  etcd: "etcd-server",
  prometheus: "prometheus",
  promtool: "prometheus",
  rsync: "rsync lsof galera-4",
  patroni: "patroni python3-etcd",
  unshare: "util-linux",
  setpriv: "util-linux",
} as const;

export type Program = keyof typeof PACKAGES;

export class NotInstalled extends Error {
  constructor(program: Program) {
    super(`${program} is not installed: apt-get install ${PACKAGES[program]}`);
  }
}

const POSTGRES_FOLDER = "/usr/lib/postgresql";

/** The path of a program, or `NotInstalled`. */
export function find(program: Program): string {
  const path = locate(program);
  if (path === undefined) throw new NotInstalled(program);
  return path;
}

/** Servers are often outside of the PATH. */
function locate(program: Program): string | undefined {
  const named = (process.env.PATH ?? "").split(delimiter).filter(Boolean);
  const folders = [...named, "/usr/sbin", "/usr/local/sbin", ...postgresFolders()];
  return folders.map((folder) => join(folder, program)).find(isExecutable);
}

/** One folder for each version, newest first. */
function postgresFolders(): string[] {
  try {
    const versions = readdirSync(POSTGRES_FOLDER).sort((a, b) => Number(b) - Number(a));
    return versions.map((version) => join(POSTGRES_FOLDER, version, "bin"));
  } catch {
    return [];
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * Installs the missing programs, as root on a system with apt. Elsewhere the server that needs a program reports that it
 * is missing.
 */
export async function installMissing(programs: readonly Program[]): Promise<void> {
  const missing = programs.filter((program) => locate(program) === undefined);
  if (missing.length === 0 || process.getuid?.() !== 0) return;
  const names = [...new Set(missing.flatMap((program) => PACKAGES[program].split(" ")))];
  console.log(`Installing ${names.join(", ")} for the tests.`);
  // At run level 1 the scripts of the packages start no service. The tests start their own servers.
  const env = { ...process.env, RUNLEVEL: "1", DEBIAN_FRONTEND: "noninteractive" };
  // Two test runs may install at once, and apt-get does not wait for the lock of its lists.
  const lock = join("/", "tmp", "nevertwice-apt.lock");
  const aptGet = (...args: string[]) =>
    promisify(execFile)("flock", [lock, "apt-get", ...args], { env, maxBuffer: 64 << 20 });
  try {
    await aptGet("update", "-qq");
    await aptGet("install", "-y", "-o", "DPkg::Lock::Timeout=120", "--no-install-recommends", ...names);
  } catch (error) {
    console.error(`apt-get failed: ${error instanceof Error ? error.message : String(error)}`);
  }
}
