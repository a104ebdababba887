/** Rows as the columns of sql.ts, and back. */
import type { Row, SqlValue } from "../../stores/sqlite/driver.ts";
import type { Checkpoint, JournalEvent } from "../journal.ts";
import type { KeptCommitment, KeptResource, KeyRecord } from "../ledger.ts";

/**
 * Some drivers end a text at U+0000, and a lone surrogate is no UTF-8: such a text is kept as its UTF-16 bytes, which no
 * text is equal to.
 */
export function toColumn(text: string): SqlValue {
  return text.includes("\u0000") || !text.isWellFormed() ? Buffer.from(text, "utf16le") : text;
}

export function fromColumn(value: unknown): string {
  return typeof value === "string" ? value : Buffer.from(value as Uint8Array).toString("utf16le");
}

function optionalText(value: unknown): string | undefined {
  return value === null ? undefined : fromColumn(value);
}

function optional(value: unknown): number | undefined {
  return value === null ? undefined : (value as number);
}

export function fromKey(record: KeyRecord): SqlValue[] {
  const { namespace, id, scope, key, action, digest, parameters, answer, commitment } = record;
  return [
    toColumn(namespace),
    toColumn(id),
    toColumn(scope),
    toColumn(key),
    action,
    digest,
    JSON.stringify(parameters),
    JSON.stringify(answer),
    commitment === undefined ? null : toColumn(commitment),
    record.recordedAt,
    record.windowEndsAt,
    record.keptUntil,
  ];
}

export function toKey(row: Row): KeyRecord {
  const [namespace, id, scope, key, action, digest, parameters, answer, commitment, ...times] = row;
  const [recordedAt, windowEndsAt, keptUntil] = times as [number, number, number];
  return {
    namespace: fromColumn(namespace),
    id: fromColumn(id),
    scope: fromColumn(scope),
    key: fromColumn(key),
    action: action as KeyRecord["action"],
    digest: digest as string,
    parameters: JSON.parse(parameters as string),
    answer: JSON.parse(answer as string),
    commitment: optionalText(commitment),
    recordedAt,
    windowEndsAt,
    keptUntil,
  };
}

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
    commitment.state,
    commitment.endedAt ?? null,
    commitment.confirmedUnits ?? null,
    commitment.occupied,
    commitment.events,
    commitment.lastHash,
  ];
}

export function toCommitment(row: Row): KeptCommitment {
  const [namespace, id, resource, requester, units, placedAt, expiresAt, state, endedAt, confirmed, ...rest] =
    row;
  const [occupied, events, lastHash] = rest as [number, number, string];
  return {
    namespace: fromColumn(namespace),
    id: fromColumn(id),
    resource: fromColumn(resource),
    requester: fromColumn(requester),
    units: units as number,
    placedAt: placedAt as number,
    expiresAt: expiresAt as number,
    state: state as KeptCommitment["state"],
    endedAt: optional(endedAt),
    confirmedUnits: optional(confirmed),
    occupied,
    events,
    lastHash,
  };
}

export function fromResource(resource: KeptResource): SqlValue[] {
  const { namespace, name, capacity, taken, state, isDeclared, events, lastHash } = resource;
  return [toColumn(namespace), toColumn(name), capacity, taken, state, Number(isDeclared), events, lastHash];
}

export function toResource(row: Row): KeptResource {
  const [namespace, name, capacity, taken, state, isDeclared, events, lastHash] = row;
  return {
    namespace: fromColumn(namespace),
    name: fromColumn(name),
    capacity: capacity as number,
    taken: taken as number,
    state: state as KeptResource["state"],
    isDeclared: isDeclared === 1,
    events: events as number,
    lastHash: lastHash as string,
  };
}

export function fromEvent(event: JournalEvent): SqlValue[] {
  const { namespace, subject, number, kind, at, keyId, detail, previous, hash, checkpoint } = event;
  return [
    toColumn(namespace),
    toColumn(subject),
    number,
    kind,
    at,
    keyId === undefined ? null : toColumn(keyId),
    detail,
    previous,
    hash,
    checkpoint,
  ];
}

export function toEvent(row: Row): JournalEvent {
  const [namespace, subject, number, kind, at, keyId, detail, previous, hash, checkpoint] = row;
  return {
    namespace: fromColumn(namespace),
    subject: fromColumn(subject),
    number: number as number,
    kind: kind as JournalEvent["kind"],
    at: at as number,
    keyId: optionalText(keyId),
    detail: detail as string,
    previous: previous as string,
    hash: hash as string,
    checkpoint: checkpoint as string,
  };
}

export function fromCheckpoint({ namespace, id, at, events, digest }: Checkpoint): SqlValue[] {
  return [toColumn(namespace), id, at, events, digest];
}

export function toCheckpoint(row: Row): Checkpoint {
  const [namespace, id, at, events, digest] = row;
  return {
    namespace: fromColumn(namespace),
    id: id as string,
    at: at as number,
    events: events as number,
    digest: digest as string,
  };
}
