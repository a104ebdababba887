/**
 * Records in MySQL or MariaDB, through a pool of mysql2/promise. Each step reads the record, decides, and replaces exactly
 * what it read. Every statement commits by itself, and the server's clock decides when leases and retention end. A first
 * call takes four round trips, a replay one.
 */
import { utf8Bytes } from "../core/bytes.ts";
import { readEach } from "../core/checked-record.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkOptions } from "../core/option-checks.ts";
import { viewOf } from "../core/record.ts";
import type { StoreRecord } from "../core/store.ts";
import type { TransactionalStore } from "../core/store-transactions.ts";
import { randomToken } from "../core/token.ts";
import { createCompareAndSet, type RecordSnapshot, type WriteResult } from "./compare-and-set.ts";
import { isClient, type MysqlClient, type MysqlRow, untilAborted } from "./mysql/client.ts";
import { readDurability } from "./mysql/durability.ts";
import { isOvertaken, readOnlyError, toStoreError } from "./mysql/errors.ts";
import { createFlushedReads } from "./mysql/flushed-reads.ts";
import { checkVersion, migrate, migrationScript } from "./mysql/schema.ts";
import { boundedClient, statementRunnerFor } from "./mysql/statement-runner.ts";
import { createTransactions } from "./mysql/transactions.ts";
import { readMillis, readNumber, readText, toRecord, toSnapshot } from "./mysql/values.ts";
import * as sql from "./mysql-sql.ts";

export type { MysqlClient } from "./mysql/client.ts";

export interface MysqlStoreOptions {
  /** A pool of mysql2/promise. Closing the store does not end the pool. */
  readonly client: MysqlClient;
}

export interface MysqlStore extends TransactionalStore {
  /** Creates the tables, or migrates them to this version. Several processes may call it at the same time. */
  migrate(): Promise<void>;
}

/** Every statement that `migrate` runs on an empty database, for operators that run migrations themselves. */
export function migrationSql(): string {
  return migrationScript(sql.TABLES);
}

/** The most records that one purge statement removes; the caller purges again while there are more. */
const MAX_PURGED = 1_000;
/** How often to read a record that stops being completed each time before its outcome is on disk. */
const MAX_READS = 5;

/** How often to look whether tables without the column for steps have been migrated. */
const RECHECK_MS = 30_000;

/** Needs its tables: run `await store.migrate()` once, or the statements of `migrationSql()`. */
export function mysqlStore(options: MysqlStoreOptions): MysqlStore {
  checkOptions(options, { client: isClient });
  const { client } = options;
  isClient("client", client);
  const statements = statementRunnerFor(client);
  const flushedReads = createFlushedReads(statements);
  let checked: Promise<void> | undefined;
  /** Whether the tables can keep steps, as the last check said. */
  let hasSteps = true;
  let recheckAt = Number.POSITIVE_INFINITY;

  async function check(signal: AbortSignal | undefined): Promise<void> {
    const additions = await checkVersion((statement) => statements.rows(statement, signal), sql.TABLES);
    hasSteps = additions === sql.TABLES.ADDITIONS.length;
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

  /** The same for a page, by the last of its outcomes. False if that outcome is gone: the page must be read again. */
  async function isFlushed(
    first: MysqlRow | undefined,
    records: readonly StoreRecord[],
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    if (first === undefined || readNumber(first, "is_shown_early") === 0) return true;
    const completed = records.filter(({ state }) => state === "completed");
    const [last] = completed.sort((a, b) => Number(b.completedAt) - Number(a.completedAt));
    return flushedReads.waitUntilFlushed({ record: last, now: readMillis(first, "now_us") }, signal);
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
      const mark = randomToken();
      const isFirst = found.record === undefined;
      const { insertId } = await statements.change(
        isFirst ? sql.insertSql(id, record, found, mark) : sql.updateSql(id, record, found, mark),
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
    forget: steps.forget,

    async purge(limit, { signal } = {}) {
      await ready(signal);
      const count = Math.min(limit, MAX_PURGED);
      const rows = await statements.rows(sql.expiredSql(count), signal);
      if (rows.length === 0) return { removed: 0, more: false };
      try {
        const ids = rows.map((row) => readText(row, "id"));
        const { affectedRows } = await statements.change(sql.purgeSql(ids), signal);
        return { removed: affectedRows, more: rows.length === count };
      } catch (error) {
        throw toStoreError(error);
      }
    },

    async list(request) {
      await ready(request.signal);
      for (let reads = 0; reads < MAX_READS; reads++) {
        const rows = await statements.rows(
          sql.listSql({ ...request, limit: request.limit + 1 }),
          request.signal,
        );
        const shown = rows.slice(0, request.limit);
        const { values: records, unreadable } = readEach(shown, readId, (row) =>
          viewOf(toRecord(row), readMillis(row, "now_us")),
        );
        if (!(await isFlushed(shown[0], records, request.signal))) continue;
        return {
          records,
          ...(unreadable.length > 0 && { unreadable }),
          ...(rows.length > shown.length && { next: readId(shown.at(-1) as MysqlRow) }),
        };
      }
      throw changedDuringReads();
    },

    settings: () => readDurability(boundedClient(client), sql.TABLES.NAMES),

    async migrate() {
      await migrate(client, sql.TABLES);
      checked = undefined;
      await ready(undefined);
    },

    async close() {},
  };
}

function readId(row: MysqlRow): string {
  return readText(row, "id");
}

function changedDuringReads(): NevertwiceError {
  return new NevertwiceError("unavailable", `the record changed during each of ${MAX_READS} reads.`);
}
