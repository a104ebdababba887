/** Reads all pages of a list: a store that scans may return a page without records that is not the last one. */
import type { ListOptions, RecordPage } from "../src/core/operator.ts";
import type { RecordView } from "../src/core/record-view.ts";
import type { UnreadableRecord } from "../src/core/store.ts";

const PAGE_RECORDS = 1_000;

interface EveryPage {
  readonly records: readonly RecordView[];
  readonly unreadable: readonly UnreadableRecord[];
}

export async function everyPage(
  list: (options: Pick<ListOptions, "limit" | "after">) => Promise<RecordPage>,
  limit: number = PAGE_RECORDS,
): Promise<EveryPage> {
  const records: RecordView[] = [];
  const unreadable: UnreadableRecord[] = [];
  let after: string | undefined;
  do {
    const page = await list({ limit, after });
    records.push(...page.records);
    unreadable.push(...(page.unreadable ?? []));
    after = page.next;
  } while (after !== undefined);
  return { records, unreadable };
}
