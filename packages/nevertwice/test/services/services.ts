/** The servers that all tests share. A test whose server is not installed is skipped. */
import { inject, type TestContext } from "vitest";
import { NotInstalled } from "./packages.ts";
import type { Server } from "./server.ts";

/** The environment variables whose URLs are used instead of starting a server. */
export const SERVICES = {
  redis: "NEVERTWICE_TEST_REDIS_URL",
  redisCluster: "NEVERTWICE_TEST_REDIS_CLUSTER_URL",
  postgres: "NEVERTWICE_TEST_POSTGRES_URL",
  pgbouncer: "NEVERTWICE_TEST_PGBOUNCER_URL",
  mysql: "NEVERTWICE_TEST_MYSQL_URL",
  dynamodb: "NEVERTWICE_TEST_DYNAMODB_URL",
  rabbitmq: "NEVERTWICE_TEST_RABBITMQ_URL",
  nats: "NEVERTWICE_TEST_NATS_URL",
  etcd: "NEVERTWICE_TEST_ETCD_URL",
} as const;

export type ServiceName = keyof typeof SERVICES;

/** A URL, or why there is none. */
export type Services = Readonly<Record<ServiceName, string | { readonly skipped: string }>>;

declare module "vitest" {
  export interface ProvidedContext {
    services: Services;
  }
}

/** The URL of a shared server. Without it the test is skipped, and says why. */
export function sharedUrl({ skip }: Pick<TestContext, "skip">, name: ServiceName): string {
  const service = inject("services")[name];
  return typeof service === "string" ? service : skip(service.skipped);
}

/** A server for one test alone, stopped when the test ends. The test is skipped where it is not installed. */
export async function startFor<Started extends Pick<Server, "stop">>(
  { skip, onTestFinished }: Pick<TestContext, "skip" | "onTestFinished">,
  start: () => Promise<Started>,
): Promise<Started> {
  try {
    const server = await start();
    onTestFinished(() => server.stop());
    return server;
  } catch (error) {
    if (error instanceof NotInstalled) return skip(error.message);
    throw error;
  }
}
