/** Looks for text in keys. No store has an index for it, so it reads page after page, and stops after some. */
import type { Guard, ListOptions, RecordPage, RecordView } from "nevertwice";
import { beginningOf } from "./records.ts";

const PAGES = 10;
const PAGE = 500;

export interface KeySearch extends Omit<ListOptions, "limit"> {
  readonly search: string;
  readonly limit: number;
  /** Whether the whole key is searched; else only what of it is shown, or it could be guessed bit by bit. */
  readonly isWhole: boolean;
}

export async function searchKeys(
  guard: Guard,
  { search, limit, isWhole, after, ...which }: KeySearch,
): Promise<RecordPage> {
  const text = search.toLowerCase();
  const records: RecordView[] = [];
  let next = after;
  const look = async (count: number) => {
    const page = await guard.list({ ...which, limit: count, after: next });
    return { found: page.records.filter((record) => hasText(record, text, isWhole)), next: page.next };
  };
  for (let pages = 0; pages < PAGES; pages++) {
    let page = await look(PAGE);
    const left = limit - records.length;
    // A page that has too many is read again in part, so that the next one leaves nothing out.
    const isLast = page.found.length >= left;
    if (page.found.length > left) page = await look(left);
    records.push(...page.found);
    next = page.next;
    if (isLast || next === undefined) break;
  }
  return { records, next };
}

function hasText(
  { id, key = "", operation = "", scope = "" }: RecordView,
  text: string,
  isWhole: boolean,
): boolean {
  if (id.startsWith(text)) return true;
  const shown = isWhole ? key : beginningOf(key).slice(0, -1);
  return [shown, operation, scope].some((part) => part.toLowerCase().includes(text));
}
