/** A page of a list that is read in several parts, each of which looks at some rows only. */
import type { ListPage, ListRequest, StoreRecord, UnreadableRecord } from "../../core/store.ts";
import { fromCursor, type ListPlace, toCursor, toPlace } from "../listing.ts";

/** What was found in some rows. */
export interface ListPart {
  readonly records: readonly StoreRecord[];
  readonly unreadable: readonly UnreadableRecord[];
  /** The last row that was looked at, if there may be more after it. */
  readonly end: ListPlace | undefined;
}

/** How many parts a page has at most. */
const MAX_PARTS = 20;

/** Reads parts until the page is full or nothing is left, or until it has looked at enough rows. */
export async function readListPage(
  { limit, after }: ListRequest,
  read: (wanted: number, after: ListPlace | undefined) => Promise<ListPart>,
  maxParts = MAX_PARTS,
): Promise<ListPage> {
  const records: StoreRecord[] = [];
  const unreadable: UnreadableRecord[] = [];
  let end = after === undefined ? undefined : fromCursor(after);
  // One more than the page has, to know whether there is another page.
  for (let parts = 0; parts < maxParts && records.length <= limit; parts++) {
    const part = await read(limit + 1 - records.length, end);
    records.push(...part.records);
    unreadable.push(...part.unreadable);
    end = part.end;
    if (end === undefined) break;
  }
  return toListPage({ records, unreadable, end }, limit);
}

/** A page of these records, of which there may be more than it can have. */
function toListPage({ records, unreadable, end }: ListPart, limit: number): ListPage {
  const last = records.length > limit ? toPlace(records[limit - 1] as StoreRecord) : end;
  return {
    records: records.slice(0, limit),
    ...(unreadable.length > 0 && { unreadable }),
    ...(last !== undefined && { next: toCursor(last) }),
  };
}
