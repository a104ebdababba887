/** Records in a file of SQLite. */
import { nevertwiceOn, rawLoopOn, steadykeyOn, storeSuite, WITH_FINGERPRINT } from "./stores.js";

export const SQLITE_PROFILE_NOTE =
  "`backup` is V8's name for everything that the SQLite driver does in native code, its flushes included.";

export const sqlite = storeSuite({
  name: "sqlite",
  title: "On SQLite",
  profileNote: SQLITE_PROFILE_NOTE,
  tables: [
    {
      store: "sqlite",
      durability:
        "`journal_mode = WAL`, `synchronous = FULL`: every commit is flushed to disk before its answer",
      servers: {},
      phases: WITH_FINGERPRINT,
      ours: nevertwiceOn(["@photostructure/sqlite"], "`sqliteStore({ file })`, in its own worker thread"),
      peers: [
        steadykeyOn(
          ["@photostructure/sqlite"],
          "`SqliteIdempotencyStore` on one connection in the same thread, its statements prepared once",
        ),
      ],
      raw: rawLoopOn(
        "sqlite",
        "@photostructure/sqlite",
        "the same statements by hand on one connection in the same thread; the calls of one turn of the event loop are one transaction; no worker",
      ),
      ratioMeant: { first: 5, replay: 1.6 },
      bytes: "Bytes of the file",
      size: { runs: 5, count: 5_000, laps: 2, warmup: 5_000, inFlight: 64, alone: 1_000 },
    },
  ],
});
