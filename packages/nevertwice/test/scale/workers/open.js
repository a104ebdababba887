/** Opens a store of the built library by its URL: the same way in the test and in its processes. */
import { openStore } from "../../../dist/stores/open.js";

/**
 * @param {string} url
 * @param {{ migrate?: boolean }} [options]
 * @returns {Promise<import("../../../src/core/store.ts").Store>}
 */
export async function open(url, options) {
  if (url.startsWith("dynamodb:")) return openDynamodb(new URL(url));
  if (url.startsWith("postgres.js:")) return openPostgresJs(url.replace("postgres.js:", "postgres:"));
  if (url.startsWith("sentinel:")) return openSentinel(JSON.parse(url.slice("sentinel:".length)));
  if (url.startsWith("cluster:")) return openCluster(JSON.parse(url.slice("cluster:".length)));
  return openStore(url, options);
}

/**
 * A Redis Cluster whose nodes announce other addresses than the ones that clients use.
 *
 * @param {{ ports: readonly number[], addresses: Readonly<Record<string, { host: string, port: number }>> }} place
 */
async function openCluster({ ports, addresses }) {
  const { redisStore } = await import("../../../dist/stores/redis.js");
  const { Cluster } = await import("ioredis");
  const nodes = ports.map((port) => ({ host: "127.0.0.1", port }));
  const client = new Cluster(nodes, {
    natMap: addresses,
    redisOptions: { socketTimeout: 5_000, connectTimeout: 2_000 },
  });
  const store = redisStore({ client });
  return { ...store, close: () => store.close().then(() => client.disconnect()) };
}

/**
 * @typedef {object} SentinelPlace
 * @property {"ioredis" | "redis"} driver
 * @property {string} name
 * @property {readonly number[]} sentinels their ports
 * @property {Readonly<Record<string, { host: string, port: number }>>} addresses what clients use instead of what Sentinel tells
 * @property {number} replicas
 */

/** @param {SentinelPlace} place */
async function openSentinel({ driver, name, sentinels, addresses, replicas }) {
  const { redisStore } = await import("../../../dist/stores/redis.js");
  const nodes = sentinels.map((port) => ({ host: "127.0.0.1", port }));
  if (driver === "ioredis") {
    const { Redis } = await import("ioredis");
    const client = new Redis({
      ...{ sentinels: nodes, name, natMap: addresses },
      ...{ socketTimeout: 5_000, connectTimeout: 2_000 },
      sentinelRetryStrategy: () => 100,
      retryStrategy: () => 100,
    });
    const store = redisStore({ client, replicas });
    return { ...store, close: () => store.close().then(() => client.disconnect()) };
  }
  const { createSentinel } = await import("redis");
  const client = createSentinel({
    ...{ name, sentinelRootNodes: nodes, nodeAddressMap: addresses },
    nodeClientOptions: { socket: { connectTimeout: 2_000, socketTimeout: 5_000 } },
  });
  client.on("error", () => {});
  await client.connect();
  const store = redisStore({ client });
  return { ...store, close: () => store.close().then(() => client.destroy()) };
}

/**
 * Several hosts, of which the driver chooses the primary at each connection. It keeps a connection that it believes to be open
 * until the operating system ends it, unless it gets a limit.
 *
 * @param {string} url
 */
async function openPostgresJs(url) {
  const { default: postgres } = await import("postgres");
  const { postgresStore } = await import("../../../dist/stores/postgres.js");
  const client = postgres(url, { max: 10, connect_timeout: 5, onnotice: () => {} });
  const store = postgresStore({ client, subscriber: client });
  const close = async () => {
    await store.close();
    await client.end({ timeout: 1 });
  };
  return Object.defineProperties(/** @type {import("../../../src/core/store.ts").Store} */ ({}), {
    ...Object.getOwnPropertyDescriptors(store),
    close: { value: close, enumerable: true },
  });
}

/**
 * All callers are on one machine and share its clock. So there is no margin for different clocks: takeovers would wait for it.
 *
 * @param {URL} url
 */
async function openDynamodb({ host, pathname, searchParams }) {
  const { DynamoDBClient } = await import("@aws-sdk/client-dynamodb");
  const { DynamoDBDocumentClient } = await import("@aws-sdk/lib-dynamodb");
  const { dynamodbStore } = await import("../../../dist/stores/dynamodb.js");
  const client = new DynamoDBClient({
    region: host,
    endpoint: searchParams.get("endpoint") ?? "",
    credentials: { accessKeyId: "test", secretAccessKey: "test" },
  });
  const store = dynamodbStore({
    client: DynamoDBDocumentClient.from(client),
    table: pathname.slice(1),
    clockSkewMs: 0,
  });
  const close = async () => {
    await store.close();
    client.destroy();
  };
  return { ...store, close };
}
