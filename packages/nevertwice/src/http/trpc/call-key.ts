/** The keys of a batch in one header: a list with a key for each call, in the order of the calls. */
import { parseKeyHeader } from "../key-header.ts";

/** Items without a comma, or a String of RFC 9651. */
const ITEM = /\s*((?:"(?:[^"\\]|\\.)*"|[^",])*)(?:,|$)/y;

/**
 * The key at this place of the list: `callKey('"a", "b"', 1)` is `b`. Undefined for an empty place and behind the end of the
 * list: two calls never share a key by accident. A malformed place is returned as an empty key, which is refused.
 */
export function callKey(header: string | null | undefined, batchIndex: number): string | undefined {
  if (header === null || header === undefined) return undefined;
  ITEM.lastIndex = 0;
  for (let i = 0; ; i++) {
    const match = ITEM.exec(header);
    if (match === null) return "";
    if (i === batchIndex) return readItem(match[1] ?? "");
    if (!match[0].endsWith(",")) return undefined;
  }
}

function readItem(item: string): string | undefined {
  if (item.trim() === "") return undefined;
  const parsed = parseKeyHeader(item, { strict: false });
  return "key" in parsed ? parsed.key : "";
}
