/**
 * The append-only log of all transitions: one chain of hashes for each commitment and each declared resource, and one
 * checkpoint for each transaction. Transactions on different rows never wait for the same chain. The audit detects events
 * that were altered, removed, or cut off at the end.
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
] as const;

export type EventKind = (typeof EVENT_KINDS)[number];

/** The length and the last hash of a chain. */
export interface ChainEnd {
  /** How many events it has. */
  readonly events: number;
  readonly lastHash: string;
}

export interface JournalEvent {
  readonly namespace: string;
  /** `commitment:<id>` or `resource:<name>`. */
  readonly subject: string;
  /** From 1, without a gap. */
  readonly number: number;
  readonly kind: EventKind;
  readonly at: number;
  /** The key of the action; none if a hold expired to make room for another. */
  readonly keyId: string | undefined;
  /** What changed, as JSON. */
  readonly detail: string;
  readonly previous: string;
  readonly hash: string;
  readonly checkpoint: string;
}

export interface Checkpoint {
  readonly namespace: string;
  readonly id: string;
  readonly at: number;
  readonly events: number;
  /** Over the hashes of its events. */
  readonly digest: string;
}

export const NO_EVENTS: ChainEnd = { events: 0, lastHash: "" };

export function commitmentSubject(id: string): string {
  return `commitment:${id}`;
}

export function resourceSubject(name: string): string {
  return `resource:${name}`;
}

export type NewEvent = Pick<JournalEvent, "namespace" | "subject" | "kind" | "at" | "keyId"> & {
  readonly detail: object;
};

/** The next event of a chain. The fields are written out because spreading the object costs more than hashing it. */
export function createEvent(end: ChainEnd, event: NewEvent, checkpoint: string): JournalEvent {
  const { namespace, subject, kind, at, keyId } = event;
  const detail = JSON.stringify(event.detail);
  const number = end.events + 1;
  const previous = end.lastHash;
  const ownHash = hashEvent({ namespace, subject, number, kind, at, keyId, detail, previous, checkpoint });
  return { namespace, subject, number, kind, at, keyId, detail, previous, hash: ownHash, checkpoint };
}

export function hashEvent(event: Omit<JournalEvent, "hash">): string {
  const { namespace, subject, number, kind, at, keyId, detail, previous, checkpoint } = event;
  const parts = [
    "nevertwice/journal/1",
    namespace,
    subject,
    number,
    kind,
    at,
    keyId ?? "",
    detail,
    previous,
    checkpoint,
  ];
  return hash("sha256", parts.map((part) => lengthPrefixed(String(part))).join(""), "hex");
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
