/** The steps of the D1 store, by any clock that SQL can read. */
import { readEach } from "../../core/checked-record.ts";
import { damagedRecord } from "../../core/damaged-record.ts";
import { namespaceStart, partsText } from "../../core/parts.ts";
import { isExpired, type Kept } from "../../core/record.ts";
import { viewOf } from "../../core/record-details.ts";
import type { ClaimRequest, ListPage, Store, StoreRecord } from "../../core/store.ts";
import { randomToken } from "../../core/token.ts";
import { createCompareAndSet, type RecordSnapshot, type WriteResult } from "../compare-and-set.ts";
import { createStatements } from "../d1-sql.ts";
import { isListed, type ListFilter, type ListPlace } from "../listing.ts";
import { type ListPart, readListPage } from "../sqlite/list-page.ts";
import {
  checkFence,
  fromColumn,
  fromRow,
  purgeTime,
  toColumn,
  toColumns,
  toText,
} from "../sqlite/record-row.ts";
import {
  isLastScan,
  namespaceValues,
  scanValues,
  toNamespaces,
  toUndecided,
  UNDECIDED_ROWS,
  wantedRows,
} from "../sqlite/records.ts";
import type { D1Result } from "./bindings.ts";
import { type BatchRunner, type BoundStatement, toRows } from "./database.ts";
import { D1_SETTINGS } from "./durability.ts";
import { checkVersion, migrate } from "./schema.ts";

/** A store on D1. */
export interface D1Store extends Store {
  /** Creates the tables, or migrates them to this version. Several Workers may call it at the same time. */
  migrate(): Promise<void>;
}

/** A row may have two million bytes; the other columns of a record take less than 8,000. */
const MAX_OUTCOME_BYTES = 1_900_000;
/** How many rows a list reads at once, and how many of them it then reads with their outcomes. */
const SCAN_ROWS = 500;
const READ_TOGETHER = 10;

/** A record as it was found, and when its row may be purged. */
interface FoundRecord extends RecordSnapshot {
  readonly purgeAt: number | null;
}

export function createD1Store(batches: BatchRunner, clock: string): D1Store {
  const sql = createStatements(clock);

  /** Runs the statements, and returns the record after them. */
  async function run(id: string, ...statements: readonly BoundStatement[]): Promise<FoundRecord> {
    const results = await batches.run([...statements, [sql.find, toColumn(id)]]);
    return toFound(id, results.at(-1));
  }

  const read = (id: string) => run(id);

  async function write(id: string, before: RecordSnapshot, record: Kept | undefined): Promise<WriteResult> {
    const column = toColumn(id);
    if (record === undefined) {
      const results = await batches.run([
        [sql.remove, column, before.mark],
        [sql.find, column],
      ]);
      return results[0]?.meta.changes === 1 ? { fence: 0 } : { overtakenBy: toFound(id, results[1]) };
    }
    const mark = randomToken();
    const values = toValues(record, (before as Partial<FoundRecord>).purgeAt ?? null, mark);
    const isNewAttempt = record.fence !== before.record?.fence;
    const after = await run(
      id,
      before.record === undefined
        ? [sql.insert, column, ...values, column]
        : [sql.update, ...values, column, before.mark],
      ...(isNewAttempt ? fenceStatements(column, mark) : []),
    );
    return after.mark === mark ? { fence: (after.record as Kept).fence } : { overtakenBy: after };
  }

  const fenceStatements = (column: unknown, mark: string): readonly BoundStatement[] => [
    [sql.raiseFence, column, mark],
    [sql.keepFence, column, mark],
  ];

  const steps = createCompareAndSet({ read, write });

  /** Most keys are new: inserts the record as if this one were, and returns what is there then. */
  async function insertNew(request: ClaimRequest, mark: string): Promise<FoundRecord> {
    const { id, token, leaseMs, retentionMs, hold, fingerprint, parts } = request;
    const column = toColumn(id);
    const values = [toText(token), leaseMs, retentionMs, Number(hold), toText(fingerprint), partsText(parts)];
    return run(id, [sql.insertNew, column, ...values, mark], [sql.keepFence, column, mark]);
  }

  /** Writes to the record of its owner without reading it first. Resolves to the record that is there then. */
  async function writeOwn(id: string, statement: (column: unknown, mark: string) => BoundStatement) {
    const mark = randomToken();
    const column = toColumn(id);
    const after = await run(id, statement(column, mark), [sql.movePurge, column, mark]);
    return { isWritten: after.mark === mark, after };
  }

  /** The full records of these ids. */
  async function readTogether(ids: readonly string[]): Promise<ListPage> {
    const results = await batches.run(ids.map((id) => [sql.find, toColumn(id)]));
    const rows = ids.map((id, index) => ({ id, result: results[index] }));
    const found = readEach(
      rows,
      ({ id }) => id,
      ({ id, result }) => viewIfKept(toFound(id, result)),
    );
    return { records: found.values.flat(), unreadable: found.unreadable };
  }

  /** The matching records among the next rows. */
  async function readPart(
    filter: ListFilter,
    wanted: number,
    after: ListPlace | undefined,
  ): Promise<ListPart> {
    const { namespace, key, before } = filter;
    const request = { namespace, key, before, after, count: SCAN_ROWS };
    const values = scanValues(request);
    const [clocks, rows] = await batches.run([[sql.clock], [sql.scan[wantedRows(filter)], ...values]]);
    const now = toRows(clocks)[0]?.[0] as number;
    const scanned = toRows(rows).map(([column, claimedAt, ...row]) => {
      const id = fromColumn(asBytes(column));
      return { place: { id, claimedAt: claimedAt as number }, row };
    });
    const found = readEach(
      scanned,
      ({ place }) => place.id,
      ({ place, row }) => ({ place, kept: fromRow(place.id, row).kept }),
    );
    const matching = found.values.filter(({ kept }) => isListed(kept, filter, now)).slice(0, wanted);
    const records: StoreRecord[] = [];
    const unreadable = [...found.unreadable];
    for (let first = 0; first < matching.length; first += READ_TOGETHER) {
      const together = matching.slice(first, first + READ_TOGETHER);
      const part = await readTogether(together.map(({ place }) => place.id));
      records.push(...part.records);
      unreadable.push(...(part.unreadable ?? []));
    }
    const end = matching.length === wanted ? matching.at(-1) : undefined;
    const isLast = end === undefined && isLastScan(request, scanned.length);
    return { records, unreadable, end: isLast ? undefined : (end ?? scanned.at(-1))?.place };
  }

  return {
    maxOutcomeBytes: MAX_OUTCOME_BYTES,
    migrate: () => migrate(batches),

    async claim(request) {
      if (request.takeover !== undefined) return steps.claim(request);
      const mark = randomToken();
      const found = await insertNew(request, mark);
      if (found.mark !== mark) return steps.claim(request, found);
      const { fence, number } = found.record as Kept;
      return { status: "new", fence, number, tookOver: false };
    },

    async complete(request) {
      const { id, token, outcome, retentionMs } = request;
      const { isWritten, after } = await writeOwn(id, (column, mark) => [
        sql.complete,
        column,
        toText(token),
        toText(outcome),
        retentionMs,
        mark,
      ]);
      return isWritten || steps.complete(request, after);
    },

    async renew({ id, token, leaseMs }) {
      const { isWritten } = await writeOwn(id, (column, mark) => [
        sql.renew,
        column,
        toText(token),
        leaseMs,
        mark,
      ]);
      return isWritten;
    },

    keepStep: steps.keepStep,
    abandon: steps.abandon,
    read: steps.read,
    keepsHistory: true,
    forget: steps.forget,
    list(request) {
      const { limit: _, after: __, signal: ___, ...filter } = request;
      return readListPage(request, (wanted, after) => readPart(filter, wanted, after));
    },
    listOrder: "newest-first",

    async undecided({ namespace, limit }) {
      const values = [UNDECIDED_ROWS + 1, namespaceStart(namespace)];
      const [result] = await batches.run([[sql.undecided, ...values]]);
      return toUndecided(toRows(result)[0], limit);
    },

    async namespaces(request) {
      const [result] = await batches.run([[sql.namespaces, ...namespaceValues(request)]]);
      return toNamespaces(toRows(result), request);
    },

    async purge(limit) {
      const [result] = await batches.run([[sql.purge, limit]]);
      const removed = result?.meta.changes ?? 0;
      return { removed, more: removed >= limit };
    },

    async settings() {
      await read("nevertwice");
      return D1_SETTINGS;
    },

    async close() {
      batches.close();
    },
  };
}

function viewIfKept({ record, now }: FoundRecord): readonly StoreRecord[] {
  return record === undefined || isExpired(record, now) ? [] : [viewOf(record, now)];
}

/** The row that `find` returns. */
function toFound(id: string, result: D1Result | undefined): FoundRecord {
  const [now, version, lastFence, mark, ...row] = toRows(result)[0] ?? [];
  checkVersion(version);
  checkFence(lastFence);
  if (row[0] === null) return { record: undefined, mark: "", now: now as number, purgeAt: null };
  const { kept, purgeAt } = fromRow(id, row);
  if (typeof mark !== "string") throw damagedRecord(id, "mark");
  return { record: kept, mark, now: now as number, purgeAt };
}

/** The columns of a record, as `insert` and `update` write them. */
function toValues(kept: Kept, purgeAt: number | null, mark: string): readonly unknown[] {
  const [usual, parts, outcome] = toColumns(kept);
  return [
    purgeTime(kept, purgeAt),
    ...usual,
    parts(),
    outcome,
    toText(kept.steps),
    toText(kept.history),
    mark,
  ];
}

/** D1 returns bytes as a list of numbers. */
function asBytes(value: unknown): unknown {
  return Array.isArray(value) ? Uint8Array.from(value as number[]) : value;
}
