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
 * @property {number} ratioMeant ours to the bare application
 * @property {readonly Layer[]} peers
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
    "`createIdempotencyMiddleware(manager)` behind the body parser on Express, `fastifyIdempotency(manager)` on Fastify; `InMemoryIdempotencyStore` or `RedisIdempotencyStore` on one connection, `defaultTtlSeconds` 24 h, else its defaults. On Express it sends its answer first and keeps it afterwards",
};

/** @type {Layer} */
const expressIdempotency = {
  name: "express-idempotency",
  file: "http-express-idempotency",
  packages: ["express-idempotency"],
  settings:
    "`idempotency()` behind the body parser, its own store in memory; the handler asks `isHit`. Its store looks through all its keys for every request, so it is given fewer of them than the others",
  keys: 4_000,
};

export const http = {
  name: "http",
  title: "Behind HTTP",
  frameworks: ["express", "fastify", "hono", "@hono/node-server"],
  /** Settings of the server, where there is one. */
  settings: { appendonly: "no" },
  /** @type {Size} */
  size: { runs: 5, keys: 20_000, warmup: 20_000, alone: 2_000, connections: 64 },
  /** @type {readonly Table[]} */
  tables: [
    {
      framework: "express",
      store: "memory",
      title: "Express 5, memory",
      ratioMeant: 0.85,
      peers: [steadykey, expressIdempotency],
    },
    {
      framework: "express",
      store: "redis",
      title: "Express 5, Redis",
      ratioMeant: 0.85,
      peers: [steadykey],
    },
    { framework: "fastify", store: "memory", title: "Fastify, memory", ratioMeant: 0.6, peers: [steadykey] },
    { framework: "fastify", store: "redis", title: "Fastify, Redis", ratioMeant: 0.6, peers: [steadykey] },
    { framework: "hono", store: "memory", title: "Hono, memory", ratioMeant: 0.6, peers: [] },
    { framework: "hono", store: "redis", title: "Hono, Redis", ratioMeant: 0.6, peers: [] },
  ],
};

/**
 * In the order of their rows.
 *
 * @param {Table} table
 */
export function layersOf({ peers }) {
  return [bare, ours, ...peers];
}
