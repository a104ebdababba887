/** A payload as text for events: redacted, and cut to a maximum length. */
import { utf8Bytes } from "../core/bytes.ts";
import type { Capture } from "./model.ts";

export interface CapturedPayload {
  /** JSON, cut if it is too long. */
  readonly text: string;
  readonly isCut: boolean;
}

const REDACTED = "[redacted]";

/** Redacts before it cuts: in text that was cut first, a field's name could be missing and its value still be there. */
export function capturePayload(payload: unknown, { maxBytes, redact }: Capture): CapturedPayload {
  const text = toText(payload, new Set(redact));
  if (utf8Bytes(text) <= maxBytes) return { text, isCut: false };
  // Whole characters only: a last character that was cut in two is left out.
  const bytes = new TextEncoder().encode(text).subarray(0, maxBytes);
  return { text: new TextDecoder().decode(bytes, { stream: true }), isCut: true };
}

function toText(payload: unknown, redacted: ReadonlySet<string>): string {
  try {
    const text = JSON.stringify(payload, (name, value: unknown) => {
      if (redacted.has(name)) return REDACTED;
      if (typeof value === "bigint") return String(value);
      return value instanceof Map || value instanceof Set ? [...value] : value;
    });
    return text ?? String(payload);
  } catch {
    // An event must not break the message that it reports.
    return "[not printable]";
  }
}
