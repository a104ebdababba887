/** Clients of every kind that the store accepts, closed at the end of the test file. */
import { Cluster, Redis } from "ioredis";
import { createClient, createCluster } from "redis";
import { afterAll } from "vitest";

interface IoredisOptions {
  readonly keyPrefix?: string;
  readonly db?: number;
  readonly enableAutoPipelining?: boolean;
  readonly enableReadyCheck?: boolean;
  readonly disableClientInfo?: boolean;
  readonly protocol?: 2;
  readonly maxRetriesPerRequest?: number;
}

const ends: (() => unknown)[] = [];
afterAll(() => Promise.all(ends.map((end) => end())));

/** Does not print the errors that a test expects. */
const quiet = (): void => {};

export function ioredis(url: string, options: IoredisOptions = {}): Redis {
  const client = new Redis(url, options);
  client.on("error", quiet);
  ends.push(() => client.disconnect());
  return client;
}

export function ioredisCluster(
  url: string,
  options: NonNullable<ConstructorParameters<typeof Cluster>[1]> = {},
): Cluster {
  const client = new Cluster([url], options);
  client.on("error", quiet);
  ends.push(() => client.disconnect());
  return client;
}

export async function nodeRedis(
  url: string,
  options: { readonly keyPrefix?: string; readonly commandOptions?: { readonly timeout: number } } = {},
) {
  const client = createClient({ url, socket: { reconnectStrategy: 50 }, ...options });
  client.on("error", quiet);
  ends.push(() => client.destroy());
  await client.connect();
  return client;
}

interface NodeRedisClusterOptions {
  readonly useReplicas?: boolean;
  readonly defaults?: { readonly username: string; readonly password: string };
}

export async function nodeRedisCluster(url: string, options: NodeRedisClusterOptions = {}) {
  const client = createCluster({ rootNodes: [{ url }], ...options });
  client.on("error", quiet);
  ends.push(() => client.destroy());
  await client.connect();
  return client;
}
