/** A CSV file with the columns `key`, `operation`, `scope`, `outcome`, `error`, `expires_at` and `fingerprint`, and any others. */
import { csvSource } from "./csv-source.ts";
import { isObject, type Peer, type PeerReading, refused, toError } from "./peer.ts";
import { toResponse } from "./response.ts";
import type { SourceEntry } from "./source.ts";

export const csv: Peer = {
  fields: undefined,
  templates: { operation: "{operation}", scope: "{scope}", key: "{key}" },
  form: "value",
  open: (source) => csvSource(source),
  read({ value }: SourceEntry, { form }) {
    if (!isObject(value) || typeof value.fields === "number")
      return refused("the record has another number of fields than the first line.");
    const columns = value as Readonly<Record<string, string>>;
    try {
      return readColumns(columns, form);
    } catch (error) {
      return refused((error as Error).message);
    }
  },
};

function readColumns(columns: Readonly<Record<string, string>>, form: "value" | "response"): PeerReading {
  const { outcome = "", error = "", expires_at: end = "", fingerprint = "" } = columns;
  const leftMs = end === "" ? null : readEnd(end) - Date.now();
  if (leftMs !== null && leftMs <= 0) return { status: "expired" };
  const key = {
    status: "completed",
    fields: columns,
    leftMs,
    ...(fingerprint !== "" && { meaning: readJson("fingerprint", fingerprint) }),
  } as const;
  if (error !== "") return { ...key, outcome: { error: toError(error) } };
  const stored = outcome === "" ? undefined : readJson("outcome", outcome);
  if (form === "value") return { ...key, outcome: { value: stored } };
  const value = toResponse(stored);
  if (value === undefined) return refused('its outcome is not a response such as {"status":201,"body":"…"}.');
  return { ...key, outcome: { value } };
}

function readJson(column: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Error(`the column ${column} must be JSON; text needs double quotes.`, { cause });
  }
}

function readEnd(text: string): number {
  const at = /^\d{12,15}$/.test(text)
    ? Number(text)
    : /^\d{4}-\d\d-\d\d/.test(text)
      ? Date.parse(text)
      : Number.NaN;
  if (Number.isFinite(at)) return at;
  throw new Error(
    "the column expires_at must be a date such as 2027-01-31T12:00:00Z, or milliseconds since 1970.",
  );
}
