/** Records in a Redis on the same machine, once without persistence and once with every write flushed. */
import {
  nevertwiceOn,
  nodeIdempotencyOn,
  rawLoopOn,
  steadykeyOn,
  storeSuite,
  WITHOUT_FINGERPRINT,
} from "./stores.js";

/** The same libraries in both tables. */
const BOTH = {
  store: "redis",
  ours: nevertwiceOn(["ioredis"], "`redisStore({ client })`, one connection"),
  peers: [
    steadykeyOn(["redis"], "`RedisIdempotencyStore` on one connection"),
    nodeIdempotencyOn("redis", "`RedisStorageAdapter`, which brings its own client of `redis` 4"),
    {
      name: "powertools",
      file: "powertools",
      packages: ["@aws-lambda-powertools/idempotency", "redis"],
      settings:
        "`makeIdempotent` over a `CachePersistenceLayer` on one connection, `expiresAfterSeconds` 24 h, a Lambda context that ends in 30 s; it refuses a duplicate of work in progress, which is sent again here. Its cache layer forgets the payload's hash on completion, so with payload validation it refuses an identical retry. So it is not measured with a fingerprint",
      withoutFingerprint: "the key is its payload, which it hashes (MD5)",
    },
  ],
  raw: rawLoopOn("redis", "ioredis", "our own scripts, sent by hand with `EVALSHA` on one connection"),
  ratioMeant: { first: 0.9, replay: 1.3 },
  bytes: "Bytes of Redis' memory",
  size: { runs: 5, count: 20_000, laps: 2, warmup: 10_000, inFlight: 64, alone: 1_000 },
};

export const redis = storeSuite({
  name: "redis",
  title: "On Redis",
  tables: [
    {
      ...BOTH,
      durability: "`appendonly no`: nothing outlives the server",
      servers: { redis: { appendonly: "no" } },
    },
    {
      ...BOTH,
      durability: "`appendonly yes`, `appendfsync always`: every write is flushed to disk before its answer",
      // Redis must not rewrite the file in the middle of one library's run.
      servers: { redis: { appendonly: "yes", appendfsync: "always", "auto-aof-rewrite-percentage": "0" } },
      phases: WITHOUT_FINGERPRINT,
    },
  ],
});
