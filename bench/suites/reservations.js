/** Holds that are placed and confirmed: through this library, and by hand in plain SQL with one transaction for each call. */

/**
 * @typedef {object} Library
 * @property {string} name at the head of its column
 * @property {string} file under `libraries/`; it exports `create({ store, target })`, which resolves to `{ declare(resource,
 * capacity), placeHold(request), confirm(request), close() }`. Requests and answers are those of `createReservations`.
 * @property {readonly string[]} packages whose versions matter
 * @property {string} settings
 */

/** @typedef {{ runs: number, holds: number, warmup: number, inFlight: number }} Size */

/**
 * @typedef {object} Table
 * @property {"memory" | "sqlite" | "postgres"} store
 * @property {string} title
 * @property {string} durability what a crash loses, in the terms of the database
 * @property {"postgres" | undefined} server that is started for it
 * @property {Readonly<Record<string, string>>} settings of the server
 * @property {number | undefined} ratioMeant ours to the one by hand; undefined where nothing is flushed
 * @property {string | undefined} bytes what is counted for each hold; undefined where the two cannot be counted alike
 * @property {Library} ours
 * @property {Library} byHand
 * @property {Size} size
 */

const OURS =
  "`createReservations({ store, windowMs: WINDOWS.clientReplay })`, every other option at its default; calls that come together are one transaction; each transition is also written to the log, in its chain of hashes, and each transaction leaves a checkpoint";
const BY_HAND =
  "for each call one transaction of prepared statements: record the key, take the units from the resource's row (or move the commitment out of `held`), insert the commitment, keep the answer under the key, commit; holds whose time is over make room; no log, no chain of hashes";

/** @type {Size} */
const SIZE = { runs: 5, holds: 5_000, warmup: 1_000, inFlight: 64 };

export const reservations = {
  name: "reservations",
  title: "Reservations",
  /** @type {readonly Table[]} */
  tables: [
    {
      store: "memory",
      title: "In memory",
      durability: "Nothing outlives the process",
      server: undefined,
      settings: {},
      ratioMeant: undefined,
      bytes: undefined,
      ours: {
        name: "nevertwice",
        file: "reservations-nevertwice",
        packages: ["nevertwice"],
        settings: `\`memoryReservations()\`, ${OURS}`,
      },
      byHand: {
        name: "by hand",
        file: "reservations-sqlite",
        packages: ["@photostructure/sqlite"],
        settings: `SQLite's \`:memory:\` on one connection in the same thread, ${BY_HAND}`,
      },
      size: { ...SIZE, holds: 20_000, warmup: 10_000 },
    },
    {
      store: "sqlite",
      title: "On SQLite",
      durability:
        "`journal_mode = WAL`, `synchronous = FULL`: every commit is flushed to disk before its answer",
      server: undefined,
      settings: {},
      ratioMeant: 10,
      bytes: "Bytes of the file",
      ours: {
        name: "nevertwice",
        file: "reservations-nevertwice",
        packages: ["nevertwice", "@photostructure/sqlite"],
        settings: `\`sqliteReservations({ file })\`, ${OURS}`,
      },
      byHand: {
        name: "by hand",
        file: "reservations-sqlite",
        packages: ["@photostructure/sqlite"],
        settings: `one connection in the same thread, ${BY_HAND}`,
      },
      size: SIZE,
    },
    {
      store: "postgres",
      title: "On Postgres",
      durability: "`fsync on`, `synchronous_commit on`: every commit is flushed to disk before its answer",
      server: "postgres",
      settings: { fsync: "on", synchronous_commit: "on" },
      ratioMeant: 10,
      bytes: "Bytes of tables and indexes, before any vacuum,",
      ours: {
        name: "nevertwice",
        file: "reservations-nevertwice",
        packages: ["nevertwice", "pg"],
        settings: `\`postgresReservations({ client: pool })\`, a pool of 10 connections, ${OURS}`,
      },
      byHand: {
        name: "by hand",
        file: "reservations-postgres",
        packages: ["pg"],
        settings: `a pool of 10 connections, ${BY_HAND}`,
      },
      size: SIZE,
    },
  ],
};
