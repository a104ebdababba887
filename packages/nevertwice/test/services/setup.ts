/**
 * Starts the servers that the tests share, and ends them after the last test. Vitest calls it once for each project
 * that names it, all in one process; the projects use one set of servers.
 */
import type { TestProject } from "vitest/node";
import { startDynalite } from "./dynalite.ts";
import { startEtcd } from "./etcd.ts";
import { startMariadb } from "./mariadb.ts";
import { startNats } from "./nats.ts";
import { installMissing, NotInstalled, type Program } from "./packages.ts";
import { startPgbouncer } from "./pgbouncer.ts";
import { startPostgres } from "./postgres.ts";
import { startRabbitmq } from "./rabbitmq.ts";
import { startRedis } from "./redis.ts";
import { startRedisCluster } from "./redis-cluster.ts";
import type { Server } from "./server.ts";
import { SERVICES, type ServiceName, type Services } from "./services.ts";

type Shared = Pick<Server, "url" | "stop">;

const PROGRAMS: Readonly<Record<ServiceName, readonly Program[]>> = {
  redis: ["redis-server"],
  redisCluster: ["redis-server", "redis-cli"],
  postgres: ["initdb", "postgres"],
  pgbouncer: ["pgbouncer"],
  mysql: ["mariadb-install-db", "mariadbd"],
  dynamodb: [],
  rabbitmq: ["rabbitmq-server", "epmd"],
  nats: ["nats-server"],
  etcd: ["etcd"],
};

type UrlOf = (name: ServiceName) => Promise<string>;

const START: Readonly<Record<ServiceName, (urlOf: UrlOf) => Promise<Shared>>> = {
  redis: () => startRedis(),
  redisCluster: () => startRedisCluster(),
  postgres: () => startPostgres(),
  pgbouncer: async (urlOf) => startPgbouncer({ postgresUrl: await urlOf("postgres") }),
  mysql: () => startMariadb(),
  dynamodb: () => startDynalite(),
  rabbitmq: () => startRabbitmq(),
  nats: () => startNats(),
  etcd: () => startEtcd(),
};

interface SharedServers {
  readonly services: Services;
  stop(): Promise<void>;
}

/** Vitest loads this module anew for each project, so that a variable of the module would not be shared. */
const shared = globalThis as { nevertwiceServers?: Promise<SharedServers>; nevertwiceProjects?: number };

export async function setup({ provide }: Pick<TestProject, "provide">): Promise<() => Promise<void>> {
  shared.nevertwiceProjects = (shared.nevertwiceProjects ?? 0) + 1;
  shared.nevertwiceServers ??= startServers();
  const { services, stop } = await shared.nevertwiceServers;
  provide("services", services);
  return async () => {
    shared.nevertwiceProjects = (shared.nevertwiceProjects ?? 1) - 1;
    if (shared.nevertwiceProjects === 0) await stop();
  };
}

async function startServers(): Promise<SharedServers> {
  const names = Object.keys(SERVICES) as ServiceName[];
  const ours = names.filter((name) => !process.env[SERVICES[name]]);
  await installMissing([...ours.flatMap((name) => PROGRAMS[name]), "cc", "kcat", "openssl"]);

  const started: Shared[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(started.map((server) => server.stop()));
  };
  const start = async (name: ServiceName): Promise<string> => {
    const server = await START[name](urlOf);
    started.push(server);
    return server.url;
  };
  const urls = new Map<ServiceName, Promise<string>>();
  const urlOf: UrlOf = (name) => {
    const known = urls.get(name);
    if (known !== undefined) return known;
    const url = process.env[SERVICES[name]];
    const coming = url ? Promise.resolve(url) : start(name);
    urls.set(name, coming);
    return coming;
  };
  const settle = async (name: ServiceName): Promise<Services[ServiceName]> => {
    try {
      return await urlOf(name);
    } catch (error) {
      if (error instanceof NotInstalled) return { skipped: error.message };
      throw error;
    }
  };
  const answers = await Promise.allSettled(names.map(async (name) => [name, await settle(name)]));
  const failed = answers.find((answer) => answer.status === "rejected");
  if (failed !== undefined) {
    await stop();
    throw failed.reason;
  }
  const services = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
  return { services: Object.fromEntries(services), stop };
}
