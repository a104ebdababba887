/** Reads the pages of a store one after another, so that only one is in memory. */
import type { Page } from "../store.ts";
import type { UnreadableRow } from "../stored-rows.ts";

export interface ScanOptions {
  readonly namespace: string;
  readonly pageSize: number;
  readonly signal: AbortSignal | undefined;
  /** Called with rows that cannot be read. */
  notice?(rows: readonly UnreadableRow[]): void;
}

export interface ScanQuery {
  readonly namespace: string;
  readonly limit: number;
  readonly after: string | undefined;
}

export async function* scanPages<Row>(
  { namespace, pageSize, signal, notice }: ScanOptions,
  read: (query: ScanQuery) => Promise<Page<Row>>,
): AsyncGenerator<readonly Row[]> {
  let after: string | undefined;
  do {
    signal?.throwIfAborted();
    const page: Page<Row> = await read({ namespace, limit: pageSize, after });
    if (page.unreadable !== undefined) notice?.(page.unreadable);
    yield page.rows;
    after = page.next;
  } while (after !== undefined);
}

/** Assigns a name to one of `shares` shares, always the same one. */
export function shareIndex(name: string, shares: number): number {
  if (shares === 1) return 0;
  let sum = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) sum = Math.imul(sum ^ name.charCodeAt(i), 0x01000193);
  return (sum >>> 0) % shares;
}

/** The map's value for the name; creates it if there is none. */
export function getOrCreate<Value>(map: Map<string, Value>, name: string, make: () => Value): Value {
  let value = map.get(name);
  if (value === undefined) {
    value = make();
    map.set(name, value);
  }
  return value;
}
