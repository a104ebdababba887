/** A payload as text for whoever watches: without the fields that nobody may see, and not longer than was asked for. */
import { utf8Bytes } from "../core/bytes.ts";
import type { Capture } from "./model.ts";

export interface Captured {
  /** JSON, cut off if it is too long. */
  readonly text: string;
  readonly isCut: boolean;
}

const REDACTED = "[redacted]";

/** Redacted before it is cut: a cut can hide a field's name, and must not bare its value. */
export function capturedOf(payload: unknown, { maxBytes, redact }: Capture): Captured {
  const text = textOf(payload, new Set(redact));
  if (utf8Bytes(text) <= maxBytes) return { text, isCut: false };
  // Whole characters only: a last one that was cut in two is left out.
  const bytes = new TextEncoder().encode(text).subarray(0, maxBytes);
  return { text: new TextDecoder().decode(bytes, { stream: true }), isCut: true };
}

function textOf(payload: unknown, redacted: ReadonlySet<string>): string {
  try {
    const text = JSON.stringify(payload, (name, value: unknown) => {
      if (redacted.has(name)) return REDACTED;
      if (typeof value === "bigint") return String(value);
      return value instanceof Map || value instanceof Set ? [...value] : value;
    });
    return text ?? String(payload);
  } catch {
    // Watching must not break what is watched.
    return "[not printable]";
  }
}
