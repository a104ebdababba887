/** Reads the store's pages one after the other, so that never more than one is in memory. */
import type { Page } from "../ledger.ts";

export interface Paging {
  readonly namespace: string;
  readonly pageSize: number;
  readonly signal: AbortSignal | undefined;
}

export interface PageRequest {
  readonly namespace: string;
  readonly limit: number;
  readonly after: string | undefined;
}

export async function* pagesOf<Row>(
  { namespace, pageSize, signal }: Paging,
  read: (query: PageRequest) => Promise<Page<Row>>,
): AsyncGenerator<readonly Row[]> {
  let after: string | undefined;
  do {
    signal?.throwIfAborted();
    const page: Page<Row> = await read({ namespace, limit: pageSize, after });
    yield page.rows;
    after = page.next;
  } while (after !== undefined);
}

/** Which of so many shares a name falls into, the same for every reading. */
export function shareOf(name: string, shares: number): number {
  if (shares === 1) return 0;
  let sum = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) sum = Math.imul(sum ^ name.charCodeAt(i), 0x01000193);
  return (sum >>> 0) % shares;
}

/** What is in the map under the name, or made for it now. */
export function entryOf<Value>(map: Map<string, Value>, name: string, make: () => Value): Value {
  let value = map.get(name);
  if (value === undefined) {
    value = make();
    map.set(name, value);
  }
  return value;
}
