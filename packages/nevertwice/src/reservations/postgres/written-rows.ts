/**
 * The rows of a decision as parameters: one array for each column of each table. The server takes arrays apart much faster
 * than JSON, and this process need not name every column of every row. All rows are of one namespace and one transaction.
 */
import { plainArray, textArray } from "../../stores/postgres/client.ts";
import type { Checkpoint, JournalEvent } from "../journal.ts";
import type { KeptCommitment, KeptResource, KeyRecord, Writes } from "../store.ts";
import { toAnswerText } from "../stored-records.ts";
import { escapeText } from "./rows.ts";

type Column<Row> =
  | { readonly type: "text"; readonly toArray: (rows: readonly Row[]) => string }
  | { readonly type: "bigint" | "boolean"; readonly toArray: (rows: readonly Row[]) => string };

/** The columns that differ from row to row, in the order of their parameters. */
export type WrittenColumns<Row> = Readonly<Record<string, Column<Row>>>;

/** Any text. */
function text<Row>(read: (row: Row) => string | undefined): Column<Row> {
  const toElement = (row: Row) => {
    const value = read(row);
    return value === undefined ? undefined : escapeText(value);
  };
  return { type: "text", toArray: (rows) => textArray(rows.map(toElement)) };
}

/** Names and hashes of this library: they contain nothing that an array would have to quote, but may be empty. */
function word<Row>(read: (row: Row) => string): Column<Row> {
  return { type: "text", toArray: (rows) => `{${rows.map((row) => read(row) || '""').join(",")}}` };
}

function whole<Row>(read: (row: Row) => number | undefined): Column<Row> {
  return { type: "bigint", toArray: (rows) => plainArray(rows.map(read)) };
}

export const WRITTEN_KEY: WrittenColumns<KeyRecord> = {
  id: text(({ id }) => id),
  // The scope and the key are stored as JSON, which escapes U+0000: Postgres text cannot contain it.
  parts: text(({ scope, key }) => JSON.stringify([scope, key])),
  action: word(({ action }) => action),
  digest: text(({ digest }) => digest),
  parameters: text(({ parameters }) => JSON.stringify(parameters, toStorableNumber)),
  answer: text(toAnswerText),
  commitment: text(({ commitment }) => commitment),
  recorded_at: whole(({ recordedAt }) => recordedAt),
  window_ends_at: whole(({ windowEndsAt }) => windowEndsAt),
  kept_until: whole(({ keptUntil }) => keptUntil),
};

export const WRITTEN_RESOURCE: WrittenColumns<KeptResource> = {
  name: text(({ name }) => name),
  capacity: whole(({ capacity }) => capacity),
  taken: whole(({ taken }) => taken),
  state: word(({ state }) => state),
  is_declared: {
    type: "boolean",
    toArray: (rows) => plainArray(rows.map(({ isDeclared }) => isDeclared)),
  },
  events: whole(({ events }) => events),
  last_hash: word(({ lastHash }) => lastHash),
};

export const WRITTEN_COMMITMENT: WrittenColumns<KeptCommitment> = {
  id: text(({ id }) => id),
  resource: text(({ resource }) => resource),
  requester: text(({ requester }) => requester),
  units: whole(({ units }) => units),
  placed_at: whole(({ placedAt }) => placedAt),
  expires_at: whole(({ expiresAt }) => expiresAt),
  state: word(({ state }) => state),
  ended_at: whole(({ endedAt }) => endedAt),
  confirmed_units: whole(({ confirmedUnits }) => confirmedUnits),
  occupied: whole(({ occupied }) => occupied),
  requester_salt: word(({ requesterSalt }) => requesterSalt),
  events: whole(({ events }) => events),
  last_hash: word(({ lastHash }) => lastHash),
};

export const WRITTEN_EVENT: WrittenColumns<JournalEvent> = {
  subject: text(({ subject }) => subject),
  number: whole(({ number }) => number),
  resource: text(({ resource }) => resource),
  entry: whole(({ entry }) => entry),
  kind: word(({ kind }) => kind),
  at: whole(({ at }) => at),
  key_id: text(({ keyId }) => keyId),
  detail: text(({ detail }) => detail),
  previous: word(({ previous }) => previous),
  hash: word(({ hash }) => hash),
};

export const WRITTEN_CHECKPOINT: WrittenColumns<Checkpoint> = {
  at: whole(({ at }) => at),
  events: whole(({ events }) => events),
  digest: word(({ digest }) => digest),
};

/** The parameters of `write`. `id` is the transaction's, and `unneeded` an array of resources. */
export function toWriteParameters(
  { keys, resources, commitments, events, checkpoint }: Writes,
  { namespace, id, unneeded }: { readonly namespace: string; readonly id: string; readonly unneeded: string },
): string[] {
  return [
    namespace,
    id,
    unneeded,
    ...toArrays(WRITTEN_KEY, keys),
    ...toArrays(WRITTEN_RESOURCE, resources),
    ...toArrays(WRITTEN_COMMITMENT, commitments),
    ...toArrays(WRITTEN_EVENT, events),
    ...toArrays(WRITTEN_CHECKPOINT, checkpoint === undefined ? [] : [checkpoint]),
  ];
}

function toArrays<Row>(columns: WrittenColumns<Row>, rows: readonly Row[]): string[] {
  return Object.values(columns).map(({ toArray }) => toArray(rows));
}

function toStorableNumber(_: string, value: unknown): unknown {
  return typeof value === "bigint" ? `${value}` : value;
}
