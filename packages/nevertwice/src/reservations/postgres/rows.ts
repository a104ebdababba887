/** The columns of each table in order, and the conversion of rows to records and back. */
import type { PostgresRow } from "../../stores/postgres/client.ts";
import type { KeyRecord } from "../store.ts";
import {
  readCheckpoint,
  readCommitment,
  readEvent,
  readKey,
  readResource,
  readWriter,
} from "../stored-records.ts";
import { type Cells, type Readable, readRow } from "../stored-rows.ts";

/** Column names with their types. */
export type ColumnTypes = Readonly<Record<string, "text" | "bigint" | "boolean">>;

export const COMMITMENT: ColumnTypes = {
  namespace: "text",
  id: "text",
  resource: "text",
  requester: "text",
  units: "bigint",
  placed_at: "bigint",
  expires_at: "bigint",
  state: "text",
  ended_at: "bigint",
  confirmed_units: "bigint",
  occupied: "bigint",
  requester_salt: "text",
  events: "bigint",
  last_hash: "text",
};

export const RESOURCE: ColumnTypes = {
  namespace: "text",
  name: "text",
  capacity: "bigint",
  taken: "bigint",
  state: "text",
  is_declared: "boolean",
  events: "bigint",
  last_hash: "text",
};

export const KEY: ColumnTypes = {
  namespace: "text",
  id: "text",
  parts: "text",
  action: "text",
  digest: "text",
  parameters: "text",
  answer: "text",
  commitment: "text",
  recorded_at: "bigint",
  window_ends_at: "bigint",
  kept_until: "bigint",
  written_by: "text",
};

export const EVENT: ColumnTypes = {
  namespace: "text",
  subject: "text",
  number: "bigint",
  resource: "text",
  entry: "bigint",
  kind: "text",
  at: "bigint",
  key_id: "text",
  detail: "text",
  previous: "text",
  hash: "text",
  checkpoint: "text",
};

export const CHECKPOINT: ColumnTypes = {
  namespace: "text",
  id: "text",
  at: "bigint",
  events: "bigint",
  digest: "text",
};

function reader<Kept>(
  table: string,
  columns: ColumnTypes,
  named: readonly string[],
  read: (cells: Cells) => Kept,
): (row: PostgresRow) => Readable<Kept> {
  const places = new Map(Object.keys(columns).map((column, index) => [column, index]));
  return (row) => {
    const cell = (column: string) => {
      const value = row[places.get(column) as number];
      return typeof value === "string" ? unescapeText(value) : value;
    };
    return readRow({ table, names: named, cell }, read);
  };
}

export const toCommitment = reader("nevertwice_commitments", COMMITMENT, ["id"], readCommitment);
export const toResource = reader("nevertwice_resources", RESOURCE, ["name"], readResource);
export const toEvent = reader("nevertwice_reservation_events", EVENT, ["subject", "number"], readEvent);
export const toCheckpoint = reader("nevertwice_checkpoints", CHECKPOINT, ["id"], readCheckpoint);
export const toKey = reader("nevertwice_reservation_keys", KEY, ["id"], (cells) => {
  readWriter(cells, "written_by");
  return readKey(cells, readParts(cells));
});

function readParts(cells: Cells): Pick<KeyRecord, "scope" | "key"> {
  const parts = cells.json("parts");
  const [scope, key] = Array.isArray(parts) && parts.length === 2 ? parts : [];
  if (typeof scope === "string" && typeof key === "string") return { scope, key };
  return cells.wrong("parts", "it is JSON, but not a scope and a key");
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: the expression searches for these characters.
const ESCAPED = /[\u0000\u0001]/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the expression searches for these characters.
const ESCAPES = /\u0001[01]/g;

/** Postgres text cannot contain U+0000. It is stored as U+0001 `0`, and U+0001 as U+0001 `1`. The sort order does not change. */
export function escapeText(text: string): string {
  return text.replace(ESCAPED, (character) => `\u0001${character === "\u0000" ? 0 : 1}`);
}

export function unescapeText(text: string): string {
  return text.replace(ESCAPES, (found) => (found.endsWith("0") ? "\u0000" : "\u0001"));
}
