/**
 * Fills a page of keys. A store looks at a limited number of records for one page, and has no index for text or for states.
 * So this reads page after page, and stops after a limit.
 */
import {
  type Guard,
  isNevertwiceError,
  type ListOptions,
  type RecordPage,
  type RecordView,
  type UnreadableRecord,
} from "nevertwice";
import { abbreviateKey } from "./record-json.ts";

const PAGES = 10;
const PAGE = 500;
/** Keys that wait for a decision are worth a longer look: operators must not miss one. */
const UNDECIDED_PAGES = 1_000;
const UNDECIDED_MS = 3_000;
const EXACT_PAGES = 1_000;
const EXACT_MS = 2_000;
/** More keys than these with exactly the text that is searched for are listed like all others. */
const MOST_EXACT = 50;

export interface KeySearch extends Omit<ListOptions, "limit"> {
  readonly limit: number;
  /** Text in the key, the operation or the scope, or the start of the id. */
  readonly search?: string | undefined;
  /** Only keys that wait for a decision. */
  readonly undecided?: boolean | undefined;
  /** Whether to search the whole key. Otherwise only its visible start, so that a caller cannot guess the rest piece by piece. */
  readonly isWhole: boolean;
}

interface SearchedKeys {
  readonly guard: Guard;
  /** The record of the guard's namespace with this id. */
  readById(id: string): Promise<RecordView | undefined>;
}

const ID = /^[0-9a-f]{64}$/;

/** A page can be short or empty and still have a `next`: more keys are left to look at. */
export async function searchKeys(keys: SearchedKeys, asked: KeySearch): Promise<RecordPage> {
  const { guard } = keys;
  const { search, undecided = false, limit, isWhole, ...filters } = asked;
  const which = undecided ? { ...filters, state: "lapsed" as const } : filters;
  const isMatch = matcher(asked);
  if (undecided) return findUndecided(guard, { ...which, limit }, { asked, isMatch });
  const first = await findFirst(keys, asked, which);
  if (first.length === 0) return fillPage(guard, { ...which, limit }, isMatch);
  if (isOnlyOne(asked))
    return { ...(await guard.list({ ...which, limit: 1 })), records: first, next: undefined };
  const ids = new Set(first.map(({ id }) => id));
  const left = Math.max(1, limit - first.length);
  const page = await fillPage(
    guard,
    { ...which, limit: left },
    (record) => !ids.has(record.id) && isMatch?.(record) !== false,
  );
  return asked.after === undefined ? { ...page, records: [...first, ...page.records] } : page;
}

/** No two records have the same operation, scope and key. */
function isOnlyOne({ key, operation, scope }: KeySearch): boolean {
  return [key, operation, scope].every((part) => part !== undefined);
}

/**
 * The records that need no scan: those with exactly this text as their id or, for operators, as their key. Every page asks
 * again, so that the scan leaves out what the first page has shown.
 */
async function findFirst(
  { guard, readById }: SearchedKeys,
  asked: KeySearch,
  which: ListOptions,
): Promise<readonly RecordView[]> {
  const { search, isWhole, key = isWhole ? search : undefined, operation, scope } = asked;
  const found: (RecordView | undefined)[] = [];
  if (search !== undefined && ID.test(search)) found.push(await orNone(readById(search)));
  // The id can be computed. Without a scope in the request, other scopes may have the key too.
  if (key !== undefined && operation !== undefined)
    found.push(await orNone(guard.read({ operation, key, ...(scope !== undefined && { scope }) })));
  if (search !== undefined && isWhole) found.push(...(await findExact(guard, which, search)));
  const isAsked = askedMatcher(asked);
  const byId = new Map(found.flatMap((each) => (each && isAsked(each) ? [[each.id, each] as const] : [])));
  return [...byId.values()];
}

/** What the store's list would have filtered, and the text. */
function askedMatcher(asked: KeySearch): Matcher {
  const { state, key, operation, scope, before = Number.POSITIVE_INFINITY } = asked;
  const isMatch = matcher(asked);
  const wanted = Object.entries({ state, key, operation, scope }).filter(([, part]) => part !== undefined);
  return (record) =>
    wanted.every(([name, part]) => record[name as "state"] === part) &&
    Math.floor(record.claimedAt) <= before &&
    isMatch?.(record) !== false;
}

/** The list reports a damaged record, with the reason. */
async function orNone(read: Promise<RecordView | undefined>): Promise<RecordView | undefined> {
  try {
    return await read;
  } catch (error) {
    if (isNevertwiceError(error, "store-unsafe")) return undefined;
    throw error;
  }
}

/** The count of the store says when all of them are found, so that the rest need not be looked at. */
async function findUndecided(
  guard: Guard,
  which: ListOptions & { readonly limit: number },
  { asked, isMatch }: { readonly asked: KeySearch; readonly isMatch: Matcher | undefined },
): Promise<RecordPage> {
  const { after, search, key, operation, scope, before } = asked;
  const isWhole = [after, search, key, operation, scope, before].every((filter) => filter === undefined);
  const report = isWhole ? await guard.undecided() : undefined;
  const most = report?.isComplete === true ? report.count : Number.POSITIVE_INFINITY;
  if (most === 0) return { ...(await guard.list({ limit: 1 })), records: [], next: undefined };
  const page = await fillPage(guard, { ...which, limit: Math.min(which.limit, most) }, isMatch, {
    pages: UNDECIDED_PAGES,
    until: performance.now() + UNDECIDED_MS,
  });
  return page.records.length >= most ? { ...page, next: undefined } : page;
}

type Matcher = (record: RecordView) => boolean;

/** Undefined if every record of the store's list matches. */
function matcher({ search, undecided = false, isWhole }: KeySearch): Matcher | undefined {
  if (search === undefined && !undecided) return undefined;
  const text = search?.toLowerCase();
  return (record) => (!undecided || record.held) && (text === undefined || hasText(record, text, isWhole));
}

/**
 * Keys that are exactly this text: a store with an index for it finds them behind any number of newer keys. The others are
 * asked for more for a limited time.
 */
async function findExact(guard: Guard, which: ListOptions, key: string): Promise<readonly RecordView[]> {
  if (which.key !== undefined) return [];
  const exact = { ...which, key, limit: MOST_EXACT, after: undefined };
  const most = { pages: EXACT_PAGES, until: performance.now() + EXACT_MS };
  return (await fillPage(guard, exact, undefined, most)).records;
}

async function fillPage(
  guard: Guard,
  { limit, after, ...which }: ListOptions & { readonly limit: number },
  isMatch: Matcher | undefined,
  most = { pages: PAGES, until: Number.POSITIVE_INFINITY },
): Promise<RecordPage> {
  const records: RecordView[] = [];
  const unreadable: UnreadableRecord[] = [];
  const look = async (count: number, from: string | undefined) => {
    const page = await guard.list({ ...which, limit: count, after: from });
    return isMatch === undefined ? page : { ...page, records: page.records.filter(isMatch) };
  };
  let next = after;
  let page: RecordPage;
  let pages = 0;
  do {
    const left = limit - records.length;
    page = await look(isMatch === undefined ? left : PAGE, next);
    // A page with too many matches is read again with a smaller limit, so that the next page misses none.
    if (page.records.length > left) page = await look(left, next);
    records.push(...page.records);
    // Damaged records may match, so they are always reported.
    unreadable.push(...(page.unreadable ?? []));
    next = page.next;
    pages++;
  } while (
    next !== undefined &&
    records.length < limit &&
    pages < most.pages &&
    performance.now() < most.until
  );
  return { ...page, records, ...(unreadable.length > 0 && { unreadable }), next };
}

function hasText(
  { id, key = "", operation = "", scope = "" }: RecordView,
  text: string,
  isWhole: boolean,
): boolean {
  if (id.startsWith(text)) return true;
  const shown = isWhole ? key : abbreviateKey(key).slice(0, -1);
  return [shown, operation, scope].some((part) => part.toLowerCase().includes(text));
}
