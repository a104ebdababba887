/**
 * Records in MySQL or MariaDB, through a pool of mysql2/promise. Each step reads the record, decides, and replaces exactly
 * what it read. Every statement commits by itself, and the server's clock decides when leases and retention end. A first
 * call takes four round trips, a replay one.
 */
import { utf8Bytes } from "../core/bytes.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkOptions } from "../core/option-checks.ts";
import type { TransactionalStore } from "../core/store-transactions.ts";
import { randomToken } from "../core/token.ts";
import { createCompareAndSet, type RecordSnapshot, type WriteResult } from "./compare-and-set.ts";
import { turnsFor } from "./in-turn.ts";
import { isClient, type MysqlClient, type MysqlRow, untilAborted } from "./mysql/client.ts";
import { readDurability } from "./mysql/durability.ts";
import { isOvertaken, readOnlyError, toStoreError } from "./mysql/errors.ts";
import { changedDuringReads, createFlushedReads, MAX_READS } from "./mysql/flushed-reads.ts";
import { createLists } from "./mysql/lists.ts";
import { createPurge } from "./mysql/purge.ts";
import { checkVersion, migrate, migrationScript } from "./mysql/schema.ts";
import { boundedClient, statementRunnerFor } from "./mysql/statement-runner.ts";
import { createTransactions } from "./mysql/transactions.ts";
import { readNumber, toSnapshot } from "./mysql/values.ts";
import * as sql from "./mysql-sql.ts";

export type { MysqlClient } from "./mysql/client.ts";

/** Options of `mysqlStore`. */
export interface MysqlStoreOptions {
  /** A pool of mysql2/promise. Closing the store does not end the pool. */
  readonly client: MysqlClient;
}

/** A store on MySQL or MariaDB. `guard.transaction` works on its pool. */
export interface MysqlStore extends TransactionalStore {
  /** Creates the tables, or migrates them to this version. Several processes may call it at the same time. */
  migrate(): Promise<void>;
}

/** Every statement that `migrate` runs on an empty database, for operators that run migrations themselves. */
export function migrationSql(): string {
  return migrationScript(sql.TABLES);
}

/** How often to look whether tables without the columns for steps and history have been migrated. */
const RECHECK_MS = 30_000;

/**
 * Keeps records in MySQL or MariaDB. Needs its tables: run `await store.migrate()` once, or the statements of `migrationSql()`.
 * @throws `options-invalid`, `store-unsafe`
 * @example
 * ```ts server
 * import mysql from "mysql2/promise";
 * import { createGuard } from "nevertwice";
 * import { mysqlStore } from "nevertwice/stores/mysql";
 *
 * const store = mysqlStore({ client: mysql.createPool("mysql://localhost/shop") });
 * await store.migrate();
 * export const guard = createGuard({ store });
 * ```
 */
export function mysqlStore(options: MysqlStoreOptions): MysqlStore {
  checkOptions(options, { client: isClient });
  const { client } = options;
  isClient("client", client);
  const statements = statementRunnerFor(client);
  const flushedReads = createFlushedReads(statements);
  let checked: Promise<void> | undefined;
  /** Whether the tables have the columns for steps and history, as the last check said. */
  let hasSteps = true;
  let recheckAt = Number.POSITIVE_INFINITY;

  async function check(signal: AbortSignal | undefined): Promise<void> {
    const additions = await checkVersion((statement) => statements.rows(statement, signal), sql.TABLES);
    hasSteps = additions === sql.KEPT_COLUMNS.length;
    recheckAt = hasSteps ? Number.POSITIVE_INFINITY : performance.now() + RECHECK_MS;
  }

  /** Checks the tables once, and again after a failure, or some time later if they were not migrated. */
  function ready(signal: AbortSignal | undefined): Promise<void> {
    if (performance.now() >= recheckAt) {
      recheckAt = Number.POSITIVE_INFINITY;
      checked = undefined;
    }
    checked ??= check(signal).catch((error: unknown) => {
      checked = undefined;
      throw error;
    });
    return untilAborted(checked, signal);
  }

  async function read(id: string, signal?: AbortSignal): Promise<RecordSnapshot> {
    await ready(signal);
    for (let reads = 0; reads < MAX_READS; reads++) {
      const [row] = (await statements.rows(sql.readSql(id), signal)) as readonly [MysqlRow];
      if (readNumber(row, "is_read_only") !== 0) throw readOnlyError();
      const found = toSnapshot(row);
      // complete-is-final: an outcome is returned only when no crash can lose it any more.
      if (readNumber(row, "is_shown_early") === 0 || (await flushedReads.waitUntilFlushed(found, signal)))
        return found;
    }
    throw changedDuringReads();
  }

  async function write(
    id: string,
    found: RecordSnapshot,
    record: RecordSnapshot["record"],
    signal?: AbortSignal,
  ): Promise<WriteResult> {
    try {
      if (record === undefined) {
        const { affectedRows } = await statements.change(sql.deleteSql(id, found.mark), signal);
        return affectedRows > 0 ? { fence: 0 } : { overtakenBy: undefined };
      }
      const next = { mark: randomToken(), isMigrated: hasSteps };
      const isFirst = found.record === undefined;
      const { insertId } = await statements.change(
        isFirst ? sql.insertSql(id, record, found, next) : sql.updateSql(id, record, found, next),
        signal,
      );
      // The fence of a first record is the time of its write, in microseconds.
      if (isFirst) flushedReads.markFlushed(insertId / 1_000);
      return insertId > 0 ? { fence: insertId } : { overtakenBy: undefined };
    } catch (error) {
      if (isOvertaken(error)) return { overtakenBy: undefined };
      throw toStoreError(error);
    }
  }

  const steps = createCompareAndSet({ read, write });

  return {
    usesSignal: true,
    transactions: createTransactions({
      client,
      query: (text, signal) => statements.rows(text, signal),
      change: (text, signal) => statements.change(text, signal),
      read,
      isMigrated: () => hasSteps,
      ready: () => ready(undefined),
    }),

    // A new connection may lead to another server, or to one that was reset.
    get reconnects() {
      return statements.connections;
    },

    get maxOutcomeBytes() {
      return statements.maxOutcomeBytes;
    },

    claim: (request) => steps.claim(request),

    async complete(request) {
      await ready(request.signal);
      const bytes = utf8Bytes(request.outcome);
      const { maxOutcomeBytes } = statements;
      if (bytes <= maxOutcomeBytes) return steps.complete(request);
      // The server would close the connection in the middle of the statement, and every retry would fail the same way.
      throw new NevertwiceError(
        "options-invalid",
        `the outcome has ${bytes} bytes; the server's max_allowed_packet leaves room for ${maxOutcomeBytes}.`,
      );
    },

    // Undefined while the tables lack the column: work with steps is refused before its first step.
    get keepStep() {
      return hasSteps ? steps.keepStep : undefined;
    },

    abandon: steps.abandon,
    renew: steps.renew,
    read: steps.read,
    keepsHistory: true,
    forget: steps.forget,

    purge: createPurge(statements, ready),

    ...createLists({ statements, ready, flushedReads, turns: turnsFor(client) }),

    settings: () => readDurability(boundedClient(client), sql.TABLES.NAMES),

    async migrate() {
      await migrate(client, sql.TABLES);
      checked = undefined;
      await ready(undefined);
    },

    async close() {},
  };
}
