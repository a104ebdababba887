/** A small JSON application behind each framework, bare and with each layer in front of its handler. */

/**
 * A layer in front of the handler, with the best settings that it documents for this job.
 *
 * @typedef {object} Layer
 * @property {string} name
 * @property {string} file under `libraries/`; it exports `create({ framework, store, target, capacity })`, which resolves
 * to `{ layer, isAnswered?, close() }`: what the framework is handed and, where a handler has to ask, whether the
 * request is answered already. `capacity` is how many keys it will be given.
 * @property {readonly string[]} packages whose versions matter
 * @property {string} settings
 * @property {number} [keys] fewer than the others are given
 */

/** @typedef {{ runs: number, keys: number, warmup: number, alone: number, connections: number }} Size */

/**
 * One framework on one store.
 *
 * @typedef {object} Table
 * @property {"express" | "fastify" | "hono"} framework
 * @property {"memory" | "redis"} store
 * @property {string} title
 * @property {import("../servers.js").Servers} servers
 * @property {import("../report.js").Meant} ratioMeant ours to the bare application
 * @property {readonly Layer[]} peers
 * @property {Size} size
 */

/** @type {Layer} */
export const bare = {
  name: "bare",
  file: "http-bare",
  packages: [],
  settings: "nothing in front of the handler",
};

/** @type {Layer} */
export const ours = {
  name: "nevertwice",
  file: "http-nevertwice",
  packages: ["nevertwice", "ioredis"],
  settings:
    "`idempotency(guard, { scope })`, the scope from the `Authorization` header, behind the body parser; `memoryStore()` or `redisStore({ client })` on one connection; every policy at its default",
};

/** @type {Layer} */
const steadykey = {
  name: "steadykey",
  file: "http-steadykey",
  packages: ["steadykey", "redis"],
  settings:
    "`createIdempotencyMiddleware(manager)` behind the body parser on Express, `fastifyIdempotency(manager)` on Fastify; `InMemoryIdempotencyStore` or `RedisIdempotencyStore` on one connection, `defaultTtlSeconds` 24 h, else its defaults. On Express it sends the answer before it stores it",
};

/** @type {Layer} */
const expressIdempotency = {
  name: "express-idempotency",
  file: "http-express-idempotency",
  packages: ["express-idempotency"],
  settings:
    "`idempotency()` behind the body parser, its own store in memory; the handler asks `isHit`. Its store looks through all its keys for every request, so it gets fewer keys than the others",
  keys: 4_000,
};

/** @type {Size} */
const SIZE = { runs: 5, keys: 20_000, warmup: 20_000, alone: 2_000, connections: 64 };

/** For frameworks that take little time themselves, of which any layer is a larger part. */
const FAST = { memory: 0.6, redis: { first: 0.5, replay: 0.75 } };

/**
 * @param {Table["framework"]} framework
 * @param {string} name
 * @param {Record<"memory" | "redis", import("../report.js").Meant>} meant
 * @param {{ memory: readonly Layer[], redis: readonly Layer[] }} peers
 * @returns {readonly Table[]}
 */
function inMemoryAndOnRedis(framework, name, meant, { memory, redis }) {
  const both = { framework, size: SIZE };
  return [
    {
      ...both,
      store: "memory",
      title: `${name}, memory`,
      servers: {},
      peers: memory,
      ratioMeant: meant.memory,
    },
    {
      ...both,
      store: "redis",
      title: `${name}, Redis`,
      servers: { redis: { appendonly: "no" } },
      peers: redis,
      ratioMeant: meant.redis,
    },
  ];
}

export const http = {
  name: "http",
  title: "Behind HTTP",
  usesLoad: true,
  frameworks: ["express", "fastify", "hono", "@hono/node-server"],
  quick: { runs: 1, keys: 2_000, warmup: 1_000 },
  tables: [
    ...inMemoryAndOnRedis(
      "express",
      "Express 5",
      { memory: 0.85, redis: 0.85 },
      {
        memory: [steadykey, expressIdempotency],
        redis: [steadykey],
      },
    ),
    ...inMemoryAndOnRedis("fastify", "Fastify", FAST, { memory: [steadykey], redis: [steadykey] }),
    ...inMemoryAndOnRedis("hono", "Hono", FAST, { memory: [], redis: [] }),
  ],
};
