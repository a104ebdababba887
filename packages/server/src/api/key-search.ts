/** Searches keys for text. No store has an index for that, so it reads page after page and stops after a limit. */
import type { Guard, ListOptions, RecordPage, RecordView, UnreadableRecord } from "nevertwice";
import { abbreviateKey } from "./record-json.ts";

const PAGES = 10;
const PAGE = 500;

export interface KeySearch extends Omit<ListOptions, "limit"> {
  readonly search: string;
  readonly limit: number;
  /** Whether to search the whole key. Otherwise only its visible start, so that a caller cannot guess the rest piece by piece. */
  readonly isWhole: boolean;
}

export async function searchKeys(
  guard: Guard,
  { search, limit, isWhole, after, ...which }: KeySearch,
): Promise<RecordPage> {
  const text = search.toLowerCase();
  const records: RecordView[] = [];
  const unreadable: UnreadableRecord[] = [];
  let next = after;
  const look = async (count: number) => {
    const page = await guard.list({ ...which, limit: count, after: next });
    const found = page.records.filter((record) => hasText(record, text, isWhole));
    return { found, unreadable: page.unreadable ?? [], next: page.next };
  };
  for (let pages = 0; pages < PAGES; pages++) {
    let page = await look(PAGE);
    const left = limit - records.length;
    // A page with too many matches is read again with a smaller limit, so that the next page misses none.
    const isLast = page.found.length >= left;
    if (page.found.length > left) page = await look(left);
    records.push(...page.found);
    // Damaged records may contain the text, so they are always reported.
    unreadable.push(...page.unreadable);
    next = page.next;
    if (isLast || next === undefined) break;
  }
  return { records, ...(unreadable.length > 0 && { unreadable }), next };
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
