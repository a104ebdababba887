/**
 * Reads the payload that steadykey stores with `storeCanonicalPayload`. It is JSON in which every string begins with its
 * type, so it gives back the payload, from which the guard's own fingerprint is computed.
 */

const STRING = "str:";

class NotJson extends Error {}

/** `{ meaning }`; empty if there is no payload, or if it contains a date, bytes, a bigint, a map or a set. */
export function fromCanonical(canonical: unknown): { readonly meaning?: unknown } {
  if (typeof canonical !== "string") return {};
  try {
    return { meaning: untyped(JSON.parse(canonical)) };
  } catch {
    return {};
  }
}

function untyped(value: unknown): unknown {
  if (typeof value === "string") {
    // Other types have another beginning, and a fingerprint has only values of JSON.
    if (!value.startsWith(STRING)) throw new NotJson();
    return value.slice(STRING.length);
  }
  if (Array.isArray(value)) return value.map(untyped);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, untyped(member)]));
}
