/** A write in a transaction of Postgres: with `guard.transaction`, with a row for the key by hand, and without any key. */

/** @typedef {{ runs: number, keys: number, warmup: number, inFlight: number }} Size */

/** @typedef {{ name: string, file: string, packages: readonly string[], settings: string }} Library */

export const transaction = {
  name: "transaction",
  title: "Transactions",
  quick: { runs: 2, keys: 500, warmup: 100 },
  tables: [
    {
      durability: "`fsync on`, `synchronous_commit on`: every commit is flushed to disk before its answer",
      servers: { postgres: { fsync: "on", synchronous_commit: "on" } },
      size: /** @type {Size} */ ({ runs: 5, keys: 3_000, warmup: 500, inFlight: 16 }),
    },
  ],
  /** @type {readonly Library[]} */
  libraries: [
    {
      name: "guard.transaction",
      file: "transaction-nevertwice",
      packages: ["nevertwice", "pg"],
      settings:
        "`guard.transaction` on a pool of 16 connections, the store on another one of 4, every policy at its default",
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
