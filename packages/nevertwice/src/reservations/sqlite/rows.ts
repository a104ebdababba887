/** Converts records to the columns of schema.ts, and rows back to records. */
import type { SqliteRow, SqlValue } from "../../stores/sqlite/client.ts";
import type { Checkpoint, JournalEvent } from "../journal.ts";
import type { KeptCommitment, KeptResource, KeyRecord } from "../store.ts";
import {
  readCheckpoint,
  readCommitment,
  readEvent,
  readKey,
  readResource,
  toAnswerText,
} from "../stored-records.ts";
import { type Cells, type Readable, readRow, wrongCell } from "../stored-rows.ts";
import { CHECKPOINTS, COMMITMENTS, EVENTS, KEYS, RESOURCES, type TableShape } from "./schema.ts";

/**
 * Some drivers end a text at U+0000, and UTF-8 cannot encode a lone surrogate. Such a text is stored as its UTF-16 bytes,
 * which SQLite never takes for equal to a text.
 */
export function toColumn(text: string): SqlValue {
  return text.includes("\u0000") || !text.isWellFormed() ? Buffer.from(text, "utf16le") : text;
}

/** The text that `toColumn` stored as bytes; undefined for any other bytes. */
function decodeText(bytes: Uint8Array): string | undefined {
  const text = Buffer.from(bytes).toString("utf16le");
  return bytes.length % 2 === 0 && typeof toColumn(text) !== "string" ? text : undefined;
}

const HASH = /^(?:(\d):)?([0-9a-f]{64})$/;
const HASH_BYTES = 32;

/**
 * A SHA-256 as its bytes, half as long as in hexadecimal: the index on the ids of keys is where most pages are written. The
 * digit of a version becomes a byte in front. Any other text is stored as text: no hash, where a chain begins.
 */
export function toHashColumn(text: string): SqlValue {
  const [, version, hex] = HASH.exec(text) ?? [];
  if (hex === undefined) return toColumn(text);
  return Buffer.from(version === undefined ? hex : `0${version}${hex}`, "hex");
}

/** The hash that `toHashColumn` stored as bytes; undefined for any other bytes. */
function decodeHash(bytes: Uint8Array): string | undefined {
  const hex = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");
  if (bytes.length === HASH_BYTES) return hex;
  const [version = 10] = bytes;
  return bytes.length === HASH_BYTES + 1 && version < 10 ? `${version}:${hex.slice(2)}` : undefined;
}

/** The position of a row in a page: its name, or NUL and its bytes in hexadecimal if the cell holds bytes. */
export function toPosition(cell: unknown): string {
  return cell instanceof Uint8Array ? `\u0000${Buffer.from(cell).toString("hex")}` : String(cell);
}

export function fromPosition(place: string): SqlValue {
  const isBytes = place.startsWith("\u0000") && /^(?:[0-9a-f]{2})*$/.test(place.slice(1));
  return isBytes ? Buffer.from(place.slice(1), "hex") : toColumn(place);
}

function reader<Kept>(
  { table, columns, key, hashes }: TableShape,
  read: (cells: Cells) => Kept,
): (row: SqliteRow) => Readable<Kept> {
  const places = new Map(columns.map((column, index) => [column, index]));
  const names = key.slice(1);
  return (row) => {
    const cell = (column: string) => {
      const value = row[places.get(column) as number];
      if (typeof value === "bigint" && Number.isSafeInteger(Number(value))) return Number(value);
      if (!(value instanceof Uint8Array)) return value;
      const text = (hashes.includes(column) ? decodeHash(value) : undefined) ?? decodeText(value);
      if (text === undefined) throw wrongCell(column, `it is ${value.length} bytes that are not text`);
      return text;
    };
    return readRow({ table, names, cell }, read);
  };
}

export function fromKey(record: KeyRecord): SqlValue[] {
  const { namespace, id, scope, key, action, digest, parameters, commitment } = record;
  return [
    toColumn(namespace),
    toHashColumn(id),
    toColumn(scope),
    toColumn(key),
    action,
    toHashColumn(digest),
    JSON.stringify(parameters),
    toAnswerText(record),
    commitment === undefined ? null : toColumn(commitment),
    record.recordedAt,
    record.windowEndsAt,
    record.keptUntil,
  ];
}

export const toKey = reader(KEYS, (cells) =>
  readKey(cells, { scope: cells.text("scope"), key: cells.text("key") }),
);

export function fromCommitment(commitment: KeptCommitment): SqlValue[] {
  const { namespace, id, resource, requester, units, placedAt, expiresAt } = commitment;
  return [
    toColumn(namespace),
    toColumn(id),
    toColumn(resource),
    toColumn(requester),
    units,
    placedAt,
    expiresAt,
    commitment.requesterSalt,
    commitment.state,
    commitment.endedAt ?? null,
    commitment.confirmedUnits ?? null,
    commitment.occupied,
    commitment.events,
    toHashColumn(commitment.lastHash),
  ];
}

export const toCommitment = reader(COMMITMENTS, readCommitment);

export function fromResource(resource: KeptResource): SqlValue[] {
  const { namespace, name, capacity, taken, state, isDeclared, events, lastHash } = resource;
  return [
    toColumn(namespace),
    toColumn(name),
    capacity,
    taken,
    state,
    Number(isDeclared),
    events,
    toHashColumn(lastHash),
  ];
}

export const toResource = reader(RESOURCES, readResource);

export function fromEvent(event: JournalEvent): SqlValue[] {
  const { namespace, subject, number, resource, entry, kind, at, keyId, detail, previous, hash, checkpoint } =
    event;
  return [
    toColumn(namespace),
    toColumn(subject),
    number,
    resource === undefined ? null : toColumn(resource),
    entry,
    kind,
    at,
    keyId === undefined ? null : toHashColumn(keyId),
    detail,
    toHashColumn(previous),
    toHashColumn(hash),
    checkpoint,
  ];
}

export const toEvent = reader(EVENTS, readEvent);

export function fromCheckpoint({ namespace, id, at, events, digest }: Checkpoint): SqlValue[] {
  return [toColumn(namespace), id, at, events, toHashColumn(digest)];
}

export const toCheckpoint = reader(CHECKPOINTS, readCheckpoint);
