/** Lists for operators. They take turns, and each is limited in rows and in time. */
import { readEach } from "../../core/checked-record.ts";
import { viewOf } from "../../core/record-details.ts";
import type { ListPage, ListRequest, StoreRecord } from "../../core/store.ts";
import type { Turns } from "../in-turn.ts";
import { type Lists, OVERDUE_ROWS, startOfPage, toCursor } from "../listing.ts";
import * as sql from "../mysql-sql.ts";
import type { MysqlRow } from "./client.ts";
import { changedDuringReads, type createFlushedReads, MAX_READS } from "./flushed-reads.ts";
import type { statementRunnerFor } from "./statement-runner.ts";
import { readMillis, readNumber, readText, toRecord } from "./values.ts";

/** How many rows a page looks at if it is about some records of an index only, and otherwise for each record of the page. */
const SCAN_ROWS = 5_000;
const ROWS_PER_RECORD = 4;
/** How many lapsed held records a count of undecided ones looks at. */
const UNDECIDED_ROWS = 10_000;

interface FlushedStatements {
  readonly statements: ReturnType<typeof statementRunnerFor>;
  readonly ready: (signal: AbortSignal | undefined) => Promise<void>;
  readonly flushedReads: ReturnType<typeof createFlushedReads>;
  readonly turns: Turns;
}

export function createLists({ statements, ready, flushedReads, turns }: FlushedStatements): Lists {
  const inTurn = <T>(signal: AbortSignal | undefined, call: () => Promise<T>): Promise<T> =>
    turns(
      async () => {
        await ready(signal);
        return call();
      },
      () => signal?.aborted === true,
    );

  /** Whether the last outcome of a page is on disk. False if it is gone: the page must be read again. */
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

  /** The ids of a page, and the `next` of that page. */
  async function scan({ limit, after, signal, before, ...filter }: ListRequest) {
    const isSome = filter.operation !== undefined || filter.state !== undefined || filter.key !== undefined;
    const rows = isSome ? Math.max(SCAN_ROWS, limit + 1) : (limit + 1) * ROWS_PER_RECORD;
    const from = { ...startOfPage({ after, before }), rows };
    const seen = await statements.rows(sql.scanSql(filter, from), signal);
    const shown = seen.filter((row) => readNumber(row, "is_shown") === 1).slice(0, limit + 1);
    const last = shown.length > limit ? shown[limit - 1] : seen.length < rows ? undefined : seen.at(-1);
    return {
      ids: shown.slice(0, limit).map(readId),
      next: last && toCursor({ id: readId(last), claimedAt: BigInt(readText(last, "claimed_at")) }),
    };
  }

  async function readPage(ids: readonly string[], signal: AbortSignal | undefined): Promise<ListPage> {
    for (let reads = 0; reads < MAX_READS; reads++) {
      const rows = await statements.rows(sql.listSql(ids), signal);
      const { values: records, unreadable } = readEach(rows, readId, (row) =>
        viewOf(toRecord(row), readMillis(row, "now_us")),
      );
      if (await isFlushed(rows[0], records, signal))
        return { records, ...(unreadable.length > 0 && { unreadable }) };
    }
    throw changedDuringReads();
  }

  return {
    listOrder: "newest-first",

    list: (request) =>
      inTurn(request.signal, async () => {
        const { ids, next } = await scan(request);
        const page = ids.length === 0 ? { records: [] } : await readPage(ids, request.signal);
        return { ...page, ...(next !== undefined && { next }) };
      }),

    undecided: ({ namespace, limit, signal }) =>
      inTurn(signal, async () => {
        const [row] = await statements.rows(sql.undecidedSql(namespace, UNDECIDED_ROWS + 1), signal);
        if (row === undefined) return { count: 0, isComplete: false };
        const found = readNumber(row, "found");
        return {
          count: Math.min(found, limit),
          isComplete: readNumber(row, "seen") <= UNDECIDED_ROWS && found <= limit,
          ...(found > 0 && { oldestLapsedAt: readMillis(row, "oldest") }),
        };
      }),

    overdue: ({ limit, signal }) =>
      inTurn(signal, async () => {
        const [row] = await statements.rows(sql.overdueSql(OVERDUE_ROWS + 1), signal);
        if (row === undefined) return { count: 0, isComplete: false };
        const found = readNumber(row, "found");
        return {
          count: Math.min(found, limit),
          isComplete: readNumber(row, "seen") <= OVERDUE_ROWS && found <= limit,
          ...(found > 0 && { oldestSince: readMillis(row, "oldest") }),
        };
      }),

    namespaces: ({ limit, after, signal }) =>
      inTurn(signal, async () => {
        const rows = await statements.rows(sql.namespacesSql(after, limit + 1), signal);
        const namespaces = rows.slice(0, limit).map((row) => readText(row, "namespace"));
        return rows.length > limit ? { namespaces, next: namespaces.at(-1) } : { namespaces };
      }),
  };
}

function readId(row: MysqlRow): string {
  return readText(row, "id");
}
