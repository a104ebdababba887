/** Records in the memory of the process. */

/** @type {import("../suites.js").Suite} */
export const memory = {
  name: "memory",
  title: "On the memory store",
  server: undefined,
  ratioMeant: 2,
  bytes: "Bytes of memory",
  profileNote: undefined,
  tables: [
    {
      durability: "Nothing outlives the process",
      settings: undefined,
      fingerprints: [true, false],
      size: { runs: 5, keys: 40_000, laps: 2, warmup: 10_000, inFlight: 64 },
    },
  ],
  ours: {
    name: "nevertwice",
    file: "nevertwice",
    packages: ["nevertwice"],
    store:
      "`memoryStore()`, every policy at its default: retention 24 h, lease 30 s, renewed while the work runs",
    withFingerprint: "`guard.run({ operation, key, fingerprint: body }, work)`, SHA-256",
    withoutFingerprint: "`guard.run({ operation, key }, work)`",
  },
  peers: [
    {
      name: "steadykey",
      file: "steadykey",
      packages: ["steadykey"],
      store:
        "`InMemoryIdempotencyStore`, `defaultTtlSeconds` 24 h, else its defaults: lease 30 s, not renewed",
      withFingerprint: "`execute(body, work, { idempotencyKey })`, SHA-256, its default",
      withoutFingerprint:
        "it always hashes its payload, so it is given `null` and a `hashFn` that hashes nothing",
    },
    {
      name: "@node-idempotency/core",
      file: "node-idempotency",
      packages: ["@node-idempotency/core", "@node-idempotency/storage-adapter-memory"],
      store: "`MemoryStorageAdapter`, `cacheTTLMS` 24 h, duplicates wait; it has no lease",
      withFingerprint: "`onRequest`, work, `onResponse`; it hashes the request's `body`, BLAKE2s",
      withoutFingerprint: "the same with a request that has no `body`, which it does not hash",
    },
  ],
  raw: undefined,
};
