/** A write in a transaction of Postgres: with `guard.transaction`, with a row for the key by hand, and without any key. */

/** @typedef {{ runs: number, keys: number, warmup: number, inFlight: number, connections: number }} Size */

/** @typedef {{ name: string, file: string, packages: readonly string[], settings: string }} Library */

const DURABILITY = "`fsync on`, `synchronous_commit on`: every commit is flushed to disk before its answer";
const DURABLE = { postgres: { fsync: "on", synchronous_commit: "on" } };

export const transaction = {
  name: "transaction",
  title: "Transactions",
  quick: { runs: 2, keys: 500, warmup: 100 },
  tables: [
    {
      title: "One call in flight",
      durability: DURABILITY,
      servers: DURABLE,
      size: /** @type {Size} */ ({ runs: 5, keys: 3_000, warmup: 2_000, inFlight: 1, connections: 1 }),
    },
    {
      title: "64 calls in flight",
      durability: DURABILITY,
      servers: DURABLE,
      size: /** @type {Size} */ ({ runs: 5, keys: 20_000, warmup: 10_000, inFlight: 64, connections: 16 }),
    },
  ],
  /** @type {readonly Library[]} */
  libraries: [
    {
      name: "guard.transaction",
      file: "transaction-nevertwice",
      packages: ["nevertwice", "pg"],
      settings:
        "`guard.transaction` on a pool of as many connections as the others have, the store on another one of 4, every policy at its default",
    },
    {
      name: "by hand",
      file: "transaction-by-hand",
      packages: ["pg"],
      settings:
        "`INSERT INTO keys … ON CONFLICT DO NOTHING` in the same transaction, and the value written to that row: a duplicate waits for the first and reads it; no fingerprint, no answer to a lost COMMIT, nothing is removed",
    },
    {
      name: "bare",
      file: "transaction-bare",
      packages: ["pg"],
      settings: "`BEGIN`, the write, `COMMIT`; a duplicate writes again",
    },
  ],
};
