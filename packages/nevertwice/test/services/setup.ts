/** Starts the servers that the tests of the stores share, once for a whole run, and ends them after it. */
import type { TestProject } from "vitest/node";
import { startDynalite } from "./dynalite.ts";
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
};

export async function setup({ provide }: Pick<TestProject, "provide">): Promise<() => Promise<void>> {
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
  provide("services", Object.fromEntries(services));
  return stop;
}
