/** Converts records to columns of a MySQL statement, and rows back to records. */
import { isUtf8 } from "node:buffer";
import type { MysqlRow } from "../../stores/mysql/client.ts";
import { bytes, MAX_SHORT_BYTES, short, whole } from "../../stores/mysql/values.ts";
import type { Checkpoint, JournalEvent } from "../journal.ts";
import type { KeptCommitment, KeptResource, KeyRecord } from "../store.ts";
import {
  readCheckpoint,
  readCommitment,
  readEvent,
  readKey,
  readResource,
  readWriter,
  toAnswerText,
} from "../stored-records.ts";
import { type Cells, type Readable, readRow, wrongCell } from "../stored-rows.ts";

/** Column names with SQL literals. */
export type ColumnLiterals = Readonly<Record<string, string>>;

const wholeOrNull = (value: number | undefined) => (value === undefined ? "NULL" : whole(value));

/** Whether the id is longer than any id that nevertwice creates, so that no row can have it. */
export function isTooLong(id: string): boolean {
  return Buffer.byteLength(id) > MAX_SHORT_BYTES;
}

/** `checkpoint` is the id of the writing transaction, which recognises its own rows by it. */
export function fromKey(key: KeyRecord, checkpoint: string): ColumnLiterals {
  return {
    id: short(key.id),
    namespace: bytes(key.namespace),
    scope: bytes(key.scope),
    "`key`": bytes(key.key),
    action: short(key.action),
    digest: short(key.digest),
    parameters: bytes(JSON.stringify(key.parameters, withoutBigints)),
    answer: bytes(toAnswerText(key)),
    commitment: short(key.commitment),
    recorded_at: whole(key.recordedAt),
    window_ends_at: whole(key.windowEndsAt),
    kept_until: whole(key.keptUntil),
    checkpoint: short(checkpoint),
  };
}

/** A rejected request is stored with its parameters, which may be anything. */
function withoutBigints(_: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}

export function fromResource(resource: KeptResource): ColumnLiterals {
  return {
    namespace: bytes(resource.namespace),
    name: bytes(resource.name),
    capacity: whole(resource.capacity),
    taken: whole(resource.taken),
    state: short(resource.state),
    is_declared: resource.isDeclared ? "1" : "0",
    events: whole(resource.events),
    last_hash: short(resource.lastHash),
  };
}

export function fromCommitment(commitment: KeptCommitment): ColumnLiterals {
  const { state, expiresAt } = commitment;
  return {
    namespace: bytes(commitment.namespace),
    id: short(commitment.id),
    resource: bytes(commitment.resource),
    requester: bytes(commitment.requester),
    units: whole(commitment.units),
    placed_at: whole(commitment.placedAt),
    expires_at: whole(expiresAt),
    held_until: state === "held" ? whole(expiresAt) : "NULL",
    state: short(state),
    ended_at: wholeOrNull(commitment.endedAt),
    confirmed_units: wholeOrNull(commitment.confirmedUnits),
    occupied: whole(commitment.occupied),
    requester_salt: short(commitment.requesterSalt),
    events: whole(commitment.events),
    last_hash: short(commitment.lastHash),
  };
}

export function fromEvent(event: JournalEvent): ColumnLiterals {
  return {
    namespace: bytes(event.namespace),
    subject: bytes(event.subject),
    number: whole(event.number),
    resource: event.resource === undefined ? "NULL" : bytes(event.resource),
    entry: whole(event.entry),
    kind: short(event.kind),
    at: whole(event.at),
    key_id: short(event.keyId),
    detail: bytes(event.detail),
    previous: short(event.previous),
    hash: short(event.hash),
    checkpoint: short(event.checkpoint),
  };
}

export function fromCheckpoint(checkpoint: Checkpoint): ColumnLiterals {
  return {
    namespace: bytes(checkpoint.namespace),
    id: short(checkpoint.id),
    at: whole(checkpoint.at),
    events: whole(checkpoint.events),
    digest: short(checkpoint.digest),
  };
}

export function isNull(row: MysqlRow, column: string): boolean {
  return row[column] === null || row[column] === undefined;
}

/**
 * Whether the row was only inserted to be locked: all cells but its namespace and name are NULL. A row with some NULL cells
 * is damaged. It must not count as missing, or its action would run again.
 */
export function isPlaceholder(row: MysqlRow): boolean {
  return Object.keys(row).every((column) => NAMES.has(column) || isNull(row, column));
}

const NAMES: ReadonlySet<string> = new Set(["namespace", "id", "name"]);

function reader<Kept>(
  table: string,
  names: readonly string[],
  read: (cells: Cells) => Kept,
): (row: MysqlRow) => Readable<Kept> {
  return (row) => {
    const cell = (column: string) => {
      const value = row[column] ?? null;
      if (value !== null && !isUtf8(value))
        throw wrongCell(column, `it is ${value.length} bytes that are not text`);
      return value === null ? null : value.toString("utf8");
    };
    return readRow({ table, names, cell }, read);
  };
}

export const toResource = reader("nevertwice_resources", ["name"], readResource);
export const toEvent = reader("nevertwice_reservation_events", ["subject", "number"], readEvent);
export const toCheckpoint = reader("nevertwice_checkpoints", ["id"], readCheckpoint);
export const toKey = reader("nevertwice_reservation_keys", ["id"], (cells) => {
  readWriter(cells, "checkpoint");
  return readKey(cells, { scope: cells.text("scope"), key: cells.text("key") });
});
export const toCommitment = reader("nevertwice_commitments", ["id"], (cells) => {
  const commitment = readCommitment(cells);
  const until = commitment.state === "held" ? commitment.expiresAt : undefined;
  // Elapsed holds are found only through this column.
  if (cells.optionalTime("held_until") !== until)
    cells.wrong("held_until", "it must equal expires_at while the commitment is held, and NULL otherwise");
  return commitment;
});
