/** The table of records: finds, writes, removes and scans rows. Each statement is prepared once per connection. */

import { damagedRecord } from "../../core/damaged-record.ts";
import { namespaceFrom, namespaceStart } from "../../core/parts.ts";
import type { Kept } from "../../core/record.ts";
import type {
  NamespacePage,
  NamespacesRequest,
  OverdueReport,
  UndecidedReport,
  UndecidedRequest,
} from "../../core/store.ts";
import { type ListPlace, OVERDUE_ROWS } from "../listing.ts";
import * as sql from "../sqlite-sql.ts";
import {
  BEGIN,
  BEGIN_WRITING,
  COMMIT,
  prepareQuery,
  rollBack,
  type SqliteDatabase,
  type SqliteRow,
  type SqlValue,
} from "./client.ts";
import { isNumberTooLarge } from "./errors.ts";
import {
  checkFence,
  fromColumn,
  fromRow,
  purgeTime,
  type StoredRow,
  toColumn,
  toColumns,
  toText,
} from "./record-row.ts";

/** A row of a scan. `read` throws if the record is damaged, so that one damaged row does not end the scan. */
export interface ScannedRow {
  readonly place: ListPlace;
  read(): Kept;
}

/** The rows, for steps in a transaction that somebody else began. */
export interface RecordRows {
  find(id: string): StoredRow | undefined;
  /** Returns the row as it is now. Undefined if the connection does not tell the rowid of a new row. */
  write(found: StoredRow | undefined, kept: Kept): StoredRow | undefined;
  /** Like `write`, for a record that differs from the one found only in what a completion changes. */
  complete(found: StoredRow, kept: Kept): void;
  remove(found: StoredRow): void;
  lastFence(): number;
  keepFence(fence: number): void;
  /** Removes at most `limit` expired records; returns how many. */
  purge(now: number, limit: number): number;
  /** The next `count` records of a list, without their outcomes. */
  scan(request: ScanRequest): readonly ScannedRow[];
  undecided(request: UndecidedRequest & { readonly now: number }): UndecidedReport;
  overdue(limit: number, now: number): OverdueReport;
  namespaces(request: NamespacesRequest): NamespacePage;
}

/** The rows, and the transactions of a connection that allows its callers to begin and end them. */
export interface RecordTable extends RecordRows {
  begin(): void;
  beginWriting(): void;
  commit(): void;
  rollback(): void;
  /** Whether the stored state of this id is pending. Its lease may have ended. */
  isPending(id: string): boolean;
  /** Changes whenever another connection has committed a write. */
  dataVersion(): number;
}

/** Finds the row of an id with a query that returns the columns of `FIND`. Throws `store-unsafe` if the row is damaged. */
export function prepareFind(database: SqliteDatabase, query: string): (id: string) => StoredRow | undefined {
  const { first } = prepareQuery(database, query);
  return (id) => {
    let row: SqliteRow | undefined;
    try {
      row = first(toColumn(id));
    } catch (error) {
      throw isNumberTooLarge(error) ? damagedRecord(id, "row") : error;
    }
    return row === undefined ? undefined : fromRow(id, row);
  };
}

/** `waiting` runs a step that may have to wait for the write lock. */
export function createRecordTable(
  database: SqliteDatabase,
  waiting: (step: () => void) => void,
): RecordTable {
  const begin = database.prepare(BEGIN);
  const beginWriting = database.prepare(BEGIN_WRITING);
  const commit = database.prepare(COMMIT);
  const isPending = prepareQuery(database, sql.IS_PENDING);
  const dataVersion = prepareQuery(database, sql.DATA_VERSION);
  return {
    ...createRecordRows(database),
    begin: () => void begin.run(),
    beginWriting: () => waiting(() => void beginWriting.run()),
    commit: () => void commit.run(),
    rollback: () => rollBack(database),
    isPending: (id) => isPending.first(toColumn(id))?.[0] === 1,
    dataVersion: () => dataVersion.first()?.[0] as number,
  };
}

export function createRecordRows(database: SqliteDatabase): RecordRows {
  const find = prepareFind(database, sql.FIND);
  const insert = database.prepare(sql.INSERT);
  const update = database.prepare(sql.UPDATE);
  const updateAll = database.prepare(sql.UPDATE_ALL);
  const complete = database.prepare(sql.COMPLETE);
  const keepSteps = database.prepare(sql.KEEP_STEPS);
  const keepHistory = database.prepare(sql.KEEP_HISTORY);
  const remove = database.prepare(sql.REMOVE);
  const lastFence = prepareQuery(database, sql.LAST_FENCE);
  const keepFence = database.prepare(sql.KEEP_FENCE);
  const hasExpired = prepareQuery(database, sql.HAS_EXPIRED);
  const purge = database.prepare(sql.PURGE);
  const scans = {
    all: prepareScan(database, "all"),
    key: prepareScan(database, "key"),
  };
  const undecided = prepareQuery(database, sql.undecidedBy("?"));
  const overdue = prepareQuery(database, sql.OVERDUE);
  const namespaces = prepareQuery(database, sql.NAMESPACES);

  function write(found: StoredRow | undefined, kept: Kept): StoredRow | undefined {
    const purgeAt = purgeTime(kept, found?.purgeAt ?? null);
    const [usual, parts, outcome] = toColumns(kept);
    if (found === undefined) {
      const { lastInsertRowid } = insert.run(toColumn(kept.id), purgeAt, ...usual, parts(), outcome);
      return lastInsertRowid === undefined ? undefined : { rowid: Number(lastInsertRowid), purgeAt, kept };
    }
    const { claimedAt } = found.kept;
    if (purgeAt === found.purgeAt && kept.parts === found.kept.parts && kept.claimedAt === claimedAt)
      update.run(...usual.slice(1), outcome, found.rowid);
    else updateAll.run(purgeAt, ...usual, parts(), outcome, found.rowid);
    if (kept.steps !== found.kept.steps) keepSteps.run(toText(kept.steps), found.rowid);
    if (kept.history !== found.kept.history) keepHistory.run(toText(kept.history), found.rowid);
    return { rowid: found.rowid, purgeAt, kept };
  }

  function scanFrom(wanted: sql.ListRows, from: readonly SqlValue[]): readonly ScannedRow[] {
    const { scan, scanIds } = scans[wanted];
    return orTooLarge(
      () =>
        scan.all(...from).map(([column, claimedAt, ...row]) => {
          const id = fromColumn(column);
          return { place: { id, claimedAt: claimedAt as number }, read: () => fromRow(id, row).kept };
        }),
      // The driver cannot return one of the rows, so each row is read separately.
      () =>
        scanIds.all(...from).map(([column, claimedAt]) => {
          const id = fromColumn(column);
          const place = { id, claimedAt: claimedAt as number };
          return { place, read: () => (find(id) as StoredRow).kept };
        }),
    );
  }

  return {
    find,
    write,
    complete(found, kept) {
      const purgeAt = purgeTime(kept, found.purgeAt);
      if (purgeAt !== found.purgeAt || kept.steps !== found.kept.steps) return void write(found, kept);
      const { state, retentionMs, keptUntil, completedAt, outcome } = kept;
      complete.run(state, retentionMs, keptUntil, completedAt ?? null, toText(outcome), found.rowid);
    },
    remove: ({ rowid }) => void remove.run(rowid),
    lastFence: () =>
      checkFence(
        orTooLarge(
          () => lastFence.first()?.[0],
          () => Number.NaN,
        ),
      ),
    keepFence: (fence) => void keepFence.run(fence),
    purge: (now, limit) =>
      hasExpired.first(now) === undefined ? 0 : Number(purge.run(now, limit, now).changes),
    scan(request) {
      const rows = scanFrom(wantedRows(request), scanValues(request));
      if (request.after !== undefined) return rows;
      // Parts that were damaged may have belonged to any namespace and key. They are shown once.
      return [...scanFrom("all", scanValues({ ...request, key: undefined }, "")), ...rows];
    },
    undecided({ namespace, limit, now }) {
      return toUndecided(undecided.first(UNDECIDED_ROWS + 1, now, namespaceStart(namespace)), limit);
    },
    overdue(limit, now) {
      const [seen = 0, found = 0, oldest] = (overdue.first(now, now, OVERDUE_ROWS + 1) ??
        []) as readonly number[];
      const isComplete = seen <= OVERDUE_ROWS && found <= limit;
      return { count: Math.min(found, limit), isComplete, ...(found > 0 && { oldestSince: oldest }) };
    },
    namespaces(request) {
      return toNamespaces(namespaces.all(...namespaceValues(request)), request);
    },
  };
}

function prepareScan(database: SqliteDatabase, wanted: sql.ListRows) {
  return {
    scan: prepareQuery(database, sql.selectRows(wanted)),
    scanIds: prepareQuery(database, sql.selectIds(wanted)),
  };
}

/** Which rows of a list to read. */
export interface ScanRequest {
  readonly namespace: string;
  readonly key?: string | undefined;
  readonly before?: number | undefined;
  readonly after: ListPlace | undefined;
  readonly count: number;
}

export function wantedRows({ key }: Pick<ScanRequest, "key">): sql.ListRows {
  return key === undefined ? "all" : "key";
}

/** What the scan by `wantedRows` is bound to. */
export function scanValues(
  { namespace, key, before, after, count }: ScanRequest,
  start: string = namespaceStart(namespace),
): readonly SqlValue[] {
  const latest = Math.min(Math.floor(before ?? Number.MAX_SAFE_INTEGER), Number.MAX_SAFE_INTEGER);
  const isWithin = after !== undefined && after.claimedAt <= latest;
  const place = isWithin ? after.claimedAt : latest;
  const id = isWithin ? toColumn(after.id) : sql.AFTER_ALL_IDS;
  if (key === undefined) return [start, place, place, id, count];
  const end = keyEnd(key);
  return [end, end, start, place, place, id, sql.KEY_ROWS];
}

/** How many held records a count of undecided ones looks at: also those that are at work. */
export const UNDECIDED_ROWS = 10_000;

/** The row of `undecidedBy`. */
export function toUndecided(row: SqliteRow | undefined, limit: number): UndecidedReport {
  const [seen = 0, found = 0, oldest] = (row ?? []) as readonly number[];
  const isComplete = seen <= UNDECIDED_ROWS && found <= limit;
  return { count: Math.min(found, limit), isComplete, ...(found > 0 && { oldestLapsedAt: oldest }) };
}

/** What `NAMESPACES` is bound to. */
export function namespaceValues({ limit, after = "" }: NamespacesRequest): readonly SqlValue[] {
  return [after, limit + 1];
}

/** The rows of `NAMESPACES`. */
export function toNamespaces(rows: readonly SqliteRow[], { limit }: NamespacesRequest): NamespacePage {
  const starts = rows.slice(0, limit).map(([start]) => start as string);
  const namespaces = starts.flatMap((start) => namespaceFrom(start) ?? []);
  return rows.length > limit ? { namespaces, next: starts.at(-1) } : { namespaces };
}

/** Whether nothing is left after these rows of a scan. */
export function isLastScan({ key, count }: Pick<ScanRequest, "key" | "count">, found: number): boolean {
  return key === undefined ? found < count : found === 0;
}

/** What the parts of every record with this key end with. */
function keyEnd(key: string): string {
  return `,${JSON.stringify(key)}]`;
}

/** Calls `instead` if a row contains an integer that the driver cannot return. */
function orTooLarge<T>(read: () => T, instead: () => T): T {
  try {
    return read();
  } catch (error) {
    if (isNumberTooLarge(error)) return instead();
    throw error;
  }
}
