/** Records in a Postgres on the same machine. */
import { nevertwiceOn, rawLoopOn, steadykeyOn, storeSuite, WITH_FINGERPRINT } from "./stores.js";

/** Every commit is flushed. */
export const DURABLE_POSTGRES = { fsync: "on", synchronous_commit: "on" };

export const postgres = storeSuite({
  name: "postgres",
  title: "On Postgres",
  tables: [
    {
      store: "postgres",
      durability: "`fsync on`, `synchronous_commit on`: every commit is flushed to disk before its answer",
      servers: { postgres: DURABLE_POSTGRES },
      phases: WITH_FINGERPRINT,
      ours: nevertwiceOn(["pg"], "`postgresStore({ client: pool })`, a pool of 10 connections"),
      peers: [steadykeyOn(["pg"], "`PostgresIdempotencyStore` on a pool of 10 connections")],
      raw: rawLoopOn(
        "postgres",
        "pg",
        "our own statements, sent by hand on a pool of 10 connections; calls that arrive while a statement is running go together in the next one, as in our store",
      ),
      ratioMeant: { first: 7, replay: 10 },
      bytes: "Bytes of table and indexes, before any vacuum,",
      size: { runs: 5, count: 20_000, laps: 2, warmup: 10_000, inFlight: 64, alone: 1_000 },
    },
  ],
});
