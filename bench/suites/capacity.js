/** What a key and a call cost on each store: the coefficients of `nevertwice plan`. */

/** @typedef {"sqlite" | "postgres" | "mysql" | "redis" | "redis-cluster" | "dynamodb"} CapacityStore */
/** @typedef {{ keys: number, calls: number, rounds: number, outcomeBytes: number }} IdsSize of the comparison of ids */
/** @typedef {{ count: number, warmup: number, inFlight: number, runs: number, ids: IdsSize }} Size */
/** @typedef {{ store: CapacityStore, title: string, durability: string, servers: import("../servers.js").Servers, size: Size, sizesOnly?: true, comparesIds?: true }} CapacityTable */

const IDS = { keys: 20_000, calls: 32, rounds: 5, outcomeBytes: 300 };
const SIZE = { count: 3_000, warmup: 2_000, inFlight: 64, runs: 1, ids: IDS };
/** Rewriting the file would change its size in the middle of a run. */
const AOF = { appendonly: "yes", appendfsync: "everysec", "auto-aof-rewrite-percentage": "0" };

/** @type {readonly CapacityTable[]} */
const TABLES = [
  { store: "sqlite", title: "SQLite", durability: "WAL, `synchronous full`", servers: {}, size: SIZE },
  {
    store: "postgres",
    title: "Postgres",
    durability: "`fsync on`, `synchronous_commit on`, `wal_compression off`",
    servers: { postgres: { fsync: "on" } },
    size: SIZE,
    comparesIds: true,
  },
  {
    store: "mysql",
    title: "MySQL (MariaDB)",
    durability: "`innodb_flush_log_at_trx_commit 1`",
    servers: { mariadb: { "innodb-flush-log-at-trx-commit": "1" } },
    size: { ...SIZE, count: 2_000, warmup: 500 },
  },
  {
    store: "redis",
    title: "Redis",
    durability: "`appendfsync everysec`",
    servers: { redis: AOF },
    size: SIZE,
  },
  {
    store: "redis-cluster",
    title: "Redis Cluster",
    durability: "three masters with a replica each, `appendfsync everysec`; the masters together",
    servers: { "redis-cluster": AOF },
    size: SIZE,
  },
  {
    store: "dynamodb",
    title: "DynamoDB (dynalite)",
    durability: "the sizes of items only: the emulator says nothing of speed",
    servers: { dynalite: {} },
    size: { ...SIZE, count: 200, warmup: 50, runs: 1 },
    sizesOnly: true,
  },
];

export const capacity = {
  name: "capacity",
  title: "Capacity",
  quick: { count: 400, warmup: 100, runs: 1, ids: { ...IDS, keys: 1_000, rounds: 1 } },
  /** Bytes of the JSON text of the outcomes; bytes for each key are a line through them. */
  outcomes: [100, 1_000, 4_000],
  tables: TABLES,
};
