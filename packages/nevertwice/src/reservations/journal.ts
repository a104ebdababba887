/**
 * The log of all transitions: append-only, a chain of hashes for each commitment and each declared resource, and a
 * checkpoint for each transaction over all that it wrote. So no two transactions wait for one chain, and what was
 * altered, taken out or cut off at the end is found.
 */
import { hash } from "node:crypto";
import { lengthPrefixed } from "../core/bytes.ts";

export type EventKind =
  | "placed"
  | "confirmed"
  | "released"
  | "expired"
  | "given-back"
  | "declared"
  | "adjusted"
  | "suspended"
  | "resumed"
  | "closed";

/** Where a chain ends. */
export interface ChainEnd {
  /** How many events it has. */
  readonly events: number;
  readonly lastHash: string;
}

export interface JournalEvent {
  readonly namespace: string;
  /** `commitment:` and its id, or `resource:` and its name. */
  readonly subject: string;
  /** From 1, without a gap. */
  readonly number: number;
  readonly kind: EventKind;
  readonly at: number;
  /** Which key asked for it; none for what expired by itself. */
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

export type Happening = Pick<JournalEvent, "namespace" | "subject" | "kind" | "at" | "keyId"> & {
  readonly detail: object;
};

/** The next event of a chain. Field by field: spreading the object costs more than hashing it. */
export function appendTo(end: ChainEnd, happening: Happening, checkpoint: string): JournalEvent {
  const { namespace, subject, kind, at, keyId } = happening;
  const detail = JSON.stringify(happening.detail);
  const number = end.events + 1;
  const previous = end.lastHash;
  const told = hashOf({ namespace, subject, number, kind, at, keyId, detail, previous, checkpoint });
  return { namespace, subject, number, kind, at, keyId, detail, previous, hash: told, checkpoint };
}

export function hashOf(event: Omit<JournalEvent, "hash">): string {
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

export function checkpointOf(
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
    digest: digestOfHashes(events.map((event) => event.hash)),
  };
}

/** In any order: rows come back as the database likes. */
export function digestOfHashes(hashes: readonly string[]): string {
  return hash("sha256", [...hashes].sort().join(","), "hex");
}
