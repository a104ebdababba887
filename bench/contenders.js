/** Who is measured, and with which settings: the best that each one documents for this job. */

/**
 * @typedef {object} Contender
 * @property {string} file under `contenders/`; it exports `create({ hasFingerprint, capacity })`, which answers a function
 * `(key, body, work) => Promise<value>`. `capacity` is how many keys it will be given.
 * @property {readonly string[]} packages
 * @property {string} store
 * @property {string} withFingerprint
 * @property {string} withoutFingerprint
 */

/** @type {Contender} */
export const ours = {
  file: "nevertwice",
  packages: ["nevertwice"],
  store:
    "`memoryStore()`, every policy at its default: retention 24 h, lease 30 s, renewed while the work runs",
  withFingerprint: "`guard.run({ operation, key, fingerprint: body }, work)`, SHA-256",
  withoutFingerprint: "`guard.run({ operation, key }, work)`",
};

/** @type {readonly Contender[]} */
export const peers = [
  {
    file: "steadykey",
    packages: ["steadykey"],
    store: "`InMemoryIdempotencyStore`, `defaultTtlSeconds` 24 h, else its defaults: lease 30 s, not renewed",
    withFingerprint: "`execute(body, work, { idempotencyKey })`, SHA-256, its default",
    withoutFingerprint:
      "it always hashes its payload, so it is given `null` and a `hashFn` that hashes nothing",
  },
  {
    file: "node-idempotency",
    packages: ["@node-idempotency/core", "@node-idempotency/storage-adapter-memory"],
    store: "`MemoryStorageAdapter`, `cacheTTLMS` 24 h, duplicates wait; it has no lease",
    withFingerprint: "`onRequest`, work, `onResponse`; it hashes the request's `body`, BLAKE2s",
    withoutFingerprint: "the same with a request that has no `body`, which it does not hash",
  },
];
