/** The payload of a notification: which records were settled. */
import { utf8Bytes } from "../../core/bytes.ts";

const MAX_PAYLOAD_BYTES = 7_900;

/** As much of an id as is told: a waiter may be woken for nothing, and a payload holds many. */
export function shortId(id: string): string {
  return id.slice(0, 16);
}

/** The ids as they are told: JSON, since an id may hold any character, in as many payloads as are needed. */
export function payloadsOf(ids: Iterable<string>): readonly string[] {
  const payloads: string[] = [];
  let texts: string[] = [];
  let bytes = 0;
  for (const id of ids) {
    const text = JSON.stringify(shortId(id));
    bytes += utf8Bytes(text) + 1;
    if (bytes > MAX_PAYLOAD_BYTES) {
      payloads.push(`[${texts}]`);
      texts = [];
      bytes = utf8Bytes(text) + 1;
    }
    texts.push(text);
  }
  if (texts.length > 0) payloads.push(`[${texts}]`);
  return payloads;
}

/** Anybody may notify the channel: what is not ours tells nothing. */
export function idsOf(payload: string): readonly string[] {
  try {
    const ids: unknown = JSON.parse(payload);
    return Array.isArray(ids) ? ids : [];
  } catch {
    return [];
  }
}
