/**
 * The append-only log of all transitions and refusals: one chain of hashes for each resource, which also contains the events
 * of its commitments, and one checkpoint for each transaction. A chain grows only under the lock of its resource, so
 * transactions on different resources never wait for the same chain. The audit detects events that were altered or removed.
 *
 *   resource:room   1 declared ◀── 2 placed ◀── 3 refused ◀── 4 confirmed ◀── the row of the resource
 *   commitment:c                     1 placed                   2 confirmed ◀── the row of the commitment
 */
import { hash } from "node:crypto";
import { lengthPrefixed } from "../core/bytes.ts";

export const EVENT_KINDS = [
  "placed",
  "confirmed",
  "released",
  "expired",
  "given-back",
  "declared",
  "adjusted",
  "suspended",
  "resumed",
  "closed",
  /** An action was rejected. Nothing else changed. */
  "refused",
  /** The requester was erased. */
  "erased",
] as const;

/** What an event of the journal records. */
export type EventKind = (typeof EVENT_KINDS)[number];

/** The length and the last hash of a chain. */
export interface ChainEnd {
  /** How many events it has. */
  readonly events: number;
  /** The hash of its last event; empty if it has none. */
  readonly lastHash: string;
}

/** An event of the journal. It is never changed or removed. */
export interface JournalEvent {
  /** The namespace of the reservations. */
  readonly namespace: string;
  /** `commitment:<id>`, `resource:<name>`, or `request:<key and time>` for a refusal that belongs to no resource. */
  readonly subject: string;
  /** From 1 without a gap for a commitment; the `entry` for a resource. */
  readonly number: number;
  /** The resource whose chain contains the event. */
  readonly resource: string | undefined;
  /** Its position in that chain, from 1 without a gap; 0 without a resource. */
  readonly entry: number;
  /** What happened. */
  readonly kind: EventKind;
  /** When it was recorded, in milliseconds since the epoch. */
  readonly at: number;
  /** The key of the action; none if a hold expired to make room for another. */
  readonly keyId: string | undefined;
  /** What changed, as JSON. */
  readonly detail: string;
  /** The hash of the previous event of the resource. */
  readonly previous: string;
  /** The hash of this event. */
  readonly hash: string;
  /** The id of the checkpoint that the event belongs to. */
  readonly checkpoint: string;
}

/** The events of one transaction, under one digest. */
export interface Checkpoint {
  /** The namespace of the reservations. */
  readonly namespace: string;
  /** The id of the checkpoint. */
  readonly id: string;
  /** When it was written, in milliseconds since the epoch. */
  readonly at: number;
  /** How many events it has. */
  readonly events: number;
  /** Over the hashes of its events. */
  readonly digest: string;
}

export const JOURNAL_VERSION = "2";

export const NO_EVENTS: ChainEnd = { events: 0, lastHash: "" };

export function commitmentSubject(id: string): string {
  return `commitment:${id}`;
}

export function resourceSubject(name: string): string {
  return `resource:${name}`;
}

export function requestSubject(request: string): string {
  return `request:${request}`;
}

/** The name of a request that belongs to no resource: by its key, so that the audit can find its event. */
export function unboundRequest(keyId: string, at: number): string {
  return `${keyId} at ${at}`;
}

export type NewEvent = Pick<
  JournalEvent,
  "namespace" | "subject" | "number" | "resource" | "kind" | "at" | "keyId"
> & {
  readonly detail: object;
};

/** The next event of a resource's chain. The fields are written out because spreading the object costs more than hashing it. */
export function createEvent(end: ChainEnd, event: NewEvent, checkpoint: string): JournalEvent {
  const { namespace, subject, number, resource, kind, at, keyId } = event;
  const detail = JSON.stringify(event.detail);
  const entry = resource === undefined ? 0 : end.events + 1;
  const previous = end.lastHash;
  const hashed = {
    namespace,
    subject,
    number,
    resource,
    entry,
    kind,
    at,
    keyId,
    detail,
    previous,
    checkpoint,
  };
  const ownHash = hashEvent(hashed);
  return {
    namespace,
    subject,
    number,
    resource,
    entry,
    kind,
    at,
    keyId,
    detail,
    previous,
    hash: ownHash,
    checkpoint,
  };
}

export function hashEvent(event: Omit<JournalEvent, "hash">): string {
  const { namespace, subject, number, resource, entry, kind, at, keyId, detail, previous, checkpoint } =
    event;
  const parts = [
    `nevertwice/journal/${JOURNAL_VERSION}`,
    namespace,
    subject,
    number,
    resource ?? "",
    entry,
    kind,
    at,
    keyId ?? "",
    detail,
    previous,
    checkpoint,
  ];
  return hash("sha256", parts.map((part) => lengthPrefixed(String(part))).join(""), "hex");
}

/** A digest of something that may have to be erased. Without the salt, guessing the text is of no use. */
export function saltedDigest(salt: string, text: string): string {
  return hash("sha256", ["nevertwice/salted/1", salt, text].map(lengthPrefixed).join(""), "hex");
}

export function createCheckpoint(
  namespace: string,
  id: string,
  at: number,
  events: readonly JournalEvent[],
): Checkpoint {
  return {
    namespace,
    id,
    at,
    events: events.length,
    digest: digestHashes(events.map((event) => event.hash)),
  };
}

/** Does not depend on the order of the hashes: databases return rows in any order. */
export function digestHashes(hashes: readonly string[]): string {
  return hash("sha256", [...hashes].sort().join(","), "hex");
}
