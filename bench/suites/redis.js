/** Records in a Redis on the same machine, once without persistence and once with every write flushed. */
import { memory } from "./memory.js";

const [steadykey, nodeIdempotency] = memory.peers;
if (steadykey === undefined || nodeIdempotency === undefined) throw new Error("a peer is missing");

/** @type {import("../suites.js").Suite} */
export const redis = {
  name: "redis",
  title: "On Redis",
  server: "redis",
  ratioMeant: 2,
  bytes: "Bytes of Redis' memory",
  profileNote: undefined,
  tables: [
    {
      durability: "`appendonly no`: nothing outlives the server",
      settings: { appendonly: "no" },
      fingerprints: [true, false],
      size: { runs: 5, keys: 8_000, laps: 2, warmup: 2_000, inFlight: 64 },
    },
    {
      durability: "`appendonly yes`, `appendfsync always`: every write is flushed to disk before its answer",
      // Redis must not rewrite the file in the middle of one library's run.
      settings: { appendonly: "yes", appendfsync: "always", "auto-aof-rewrite-percentage": "0" },
      fingerprints: [false],
      size: { runs: 5, keys: 8_000, laps: 2, warmup: 2_000, inFlight: 64 },
    },
  ],
  ours: {
    ...memory.ours,
    packages: ["nevertwice", "ioredis"],
    store:
      "`redisStore({ client })`, one connection, every policy at its default: retention 24 h, lease 30 s, renewed while the work runs",
  },
  peers: [
    {
      ...steadykey,
      packages: ["steadykey", "redis"],
      store: "`RedisIdempotencyStore` on one connection, `defaultTtlSeconds` 24 h, else its defaults",
    },
    {
      ...nodeIdempotency,
      packages: ["@node-idempotency/core", "@node-idempotency/storage-adapter-redis"],
      store:
        "`RedisStorageAdapter`, which brings its own client of `redis` 4, `cacheTTLMS` 24 h, duplicates wait; it has no lease",
    },
    {
      name: "powertools",
      file: "powertools",
      packages: ["@aws-lambda-powertools/idempotency", "redis"],
      store:
        "`makeIdempotent` over a `CachePersistenceLayer` on one connection, `expiresAfterSeconds` 24 h, a Lambda context that ends in 30 s; a duplicate of work in progress is refused, and asked again here. Its cache layer forgets the payload's hash on completion, so that with payload validation it refuses an identical retry: it is not asked for a fingerprint",
      withFingerprint: undefined,
      withoutFingerprint: "the key is its payload, which it hashes (MD5)",
    },
  ],
  raw: {
    name: "raw loop",
    file: "raw-redis",
    packages: ["ioredis"],
    store:
      "our own scripts, sent by hand with `EVALSHA` on one connection; no engine, no lease to renew, no time limit",
    withFingerprint: "one SHA-256 over `JSON.stringify(body)`",
    withoutFingerprint: "none",
  },
};
