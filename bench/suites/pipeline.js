/** Messages through a network of five nodes that have keys, and through the same network without any. */

/**
 * @typedef {object} Library
 * @property {string} name at the head of its column
 * @property {string} file under `libraries/`; it exports `isKeyed`, and `open(store, target, capacity)`, which resolves to
 * `{ store, close }`
 * @property {readonly string[]} packages whose versions matter
 * @property {string} settings
 */

/** @typedef {{ runs: number, messages: number, warmup: number, inFlight: number }} Size */

/**
 * @typedef {object} Table
 * @property {"memory" | "redis"} store
 * @property {string} title
 * @property {string} durability what a crash loses, in the terms of the database
 * @property {"redis" | undefined} server that is started for it
 * @property {Readonly<Record<string, string>>} settings of that server
 * @property {Library} ours
 * @property {Size} size
 */

const KEYS = '`idempotency: { key: "key" }` in every node, every other option at its default';

/** @type {Size} */
const SIZE = { runs: 5, messages: 10_000, warmup: 2_000, inFlight: 64 };

export const pipeline = {
  name: "pipeline",
  title: "Pipelines",
  /** @type {Library} */
  bare: {
    name: "no keys",
    file: "pipeline-bare",
    packages: ["nevertwice"],
    settings: "the same network, whose nodes have no `idempotency`: it asks no store for anything",
  },
  /** @type {readonly Table[]} */
  tables: [
    {
      store: "memory",
      title: "In memory",
      durability: "Nothing outlives the process",
      server: undefined,
      settings: {},
      ours: {
        name: "with keys",
        file: "pipeline-keyed",
        packages: ["nevertwice"],
        settings: `\`memoryStore({ maxRecords })\`, ${KEYS}`,
      },
      size: SIZE,
    },
    {
      store: "redis",
      title: "On Redis",
      durability: "`appendonly yes`, `appendfsync everysec`: a crash of the server loses up to a second",
      server: "redis",
      settings: { appendonly: "yes", appendfsync: "everysec", "auto-aof-rewrite-percentage": "0" },
      ours: {
        name: "with keys",
        file: "pipeline-keyed",
        packages: ["nevertwice", "ioredis"],
        settings: `\`redisStore({ client })\` on one connection of ioredis, ${KEYS}`,
      },
      size: SIZE,
    },
  ],
};
