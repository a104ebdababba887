/** What guards keep may be more than JSON says: here it is told in JSON, for people and for other languages. */
import type { Outcome } from "nevertwice";
import type { JsonSchema } from "./route.ts";

export const OUTCOME_SCHEMA: JsonSchema = {
  type: "object",
  required: ["kind"],
  properties: {
    kind: { enum: ["value", "thrown", "not-kept"] },
    value: { description: "What the work answered, with kind value." },
    error: { description: "What the work failed with, with kind thrown." },
    reason: {
      enum: ["not-encodable", "too-large", "forgotten", "unreadable"],
      description: "Why it is done but cannot be told, with kind not-kept.",
    },
  },
};

export function outcomeJson(outcome: Outcome): Readonly<Record<string, unknown>> {
  switch (outcome.kind) {
    case "value":
      return { kind: "value", value: jsonOf(outcome.value) };
    case "thrown":
      return { kind: "thrown", error: jsonOf(outcome.error) };
    case "not-kept":
      return { kind: "not-kept", reason: outcome.reason };
  }
}

/** Bytes as base64, a date in ISO 8601, a bigint as text, a map as pairs, a set as a list, an error without its stack. */
function jsonOf(value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  if (value === undefined) return null;
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(jsonOf);
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (value instanceof Map) return [...value].map(jsonOf);
  if (value instanceof Set) return [...value].map(jsonOf);
  if (value instanceof Error) {
    const { name, message, code } = value as Error & { readonly code?: unknown };
    return { name, message, ...(code !== undefined && { code }) };
  }
  // fromEntries defines own properties, so a member called __proto__ is data and never a prototype.
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, jsonOf(member)]));
}
