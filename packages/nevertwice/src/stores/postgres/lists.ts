/** Lists for operators. Each is limited in rows; `operator-statements.ts` limits them in time. */
import { readEach } from "../../core/checked-record.ts";
import { namespaceFrom, partsStart } from "../../core/parts.ts";
import type { ListPage, ListRequest, StoreRecord } from "../../core/store.ts";
import { invalidCursor, type Lists, OVERDUE_ROWS, startOfPage, toCursor } from "../listing.ts";
import type { createStatements } from "../postgres-sql.ts";
import { allCancelled, momentMs, type PostgresRow, type RunStatement } from "./client.ts";
import type { SearchHeld } from "./held-search.ts";
import { keyEnd, toShape } from "./lists-sql.ts";
import { requirePrimary, toStoreRecord } from "./steps.ts";

/** How many rows a page looks at if it is about some records of an index only, and otherwise for each record of the page. */
const SCAN_ROWS = 5_000;
const ROWS_PER_RECORD = 4;
/** How many waiting records a count of undecided ones looks at. */
const UNDECIDED_ROWS = 10_000;
/** How far a count of undecided records first looks for held ones that have lapsed. */
const SEARCHED_PAGES = 10;
const FIRST_DIGEST = "-9223372036854775808";
/** Sorts after every id. */
const LAST_ID = "ff".repeat(33);
const HEX = /^(?:[0-9a-f]{2})*$/;

/** `run` runs the statements in turn and limited in time. */
export function createLists(
  run: RunStatement,
  statements: Pick<ReturnType<typeof createStatements>, "list" | "undecided" | "overdue" | "namespaces">,
  searchHeld: SearchHeld,
): Lists {
  const ask: RunStatement = async (...call) => requirePrimary(await run(...call));

  return {
    listOrder: "newest-first",

    async list(request) {
      const parameters = toParameters(request);
      const rows = await ask(statements.list(toShape(request)), parameters, allCancelled([request]));
      return toPage(rows, request.limit, Number(parameters[3]));
    },

    async undecided(request) {
      const { isDone } = await searchHeld(run, SEARCHED_PAGES, request);
      const parameters = [partsStart(request.namespace), String(UNDECIDED_ROWS + 1)];
      const [row = []] = await ask(statements.undecided, parameters, allCancelled([request]));
      const [seen, found] = [Number(row[1]), Number(row[2])];
      return {
        count: Math.min(found, request.limit),
        isComplete: isDone && seen <= UNDECIDED_ROWS && found <= request.limit,
        ...(typeof row[3] === "string" && { oldestLapsedAt: momentMs(row[3]) }),
      };
    },

    async overdue(request) {
      const rows = [String(OVERDUE_ROWS + 1)];
      const [row = []] = await ask(statements.overdue, rows, allCancelled([request]));
      const [seen, found] = [Number(row[1]), Number(row[2])];
      return {
        count: Math.min(found, request.limit),
        isComplete: seen <= OVERDUE_ROWS && found <= request.limit,
        ...(typeof row[3] === "string" && { oldestSince: momentMs(row[3]) }),
      };
    },

    async namespaces(request) {
      const { limit, after = FIRST_DIGEST } = request;
      if (!/^-?\d{1,19}$/.test(after)) throw invalidCursor();
      const parameters = [after, String(limit + 1)];
      const rows = await ask(statements.namespaces, parameters, allCancelled([request]));
      const shown = rows.slice(0, limit);
      const namespaces = shown.flatMap(([, , start]) => namespaceFrom(start ?? "") ?? []);
      return rows.length > limit ? { namespaces, next: shown.at(-1)?.[1] as string } : { namespaces };
    },
  };
}

function toParameters(request: ListRequest): readonly string[] {
  const { namespace, scope, operation, key, state = "", limit } = request;
  const { claimedAt, id = LAST_ID } = startOfPage(request);
  if (!HEX.test(id)) throw invalidCursor();
  const isSome = operation !== undefined || state !== "" || (key !== undefined && scope !== undefined);
  return [
    partsStart(namespace, scope),
    String(claimedAt),
    id,
    String(isSome ? Math.max(SCAN_ROWS, limit + 1) : (limit + 1) * ROWS_PER_RECORD),
    String(limit + 1),
    key === undefined ? "" : keyEnd(key),
    operation === undefined ? "" : JSON.stringify(operation),
    state,
  ];
}

/** Rows are (is no primary, how many rows were looked at, the place of the last one, columns of a record). */
function toPage(answer: readonly PostgresRow[], limit: number, scanRows: number): ListPage {
  const rows = answer.filter((row) => row[4] !== null);
  const shown = rows.slice(0, limit).map(([isNoPrimary = null, , , , ...record]) => [isNoPrimary, ...record]);
  const readId = (row: PostgresRow) => row[1] as string;
  const { values, unreadable } = readEach(shown, readId, (row) => toStoreRecord(row) as StoreRecord);
  const last = rows.length > limit ? shown.at(-1) : undefined;
  const [, seen, endedAt, endId] = answer[0] ?? [];
  const end =
    last === undefined
      ? Number(seen) >= scanRows && { claimedAt: BigInt(endedAt as string), id: endId as string }
      : { claimedAt: BigInt(last[9] as string), id: readId(last) };
  return {
    records: values,
    ...(unreadable.length > 0 && { unreadable }),
    ...(end && { next: toCursor(end) }),
  };
}
