/** Records in a file of SQLite. */
import { memory } from "./memory.js";

const [steadykey] = memory.peers;
if (steadykey === undefined) throw new Error("a peer is missing");

/** @type {import("../suites.js").Suite} */
export const sqlite = {
  name: "sqlite",
  title: "On SQLite",
  server: undefined,
  ratioMeant: 10,
  bytes: "Bytes of the file",
  profileNote:
    "`backup` is V8's name for whatever the SQLite driver does in native code, its flushes included.",
  tables: [
    {
      durability:
        "`journal_mode = WAL`, `synchronous = FULL`: every commit is flushed to disk before its answer",
      settings: undefined,
      fingerprints: [true],
      size: { runs: 5, keys: 5_000, laps: 2, warmup: 1_000, inFlight: 64 },
    },
  ],
  ours: {
    ...memory.ours,
    packages: ["nevertwice", "@photostructure/sqlite"],
    store:
      "`sqliteStore({ file })`, in a worker thread of its own, every policy at its default: retention 24 h, lease 30 s, renewed while the work runs",
  },
  peers: [
    {
      ...steadykey,
      packages: ["steadykey", "@photostructure/sqlite"],
      store:
        "`SqliteIdempotencyStore` on one connection in the same thread, its statements prepared once, `defaultTtlSeconds` 24 h, else its defaults",
    },
  ],
  raw: {
    name: "raw loop",
    file: "raw-sqlite",
    packages: ["@photostructure/sqlite"],
    store:
      "the same statements by hand on one connection in the same thread; what is asked in one turn of the event loop is one transaction; no engine, no worker, no lease to renew, no time limit",
    withFingerprint: "one SHA-256 over `JSON.stringify(body)`",
    withoutFingerprint: "none",
  },
};
