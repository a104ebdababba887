/** Searches resources for text in their name. No store has an index for that, so it reads page after page up to a limit. */
import type { KeptResource, Page, Paging, Reservations } from "nevertwice/reservations";

const PAGES = 10;
const PAGE = 1_000;
const DEFAULT_LIMIT = 100;

export interface ResourceSearch extends Paging {
  readonly search: string;
}

/** A page can be short or empty and still have a `next`: more resources are left to search. */
export async function searchResources(
  reservations: Reservations,
  { search, limit = DEFAULT_LIMIT, after }: ResourceSearch,
): Promise<Page<KeptResource>> {
  const text = search.toLowerCase();
  const rows: KeptResource[] = [];
  const unreadable: NonNullable<Page<KeptResource>["unreadable"]>[number][] = [];
  let next = after;
  for (let pages = 0; pages < PAGES; pages++) {
    const page = await reservations.listResources({ limit: PAGE, after: next });
    unreadable.push(...(page.unreadable ?? []));
    for (const row of page.rows) {
      if (!row.name.toLowerCase().includes(text)) continue;
      rows.push(row);
      // The next page starts after the last row that was returned, so that it misses none.
      if (rows.length === limit) return toPage(rows, unreadable, row.name);
    }
    next = page.next;
    if (next === undefined) break;
  }
  return toPage(rows, unreadable, next);
}

function toPage(
  rows: Page<KeptResource>["rows"],
  unreadable: NonNullable<Page<KeptResource>["unreadable"]>,
  next: string | undefined,
): Page<KeptResource> {
  return {
    rows,
    ...(unreadable.length > 0 && { unreadable }),
    ...(next !== undefined && { next }),
  };
}
