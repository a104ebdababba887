/** Keys, resources, commitments, events and checkpoints as their rows have them, both ways. */
import type { Row } from "../../stores/mysql/client.ts";
import { bytes, MAX_SHORT_BYTES, short, whole } from "../../stores/mysql/literals.ts";
import { numberOf, textOf } from "../../stores/mysql/row.ts";
import type { ActionName } from "../asked.ts";
import type { CommitmentState } from "../commitment.ts";
import type { Checkpoint, EventKind, JournalEvent } from "../journal.ts";
import type { KeptCommitment, KeptResource, KeyRecord } from "../ledger.ts";
import type { ResourceState } from "../registry.ts";

/** Columns and what they are set to, as text of a statement. */
export type Columns = Readonly<Record<string, string>>;

const wholeOrNull = (value: number | undefined) => (value === undefined ? "NULL" : whole(value));

/** Longer than any id that was ever given out, so there is no such row. */
export function isTooLong(id: string): boolean {
  return Buffer.byteLength(id) > MAX_SHORT_BYTES;
}

/** `checkpoint` is that of the transaction that wrote it, by which it knows its own rows again. */
export function keyColumns(key: KeyRecord, checkpoint: string): Columns {
  return {
    id: short(key.id),
    namespace: bytes(key.namespace),
    scope: bytes(key.scope),
    "`key`": bytes(key.key),
    action: short(key.action),
    digest: short(key.digest),
    parameters: bytes(JSON.stringify(key.parameters, withoutBigints)),
    answer: bytes(JSON.stringify(key.answer)),
    commitment: short(key.commitment),
    recorded_at: whole(key.recordedAt),
    window_ends_at: whole(key.windowEndsAt),
    kept_until: whole(key.keptUntil),
    checkpoint: short(checkpoint),
  };
}

/** Anything may be asked for, and what is refused is kept with what was asked. */
function withoutBigints(_: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}

export function keyOf(row: Row): KeyRecord {
  return {
    id: textOf(row, "id"),
    namespace: textOf(row, "namespace"),
    scope: textOf(row, "scope"),
    key: textOf(row, "key"),
    action: textOf(row, "action") as ActionName,
    digest: textOf(row, "digest"),
    parameters: JSON.parse(textOf(row, "parameters")),
    answer: JSON.parse(textOf(row, "answer")),
    commitment: textOrNone(row, "commitment"),
    recordedAt: numberOf(row, "recorded_at"),
    windowEndsAt: numberOf(row, "window_ends_at"),
    keptUntil: numberOf(row, "kept_until"),
  };
}

export function resourceColumns(resource: KeptResource): Columns {
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

export function resourceOf(row: Row): KeptResource {
  return {
    namespace: textOf(row, "namespace"),
    name: textOf(row, "name"),
    capacity: numberOf(row, "capacity"),
    taken: numberOf(row, "taken"),
    state: textOf(row, "state") as ResourceState,
    isDeclared: numberOf(row, "is_declared") === 1,
    events: numberOf(row, "events"),
    lastHash: textOf(row, "last_hash"),
  };
}

export function commitmentColumns(commitment: KeptCommitment): Columns {
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
    events: whole(commitment.events),
    last_hash: short(commitment.lastHash),
  };
}

export function commitmentOf(row: Row): KeptCommitment {
  return {
    namespace: textOf(row, "namespace"),
    id: textOf(row, "id"),
    resource: textOf(row, "resource"),
    requester: textOf(row, "requester"),
    units: numberOf(row, "units"),
    placedAt: numberOf(row, "placed_at"),
    expiresAt: numberOf(row, "expires_at"),
    state: textOf(row, "state") as CommitmentState,
    endedAt: numberOrNone(row, "ended_at"),
    confirmedUnits: numberOrNone(row, "confirmed_units"),
    occupied: numberOf(row, "occupied"),
    events: numberOf(row, "events"),
    lastHash: textOf(row, "last_hash"),
  };
}

export function eventColumns(event: JournalEvent): Columns {
  return {
    namespace: bytes(event.namespace),
    subject: bytes(event.subject),
    number: whole(event.number),
    kind: short(event.kind),
    at: whole(event.at),
    key_id: short(event.keyId),
    detail: bytes(event.detail),
    previous: short(event.previous),
    hash: short(event.hash),
    checkpoint: short(event.checkpoint),
  };
}

export function eventOf(row: Row): JournalEvent {
  return {
    namespace: textOf(row, "namespace"),
    subject: textOf(row, "subject"),
    number: numberOf(row, "number"),
    kind: textOf(row, "kind") as EventKind,
    at: numberOf(row, "at"),
    keyId: textOrNone(row, "key_id"),
    detail: textOf(row, "detail"),
    previous: textOf(row, "previous"),
    hash: textOf(row, "hash"),
    checkpoint: textOf(row, "checkpoint"),
  };
}

export function checkpointColumns(checkpoint: Checkpoint): Columns {
  return {
    namespace: bytes(checkpoint.namespace),
    id: short(checkpoint.id),
    at: whole(checkpoint.at),
    events: whole(checkpoint.events),
    digest: short(checkpoint.digest),
  };
}

export function checkpointOf(row: Row): Checkpoint {
  return {
    namespace: textOf(row, "namespace"),
    id: textOf(row, "id"),
    at: numberOf(row, "at"),
    events: numberOf(row, "events"),
    digest: textOf(row, "digest"),
  };
}

export function isNone(row: Row, column: string): boolean {
  return row[column] === null || row[column] === undefined;
}

function textOrNone(row: Row, column: string): string | undefined {
  return isNone(row, column) ? undefined : textOf(row, column);
}

function numberOrNone(row: Row, column: string): number | undefined {
  return isNone(row, column) ? undefined : numberOf(row, column);
}
