/** The rows of the tables: their columns in one order, how a row is read, and how it is written. */
import type { Row } from "../../stores/postgres/client.ts";
import type { Answer } from "../answer.ts";
import type { ActionName, Parameters } from "../asked.ts";
import type { CommitmentState } from "../commitment.ts";
import type { Checkpoint, EventKind, JournalEvent } from "../journal.ts";
import type { KeptCommitment, KeptResource, KeyRecord } from "../ledger.ts";
import type { ResourceState } from "../registry.ts";

/** Each column with its type. */
export type Columns = Readonly<Record<string, "text" | "bigint" | "boolean">>;

export const COMMITMENT: Columns = {
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
  events: "bigint",
  last_hash: "text",
};

export const RESOURCE: Columns = {
  namespace: "text",
  name: "text",
  capacity: "bigint",
  taken: "bigint",
  state: "text",
  is_declared: "boolean",
  events: "bigint",
  last_hash: "text",
};

export const KEY: Columns = {
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

export const EVENT: Columns = {
  namespace: "text",
  subject: "text",
  number: "bigint",
  kind: "text",
  at: "bigint",
  key_id: "text",
  detail: "text",
  previous: "text",
  hash: "text",
  checkpoint: "text",
};

export const CHECKPOINT: Columns = {
  namespace: "text",
  id: "text",
  at: "bigint",
  events: "bigint",
  digest: "text",
};

/** A row as it was before it was stored. Types say that nothing in it is null, which is so where nobody looks at it. */
function full(row: Row): readonly string[] {
  return row.map((text) => (text === null ? text : loaded(text))) as string[];
}

const maybe = (text: string | null | undefined): number | undefined =>
  typeof text === "string" ? Number(text) : undefined;

export function commitmentOf(row: Row): KeptCommitment {
  const [namespace, id, resource, requester, units, placedAt, expiresAt, state] = full(row);
  const [endedAt, confirmedUnits, occupied, events, lastHash] = row.slice(8);
  return {
    namespace: namespace as string,
    id: id as string,
    resource: resource as string,
    requester: requester as string,
    units: Number(units),
    placedAt: Number(placedAt),
    expiresAt: Number(expiresAt),
    state: state as CommitmentState,
    endedAt: maybe(endedAt),
    confirmedUnits: maybe(confirmedUnits),
    occupied: Number(occupied),
    events: Number(events),
    lastHash: lastHash as string,
  };
}

export function resourceOf(row: Row): KeptResource {
  const [namespace, name, capacity, taken, state, isDeclared, events, lastHash] = full(row);
  return {
    namespace: namespace as string,
    name: name as string,
    capacity: Number(capacity),
    taken: Number(taken),
    state: state as ResourceState,
    isDeclared: isDeclared === "true",
    events: Number(events),
    lastHash: lastHash as string,
  };
}

export function keyOf(row: Row): KeyRecord {
  const [namespace, id, parts, action, digest, parameters, answer, commitment] = full(row);
  const [recordedAt, windowEndsAt, keptUntil] = row.slice(8);
  const [scope, key] = JSON.parse(parts as string) as [string, string];
  return {
    namespace: namespace as string,
    id: id as string,
    scope,
    key,
    action: action as ActionName,
    digest: digest as string,
    parameters: JSON.parse(parameters as string) as Parameters,
    answer: JSON.parse(answer as string) as Answer,
    commitment: commitment ?? undefined,
    recordedAt: Number(recordedAt),
    windowEndsAt: Number(windowEndsAt),
    keptUntil: Number(keptUntil),
  };
}

export function eventOf(row: Row): JournalEvent {
  const [namespace, subject, number, kind, at, keyId, detail, previous, hash, checkpoint] = full(row);
  return {
    namespace: namespace as string,
    subject: subject as string,
    number: Number(number),
    kind: kind as EventKind,
    at: Number(at),
    keyId: keyId ?? undefined,
    detail: detail as string,
    previous: previous as string,
    hash: hash as string,
    checkpoint: checkpoint as string,
  };
}

export function checkpointFrom(row: Row): Checkpoint {
  const [namespace, id, at, events, digest] = full(row);
  return {
    namespace: namespace as string,
    id: id as string,
    at: Number(at),
    events: Number(events),
    digest: digest as string,
  };
}

/** Rows as one JSON text, by the names of the columns: `placedAt` is `placed_at`. */
export function rowsText(rows: readonly object[]): string {
  return JSON.stringify(rows.map(columnsOf));
}

/** The scope and the key are JSON, which escapes U+0000: Postgres keeps it in no text. */
export function keysText(keys: readonly KeyRecord[], writtenBy: string): string {
  return rowsText(
    keys.map(({ scope, key, parameters, answer, ...rest }) => ({
      ...rest,
      parts: JSON.stringify([scope, key]),
      parameters: JSON.stringify(parameters, (_, value) => (typeof value === "bigint" ? `${value}` : value)),
      answer: JSON.stringify(answer),
      writtenBy,
    })),
  );
}

function columnsOf(row: object): object {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      columnOf(name),
      typeof value === "string" ? stored(value) : value,
    ]),
  );
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const ESCAPED = /[\u0000\u0001]/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const ESCAPES = /\u0001[01]/g;

/** Postgres keeps no U+0000: it becomes U+0001 and `0`, and U+0001 itself U+0001 and `1`. The order stays the same. */
export function stored(text: string): string {
  return text.replace(ESCAPED, (character) => `\u0001${character === "\u0000" ? 0 : 1}`);
}

export function loaded(text: string): string {
  return text.replace(ESCAPES, (found) => (found.endsWith("0") ? "\u0000" : "\u0001"));
}

const names = new Map<string, string>();

function columnOf(name: string): string {
  let column = names.get(name);
  if (column === undefined) {
    column = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    names.set(name, column);
  }
  return column;
}
