/** Messages of NATS JetStream: consumed through a guard, and by the same consumer without one. */

/**
 * @typedef {object} Library
 * @property {string} name at the head of its column
 * @property {string} file under `libraries/`; it exports `create({ store, target, capacity, work })`, which resolves to
 * `{ handle(message), runsAgain, close() }`: `handle` does the work of one message and answers for it
 * @property {readonly string[]} packages whose versions matter
 * @property {string} settings
 */

/** @typedef {{ runs: number, messages: number, warmup: number, inFlight: number }} Size */

/**
 * @typedef {object} Table
 * @property {"memory" | "redis"} store
 * @property {string} title
 * @property {string} durability what a crash loses, in the terms of the database
 * @property {"redis" | undefined} server that is started for it, beside NATS
 * @property {Readonly<Record<string, string>>} settings of that server
 * @property {Library} ours
 * @property {Size} size
 */

const CONSUMER =
  "`consumer(guard, { name, key, work })` behind `nevertwice/events/nats`, every other option at its default";

/** @type {Size} */
const SIZE = { runs: 5, messages: 20_000, warmup: 5_000, inFlight: 64 };

export const events = {
  name: "events",
  title: "Messages",
  /** @type {Library} */
  bare: {
    name: "no guard",
    file: "events-bare",
    packages: ["@nats-io/jetstream"],
    settings: "does the work of every delivery, and acknowledges it",
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
        name: "nevertwice",
        file: "events-nevertwice",
        packages: ["nevertwice", "@nats-io/jetstream"],
        settings: `\`memoryStore({ maxRecords })\`, ${CONSUMER}`,
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
        name: "nevertwice",
        file: "events-nevertwice",
        packages: ["nevertwice", "@nats-io/jetstream", "ioredis"],
        settings: `\`redisStore({ client })\` on one connection of ioredis, ${CONSUMER}`,
      },
      size: SIZE,
    },
  ],
};
