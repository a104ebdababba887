/** The table of records: finds, writes, removes and scans rows. Each statement is prepared once per connection. */

import { checkedParts, checkedRecord, flagFrom } from "../../core/checked-record.ts";
import { damagedRecord } from "../../core/damaged-record.ts";
import { NevertwiceError } from "../../core/errors.ts";
import { partsText } from "../../core/parts.ts";
import type { Kept } from "../../core/record.ts";
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

/** A record and the row that contains it. */
export interface StoredRow {
  readonly rowid: number;
  readonly purgeAt: number | null;
  readonly kept: Kept;
}

/** A row of a scan. `read` throws if the record is damaged, so that one damaged row does not end the scan. */
export interface ScannedRow {
  readonly id: string;
  read(): Kept;
}

export interface RecordTable {
  begin(): void;
  beginWriting(): void;
  commit(): void;
  rollback(): void;
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
  /** The next `count` records by id, without their outcomes. */
  scan(after: string | undefined, count: number): readonly ScannedRow[];
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
  const find = prepareFind(database, sql.FIND);
  const insert = database.prepare(sql.INSERT);
  const update = database.prepare(sql.UPDATE);
  const updateAll = database.prepare(sql.UPDATE_ALL);
  const complete = database.prepare(sql.COMPLETE);
  const keepSteps = database.prepare(sql.KEEP_STEPS);
  const remove = database.prepare(sql.REMOVE);
  const lastFence = prepareQuery(database, sql.LAST_FENCE);
  const keepFence = database.prepare(sql.KEEP_FENCE);
  const hasExpired = prepareQuery(database, sql.HAS_EXPIRED);
  const purge = database.prepare(sql.PURGE);
  const scan = prepareQuery(database, sql.SCAN);
  const scanIds = prepareQuery(database, sql.SCAN_IDS);
  const isPending = prepareQuery(database, sql.IS_PENDING);
  const dataVersion = prepareQuery(database, sql.DATA_VERSION);

  function write(found: StoredRow | undefined, kept: Kept): StoredRow | undefined {
    const purgeAt = purgeTime(kept, found?.purgeAt ?? null);
    const [usual, parts, outcome] = toColumns(kept);
    if (found === undefined) {
      const { lastInsertRowid } = insert.run(toColumn(kept.id), purgeAt, ...usual, parts(), outcome);
      return lastInsertRowid === undefined ? undefined : { rowid: Number(lastInsertRowid), purgeAt, kept };
    }
    if (purgeAt === found.purgeAt && kept.parts === found.kept.parts)
      update.run(...usual, outcome, found.rowid);
    else updateAll.run(purgeAt, ...usual, parts(), outcome, found.rowid);
    if (kept.steps !== found.kept.steps) keepSteps.run(toText(kept.steps), found.rowid);
    return { rowid: found.rowid, purgeAt, kept };
  }

  return {
    begin: () => void begin.run(),
    beginWriting: () => waiting(() => void beginWriting.run()),
    commit: () => void commit.run(),
    rollback: () => rollBack(database),
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
    scan(after, count) {
      const from = [after === undefined ? "" : toColumn(after), count] as const;
      return orTooLarge(
        () =>
          scan.all(...from).map(([column, ...row]) => {
            const id = fromColumn(column);
            return { id, read: () => fromRow(id, row).kept };
          }),
        // The driver cannot return one of the rows, so each row is read separately.
        () =>
          scanIds.all(...from).map(([column]) => {
            const id = fromColumn(column);
            return { id, read: () => (find(id) as StoredRow).kept };
          }),
      );
    },
    isPending: (id) => isPending.first(toColumn(id))?.[0] === 1,
    dataVersion: () => dataVersion.first()?.[0] as number,
  };
}

const DIGEST = /^[0-9a-f]{64}$/;

/** A digest is stored as its 32 bytes. Any other id is stored as JSON, which escapes U+0000 and stays unique. */
function toColumn(id: string): SqlValue {
  return DIGEST.test(id) ? Buffer.from(id, "hex") : JSON.stringify(id);
}

function fromColumn(value: unknown): string {
  if (value instanceof Uint8Array) return Buffer.from(value).toString("hex");
  try {
    return JSON.parse(value as string);
  } catch {
    // The store wrote no such id, and no key leads to it. Lists still show it to people.
    return String(value);
  }
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

function checkFence(value: unknown): number {
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
  throw new NevertwiceError(
    "store-unsafe",
    "last_fence in the table nevertwice_store is damaged: set it to the highest fence in nevertwice_records.",
  );
}

/**
 * When a purge should look at the record: a little after it expires, so that a renewal or completion rarely has to move it
 * in the index. Null for a held pending record, which no purge removes.
 */
function purgeTime(kept: Kept, before: number | null): number | null {
  const { state, hold, keptUntil, retentionMs } = kept;
  if (state === "pending" && hold) return null;
  if (before !== null && before >= keptUntil && before <= keptUntil + retentionMs / 16) return before;
  return keptUntil + Math.floor(retentionMs / 32);
}

function toColumns(kept: Kept): readonly [usual: SqlValue[], parts: () => SqlValue, outcome: SqlValue] {
  const usual = [
    kept.state,
    toText(kept.token),
    Number(kept.spent),
    kept.fence,
    kept.number,
    Number(kept.hold),
    Number(kept.tookOver),
    kept.claimedAt,
    kept.leaseMs,
    kept.leaseEndsAt,
    kept.retentionMs,
    kept.keptUntil,
    kept.completedAt ?? null,
    toText(kept.fingerprint),
  ];
  return [usual, () => (kept.parts === undefined ? null : partsText(kept.parts)), toText(kept.outcome)];
}

/** Some drivers cut a string at U+0000. A replay would then return half of the outcome. */
function toText(text: string | undefined): string | null {
  if (!text?.includes("\u0000")) return text ?? null;
  throw new NevertwiceError(
    "options-invalid",
    "a token, fingerprint, outcome or step contains U+0000, which SQLite drivers cannot store.",
  );
}

/** Throws `store-unsafe` for a row that the store did not write: SQLite accepts any value in any column. */
function fromRow(id: string, row: SqliteRow): StoredRow {
  const [
    rowid,
    purgeAt,
    state,
    token,
    spent,
    fence,
    number,
    hold,
    tookOver,
    claimedAt,
    leaseMs,
    leaseEndsAt,
    retentionMs,
    keptUntil,
    completedAt,
    fingerprint,
    parts,
    outcome,
    steps,
  ] = row;
  const kept = checkedRecord({
    id,
    parts: parts === null ? undefined : checkedParts(id, parts),
    fingerprint: fingerprint ?? undefined,
    state,
    token,
    spent: flagFrom(spent),
    fence,
    number,
    hold: flagFrom(hold),
    tookOver: flagFrom(tookOver),
    claimedAt,
    leaseMs,
    leaseEndsAt,
    retentionMs,
    keptUntil,
    completedAt: completedAt ?? undefined,
    outcome: outcome ?? undefined,
    steps: steps ?? undefined,
  });
  return { rowid: rowid as number, purgeAt: purgeAt as number | null, kept };
}
