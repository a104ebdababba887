/** What the lists of all stores have in common: which records a list is about, and the cursor between its pages. */
import { LAST_MICROSECOND } from "../core/checked-record.ts";
import { NevertwiceError } from "../core/errors.ts";
import { isExpired, isUndecided, type Kept, lapsedAt, stateOf } from "../core/record.ts";
import type {
  ListRequest,
  NamespacePage,
  Parts,
  Store,
  UndecidedReport,
  UndecidedRequest,
} from "../core/store.ts";

/** What a store with an index for lists offers to operators. */
export type Lists = Required<Pick<Store, "list" | "listOrder" | "undecided" | "overdue" | "namespaces">>;

/** How many records a count of those that are overdue for a purge looks at. */
export const OVERDUE_ROWS = 10_000;

/** Which records a list is about, however it is ordered and cut into pages. */
export type ListFilter = Omit<ListRequest, "limit" | "after" | "signal">;

/** Whether a list shows the record. */
export function isListed(record: Kept<unknown>, filter: ListFilter, now: number): boolean {
  const { state, before } = filter;
  return (
    hasParts(record.parts, filter) &&
    (before === undefined || Math.floor(record.claimedAt) <= before) &&
    !isExpired(record, now) &&
    (state === undefined || stateOf(record, now) === state)
  );
}

function hasParts(parts: Parts | undefined, { namespace, scope, operation, key }: ListFilter): boolean {
  return (
    parts !== undefined &&
    parts.namespace === namespace &&
    (scope === undefined || parts.scope === scope) &&
    (operation === undefined || parts.operation === operation) &&
    (key === undefined || parts.key === key)
  );
}

/** The place of a record in a list of newest claims first. */
export interface ListPlace {
  /** In the unit of the store's clock; a whole number in a cursor. */
  readonly claimedAt: number;
  readonly id: string;
}

/** The place of a record whose clock counts milliseconds, of which it may know fractions. */
export function toPlace({ claimedAt, id }: ListPlace): ListPlace {
  return { claimedAt: Math.floor(claimedAt), id };
}

/** Orders newest claims first. */
export function comparePlaces(a: ListPlace, b: ListPlace): number {
  return b.claimedAt - a.claimedAt || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0);
}

/** The place of a record in a database whose times are integers of 64 bits: a damaged record may have any of them. */
export interface ExactPlace {
  readonly claimedAt: bigint;
  readonly id: string;
}

/** Later than every time that a record can have. */
const LAST_INTEGER = 2n ** 63n - 1n;

/** The `next` of a page that ends here. */
export function toCursor({ claimedAt, id }: ListPlace | ExactPlace): string {
  return `${claimedAt}.${id}`;
}

/** Reads what `toCursor` wrote. Throws `options-invalid` for anything else. */
export function fromCursor(cursor: string): ListPlace {
  const [time = ""] = cursor.split(".", 1);
  const claimedAt = Number(time);
  const id = cursor.slice(time.length + 1);
  const isOurs = /^\d{1,17}$/.test(time) && claimedAt <= LAST_MICROSECOND && cursor.length > time.length;
  if (isOurs) return { claimedAt, id };
  throw invalidCursor();
}

/** Reads what `toCursor` wrote of an exact place. */
function fromExactCursor(cursor: string): ExactPlace {
  const [time = ""] = cursor.split(".", 1);
  if (!/^-?\d{1,19}$/.test(time) || cursor.length === time.length) throw invalidCursor();
  const claimedAt = BigInt(time);
  if (BigInt.asIntN(64, claimedAt) !== claimedAt) throw invalidCursor();
  return { claimedAt, id: cursor.slice(time.length + 1) };
}

/** The place from which a page in microseconds starts. Without an id it starts before all records of that time. */
export function startOfPage({ after, before }: Pick<ListRequest, "after" | "before">): {
  readonly claimedAt: bigint;
  readonly id: string | undefined;
} {
  const place = after === undefined ? undefined : fromExactCursor(after);
  // The end of that millisecond. A damaged time may be later than any real one, and is found if no time is asked for.
  const latest = before === undefined ? LAST_INTEGER : endOfMillisecond(before);
  return place !== undefined && place.claimedAt <= latest ? place : { claimedAt: latest, id: undefined };
}

function endOfMillisecond(time: number): bigint {
  return BigInt(Math.min((Math.floor(time) + 1) * 1_000 - 1, Number.MAX_SAFE_INTEGER));
}

/** The error about an `after` that no page can have given. */
export function invalidCursor(): NevertwiceError {
  return new NevertwiceError("options-invalid", "after is not the `next` of a page of this list.");
}

/** Counts the undecided ones of these records, up to a limit. `isWhole`: these are all that may be undecided. */
export function countUndecided(
  records: Iterable<Kept<unknown>>,
  { namespace, limit, now, isWhole }: CountOptions,
): UndecidedReport {
  let count = 0;
  let oldest = Number.POSITIVE_INFINITY;
  let isComplete = isWhole;
  for (const record of records) {
    if (record.parts?.namespace !== namespace || !isUndecided(record, now)) continue;
    if (count === limit) {
      isComplete = false;
      break;
    }
    count++;
    oldest = Math.min(oldest, lapsedAt(record, now));
  }
  return { count, isComplete, ...(count > 0 && { oldestLapsedAt: oldest }) };
}

interface CountOptions {
  readonly namespace: string;
  readonly limit: number;
  readonly now: number;
  readonly isWhole: boolean;
}

/** A page of all these namespaces, which are not sorted. */
export function namesAfter(
  names: readonly string[],
  limit: number,
  after: string | undefined,
): NamespacePage {
  const left = names.filter((name) => after === undefined || name > after).sort(byCodeUnits);
  const namespaces = left.slice(0, limit);
  return left.length > limit ? { namespaces, next: namespaces.at(-1) } : { namespaces };
}

function byCodeUnits(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** How many pages of lapsed records a count looks through. Each page looks at a limited number of records. */
const MAX_PAGES = 10;
const COUNTED_AT_ONCE = 500;
/** `undecided` of a store that has no index for it. */
export async function undecidedByList(
  list: NonNullable<Store["list"]>,
  { namespace, limit, signal }: UndecidedRequest,
): Promise<UndecidedReport> {
  const lapsed = new Map<string, number>();
  let after: string | undefined;
  for (let pages = 0; pages < MAX_PAGES && lapsed.size <= limit; pages++) {
    const page = await list({ namespace, state: "lapsed", limit: COUNTED_AT_ONCE, after, signal });
    for (const { id, hold, lapsedAt: at } of page.records) if (hold && at !== undefined) lapsed.set(id, at);
    after = page.next;
    if (after === undefined) break;
  }
  const count = Math.min(lapsed.size, limit);
  const isComplete = after === undefined && lapsed.size <= limit;
  return { count, isComplete, ...(count > 0 && { oldestLapsedAt: Math.min(...lapsed.values()) }) };
}
