/** Holds that are placed and confirmed: through this library, and by hand in plain SQL with one transaction for each call. */
import { formatCount } from "../report.js";
import { DURABLE_POSTGRES } from "./postgres.js";
import { SQLITE_PROFILE_NOTE } from "./sqlite.js";

const OURS =
  "`createReservations({ store, windowMs: WINDOWS.clientReplay })`, every other option at its default; calls that come together are one transaction; each transition is also written to the log, in its chain of hashes, and each transaction leaves a checkpoint";
const BY_HAND =
  "for each call one transaction of prepared statements: record the key, take the units from the resource's row (or move the commitment out of `held`), insert the commitment, keep the answer under the key, commit; expired holds make room; no log, no chain of hashes";

/** @type {import("../suites.js").Size} */
const SIZE = { runs: 5, count: 5_000, warmup: 1_000, inFlight: 64 };

/**
 * @param {readonly string[]} drivers
 * @param {string} store
 */
function nevertwiceOn(drivers, store) {
  const packages = ["nevertwice", ...drivers];
  return { name: "nevertwice", file: "reservations-nevertwice", packages, settings: `${store}, ${OURS}` };
}

/**
 * @param {"sqlite" | "postgres"} database
 * @param {string} driver
 * @param {string} connection
 */
function byHandOn(database, driver, connection) {
  const settings = `${connection}, ${BY_HAND}`;
  return { name: "by hand", file: `reservations-${database}`, packages: [driver], settings };
}

export const reservations = {
  name: "reservations",
  title: "Reservations",
  script: "reservations/measure.js",
  operation: "action",
  peer: "the code by hand",
  kept: "confirmed hold, its two keys included",
  /** In this order: each confirmation is of a hold that was placed just before. */
  phases: [
    { name: "holdOwn", action: "placeHold", resource: "own", title: "hold, each on a resource of its own" },
    {
      name: "confirmOwn",
      action: "confirm",
      resource: "own",
      title: "confirm, each on a resource of its own",
    },
    { name: "holdPool", action: "placeHold", resource: "pool", title: "hold, all on one pool" },
    { name: "confirmPool", action: "confirm", resource: "pool", title: "confirm, all on one pool" },
  ],
  quick: { runs: 2, count: 1_000, warmup: 200 },
  profileNote: SQLITE_PROFILE_NOTE,
  intro:
    "The ratio compares nevertwice with the same flow by hand: plain SQL, one transaction for each call. No ratio is meant in memory, where nothing is flushed.",
  /** @param {import("../suites.js").Size} size */
  method: ({ runs, inFlight }) => [
    `${inFlight} actions in flight, one unit each, each under its own key; ${runs} runs. Each line of a table counts ${reservations.tables.map(({ title, size: { count, warmup } }) => `${formatCount(count)} actions after ${formatCount(warmup)} to warm up (${title})`).join(", ")}. The server runs on the same computer and is emptied before each run.`,
    `Every run checks that each hold was placed and confirmed, that no two have one id, that a retry was answered with the first answer, that a key reused for another request was refused, that ${inFlight} concurrent callers of one key placed one hold, that of ${inFlight} callers who wanted one last seat one got it, that the pool was not oversold, and that nothing was confirmed twice.`,
  ],
  tables: [
    {
      store: "memory",
      title: "In memory",
      durability: "Nothing outlives the process",
      servers: {},
      ours: nevertwiceOn([], "`memoryReservations()`"),
      peers: [
        byHandOn(
          "sqlite",
          "@photostructure/sqlite",
          "SQLite's `:memory:` on one connection in the same thread",
        ),
      ],
      size: { ...SIZE, count: 20_000, warmup: 10_000 },
    },
    {
      store: "sqlite",
      title: "On SQLite",
      durability:
        "`journal_mode = WAL`, `synchronous = FULL`: every commit is flushed to disk before its answer",
      servers: {},
      ours: nevertwiceOn(["@photostructure/sqlite"], "`sqliteReservations({ file })`"),
      peers: [byHandOn("sqlite", "@photostructure/sqlite", "one connection in the same thread")],
      ratioMeant: 4,
      bytes: "Bytes of the file",
      size: SIZE,
    },
    {
      store: "postgres",
      title: "On Postgres",
      durability: "`fsync on`, `synchronous_commit on`: every commit is flushed to disk before its answer",
      servers: { postgres: DURABLE_POSTGRES },
      ours: nevertwiceOn(["pg"], "`postgresReservations({ client: pool })`, a pool of 10 connections"),
      peers: [byHandOn("postgres", "pg", "a pool of 10 connections")],
      ratioMeant: 4,
      bytes: "Bytes of tables and indexes, before any vacuum,",
      size: SIZE,
    },
  ],
};
