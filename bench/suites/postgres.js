/** Records in a Postgres on the same machine. */
import { memory } from "./memory.js";

const [steadykey] = memory.peers;
if (steadykey === undefined) throw new Error("a peer is missing");

/** @type {import("../suites.js").Suite} */
export const postgres = {
  name: "postgres",
  title: "On Postgres",
  server: "postgres",
  ratioMeant: 10,
  bytes: "Bytes of table and indexes, before any vacuum,",
  profileNote: undefined,
  tables: [
    {
      durability: "`fsync on`, `synchronous_commit on`: every commit is flushed to disk before its answer",
      settings: { fsync: "on", synchronous_commit: "on" },
      fingerprints: [true],
      size: { runs: 5, keys: 5_000, laps: 2, warmup: 1_000, inFlight: 64 },
    },
  ],
  ours: {
    ...memory.ours,
    packages: ["nevertwice", "pg"],
    store:
      "`postgresStore({ client: pool })`, a pool of 10 connections, every policy at its default: retention 24 h, lease 30 s, renewed while the work runs",
  },
  peers: [
    {
      ...steadykey,
      packages: ["steadykey", "pg"],
      store:
        "`PostgresIdempotencyStore` on a pool of 10 connections, `defaultTtlSeconds` 24 h, else its defaults",
    },
  ],
  raw: {
    name: "raw loop",
    file: "raw-postgres",
    packages: ["pg"],
    store:
      "our own statements, sent by hand on a pool of 10 connections; what arrives while one is under way goes together in the next, as in our store; no engine, no lease to renew, no time limit",
    withFingerprint: "one SHA-256 over `JSON.stringify(body)`",
    withoutFingerprint: "none",
  },
};
