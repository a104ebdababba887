/**
 * Reservations in MySQL or MariaDB, over a pool of mysql2/promise. A group of actions is one transaction, with as many
 * round trips as a single action.
 */

import type { StoreSettings } from "../core/durability.ts";
import { checkOptions } from "../core/option-checks.ts";
import { turnsFor } from "../stores/in-turn.ts";
import { isClient, type MysqlClient, type MysqlRow, queryRows } from "../stores/mysql/client.ts";
import { isLoggedByStatement, readDurability, type ServerVariables } from "../stores/mysql/durability.ts";
import { isDeadlock } from "../stores/mysql/errors.ts";
import { createReadiness } from "../stores/mysql/readiness.ts";
import { migrate, migrationScript } from "../stores/mysql/schema.ts";
import { boundedClient } from "../stores/mysql/statement-runner.ts";
import { readNumber, readText } from "../stores/mysql/values.ts";
import { createActionsInside } from "./mysql/inside.ts";
import { transactSkippingLocked } from "./mysql/locked-actions.ts";
import { isNull, toCheckpoint, toCommitment, toEvent, toKey, toResource } from "./mysql/rows.ts";
import { TABLE_NAMES, TABLES } from "./mysql/schema.ts";
import { changeCommitted, flush, transact } from "./mysql/transaction.ts";
import * as sql from "./mysql-sql.ts";
import { createOpenTransactions } from "./open-transactions.ts";
import { PlacedMeanwhile } from "./placed-meanwhile.ts";
import { NotWritten, type Page, type ReservationStore } from "./store.ts";
import { type Readable, toFoundCommitment, toPage } from "./stored-rows.ts";

export type { MysqlClient } from "../stores/mysql/client.ts";

/** Options of `mysqlReservations`. */
export interface MysqlReservationsOptions {
  /** A pool of mysql2/promise. Closing the store does not end it. */
  readonly client: MysqlClient;
}

/** A reservation store on MySQL or MariaDB. */
export interface MysqlReservations extends ReservationStore {
  /** Creates or upgrades the tables. Several processes may call it at the same time. */
  migrate(): Promise<void>;
  /** The settings of the server that decide which faults an action survives. */
  settings(): Promise<StoreSettings>;
}

/** The SQL that `migrate()` runs on an empty database, for a DBA to run by hand. */
export function reservationsSql(): string {
  return migrationScript(TABLES);
}

/** Keeps the statement short. The caller purges again while there is more. */
const MAX_PURGED = 1_000;
/** How often a group is tried that was rolled back because of what other transactions did. */
const TRIES = 5;

/**
 * Keeps reservations in MySQL or MariaDB. The tables must exist: call `await store.migrate()` once, or run the SQL of `reservationsSql()`.
 * @throws `options-invalid`, `store-unsafe`
 * @example
 * ```ts server
 * import mysql from "mysql2/promise";
 * import { mysqlReservations } from "nevertwice/reservations/mysql";
 *
 * const store = mysqlReservations({ client: mysql.createPool("mysql://localhost/shop") });
 * await store.migrate();
 * ```
 */
export function mysqlReservations(options: MysqlReservationsOptions): MysqlReservations {
  checkOptions(options, { client: isClient });
  isClient("client", options.client);
  const client = boundedClient(options.client);
  const open = createOpenTransactions();
  const ready = createReadiness(client, TABLES);
  const turns = turnsFor(options.client);

  /** Repeats a transaction that the server rolled back to resolve a deadlock, or that met `PlacedMeanwhile`. */
  async function untilDecided<Answers>(transaction: () => Promise<Answers>): Promise<Answers> {
    await ready().catch((error: unknown) => {
      throw new NotWritten(error);
    });
    for (let tries = 1; ; tries++) {
      try {
        return await transaction();
      } catch (error) {
        if (tries === TRIES || !(error instanceof NotWritten) || !isRepeated(error.cause)) throw error;
      }
    }
  }

  async function rows(statement: string): Promise<readonly MysqlRow[]> {
    await ready();
    return queryRows(client, statement);
  }

  async function page<T>(
    query: { readonly limit: number },
    statement: (limit: number) => string,
    read: (row: MysqlRow) => Readable<T>,
    toPosition: (row: MysqlRow) => string,
  ): Promise<Page<T>> {
    const found = await turns(() => rows(statement(query.limit + 1)));
    return toPage(found, query.limit, read, toPosition);
  }

  return {
    transact: (group, rules) => untilDecided(() => transact(client, group, rules)),
    transactSkippingLocked: (group, rules) =>
      untilDecided(() => transactSkippingLocked(client, group, rules, open)),
    inside: createActionsInside(ready, open),
    async get(namespace, id) {
      const [row] = await rows(sql.getSql(namespace, id));
      if (isNull(row as MysqlRow, "id")) return toFoundCommitment(undefined, readNow(row));
      // Returned only when no crash of the server can lose it any more.
      if (readNumber(row as MysqlRow, "is_shown_early") !== 0) await flush(client, namespace);
      return toFoundCommitment(toCommitment(row as MysqlRow), readNow(row));
    },
    commitments: (query) =>
      page(query, (limit) => sql.commitmentsSql({ ...query, limit }), toCommitment, positionBy("id")),
    resources: (query) =>
      page(query, (limit) => sql.resourcesSql({ ...query, limit }), toResource, positionBy("name")),
    keys: (query) => page(query, (limit) => sql.keysSql({ ...query, limit }), toKey, positionBy("id")),
    events: (query) =>
      page(
        query,
        (limit) => sql.eventsSql({ ...query, limit }),
        toEvent,
        (row) => `${readText(row, "number")} ${positionBy("subject")(row)}`,
      ),
    checkpoints: (query) =>
      page(query, (limit) => sql.checkpointsSql({ ...query, limit }), toCheckpoint, positionBy("id")),
    async elapsed(namespace, limit, after) {
      return (await rows(sql.elapsedSql(namespace, limit, after))).map(readId);
    },
    async purge(limit) {
      const count = Math.min(limit, MAX_PURGED);
      const ids = (await rows(sql.pastKeysSql(count))).map((row) => readText(row, "id"));
      if (ids.length === 0) return { removed: 0, more: false };
      return { removed: await changeCommitted(client, sql.purgeSql(ids)), more: ids.length === count };
    },
    now: async () => readNow((await rows(sql.NOW_SQL))[0]),
    settings: () => readDurability(client, TABLE_NAMES, durabilityRefusal),
    async migrate() {
      await migrate(client, TABLES);
      await ready();
    },
    async close() {},
  };
}

function durabilityRefusal(found: ServerVariables): string | undefined {
  if (!isLoggedByStatement(found)) return undefined;
  return "binlog_format = STATEMENT does not allow transactions at READ COMMITTED: set it to ROW or MIXED.";
}

function isRepeated(cause: unknown): boolean {
  return cause instanceof PlacedMeanwhile || isDeadlock(cause);
}

function readId(row: MysqlRow): string {
  return readText(row, "id");
}

function positionBy(column: string): (row: MysqlRow) => string {
  return (row) => sql.toPosition(row[column] as Buffer);
}

function readNow(row: MysqlRow | undefined): number {
  return readNumber(row as MysqlRow, "now_ms");
}
