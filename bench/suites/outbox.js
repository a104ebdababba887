/** The relay of the outbox with a plain function as its deliverer: alone, two side by side, and with producers beside it. */

/** @typedef {{ runs: number, messages: number, warmup: number, producers: number }} Size */

/**
 * One line of the table.
 *
 * @typedef {object} Scenario
 * @property {string} title
 * @property {number} relays each in its own process
 * @property {boolean} [isKeyed] over 1,000 keys, in order per key
 * @property {boolean} [isHot] all of one key
 * @property {boolean} [hasProducers] the messages are written while they are relayed
 */

export const outbox = {
  name: "outbox",
  title: "Outbox",
  quick: { runs: 1, messages: 2_000, warmup: 500 },
  tables: [
    {
      database: "postgres",
      durability: "`fsync on`, `synchronous_commit on`",
      servers: { postgres: { fsync: "on", synchronous_commit: "on" } },
      size: /** @type {Size} */ ({ runs: 3, messages: 30_000, warmup: 3_000, producers: 8 }),
    },
    {
      database: "mariadb",
      durability: "`innodb_flush_log_at_trx_commit 1`",
      servers: { mariadb: { "innodb-flush-log-at-trx-commit": "1" } },
      size: /** @type {Size} */ ({ runs: 3, messages: 10_000, warmup: 1_000, producers: 8 }),
    },
    {
      database: "sqlite",
      durability: "WAL, `synchronous full`, the relay in a process of its own",
      servers: {},
      size: /** @type {Size} */ ({ runs: 3, messages: 20_000, warmup: 2_000, producers: 1 }),
    },
  ],
  /** @type {readonly Scenario[]} */
  scenarios: [
    { title: "one relay, no keys", relays: 1 },
    { title: "two relays, no keys", relays: 2 },
    { title: "one relay, 1,000 keys", relays: 1, isKeyed: true },
    { title: "one relay, one key", relays: 1, isHot: true },
    { title: "one relay beside producers", relays: 1, hasProducers: true },
  ],
};
