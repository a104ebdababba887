/** Messages of NATS JetStream: consumed through a guard, and by the same consumer without one. */
import { REQUEST_BYTES } from "../payload.js";
import { formatCount } from "../report.js";

/** The second phase delivers the messages of the first again. */
export const DELIVERIES = [
  { name: "first", title: "delivered for the first time" },
  { name: "again", title: "delivered again" },
];

/** Redis must not rewrite the file in the middle of one library's run. */
const FLUSHED_EVERY_SECOND = {
  appendonly: "yes",
  appendfsync: "everysec",
  "auto-aof-rewrite-percentage": "0",
};

/**
 * A table in memory, whose ratio has a target, and one on Redis, with the same size and the same peer.
 *
 * @param {{ library: { name: string, file: string }, packages: readonly string[], how: string, peer: import("../suites.js").Library, size: import("../suites.js").Size, ratioMeant: import("../report.js").Meant, servers?: import("../servers.js").Servers }} options
 * @returns {readonly import("../suites.js").Table[]}
 */
export function inMemoryAndOnRedis({ library, packages, how, peer, size, ratioMeant, servers = {} }) {
  return [
    {
      store: "memory",
      title: "In memory",
      durability: "Nothing outlives the process",
      servers,
      ours: { ...library, packages, settings: `\`memoryStore({ maxRecords })\`, ${how}` },
      peers: [peer],
      ratioMeant,
      size,
    },
    {
      store: "redis",
      title: "On Redis",
      durability: "`appendonly yes`, `appendfsync everysec`: a crash of the server loses up to a second",
      servers: { ...servers, redis: FLUSHED_EVERY_SECOND },
      ours: {
        ...library,
        packages: [...packages, "ioredis"],
        settings: `\`redisStore({ client })\` on one connection of ioredis, ${how}`,
      },
      peers: [peer],
      size,
    },
  ];
}

/** @type {import("../suites.js").Suite} */
export const events = {
  name: "events",
  title: "Messages",
  script: "events/measure.js",
  operation: "delivery",
  peer: "no guard",
  kept: "message",
  phases: DELIVERIES,
  quick: { runs: 2, count: 2_000, warmup: 500 },
  intro:
    "One process consumes messages of NATS JetStream. The ratio compares the consumer with a guard to the same consumer without one, which does the work of every delivery again.",
  method: ({ runs, count, warmup, inFlight }) => [
    `${inFlight} deliveries in flight, ${REQUEST_BYTES} bytes each; ${formatCount(count)} messages a run, each delivered twice, after a warm-up of ${formatCount(warmup)}; ${runs} runs. The work reads the message as JSON and costs nothing else, so this is the most that a guard can cost. The stream is kept in the server's memory. All messages are sent before the clock starts, and it stops when the server has the last acknowledgement. The servers run on the same computer.`,
    "Every run checks that each message was processed, once with the guard and twice without, and that every delivery was acknowledged.",
  ],
  tables: inMemoryAndOnRedis({
    library: { name: "nevertwice", file: "events-nevertwice" },
    packages: ["nevertwice", "@nats-io/jetstream"],
    how: "`consumer(guard, { name, key, work })` behind `nevertwice/events/nats`, every other option at its default",
    peer: {
      name: "no guard",
      file: "events-bare",
      packages: ["@nats-io/jetstream"],
      settings: "does the work of every delivery, and acknowledges it",
    },
    ratioMeant: { first: 0.45, replay: 0.6 },
    size: { runs: 5, count: 20_000, warmup: 5_000, inFlight: 64 },
    servers: { nats: {} },
  }),
};
