/** The rows as they stand while a group of actions is decided, and what of them is to be written at its end. */
import {
  appendTo,
  checkpointOf,
  commitmentSubject,
  type EventKind,
  type JournalEvent,
  NO_EVENTS,
  resourceSubject,
} from "./journal.ts";
import type { Found, KeptCommitment, KeptResource, KeyRecord, Rules, Writes } from "./ledger.ts";
import { undeclared } from "./registry.ts";

export interface Note {
  readonly kind: EventKind;
  readonly keyId: string | undefined;
  /** When it is not the time of the transaction. */
  readonly at?: number | undefined;
  readonly detail: object;
}

export interface Books {
  readonly now: number;
  readonly rules: Rules;
  key(id: string): KeyRecord | undefined;
  putKey(key: KeyRecord): void;
  /** The resource of this name, declared or not. */
  resource(name: string): KeptResource;
  /** The same if it was ever written. */
  declared(name: string): KeptResource | undefined;
  putResource(resource: KeptResource, note?: Note): void;
  commitment(id: string): KeptCommitment | undefined;
  putCommitment(commitment: KeptCommitment, note: Note): void;
  /** Holds of this resource whose time is over, the oldest first. */
  elapsed(resource: string): readonly KeptCommitment[];
  writes(): Writes;
}

export function openBooks(found: Found, now: number, rules: Rules, checkpoint: string): Books {
  const { namespace } = rules;
  const keys = new Map<string, KeyRecord>();
  const resources = new Map<string, KeptResource>();
  const commitments = new Map<string, KeptCommitment>();
  const events: JournalEvent[] = [];

  function append<Row extends KeptResource | KeptCommitment>(row: Row, subject: string, note: Note): Row {
    const { kind, keyId, detail, at = now } = note;
    const event = appendTo(row, { namespace, subject, kind, at, keyId, detail }, checkpoint);
    events.push(event);
    return { ...row, events: event.number, lastHash: event.hash };
  }

  const declared = (name: string) => resources.get(name) ?? found.resources.get(name);
  const commitment = (id: string) => commitments.get(id) ?? found.commitments.get(id);
  return {
    now,
    rules,
    key: (id) => keys.get(id) ?? found.keys.get(id),
    putKey: (key) => void keys.set(key.id, key),
    resource: (name) => declared(name) ?? { ...undeclared(name), namespace, ...NO_EVENTS },
    declared,
    putResource(resource, note) {
      const { name } = resource;
      resources.set(name, note === undefined ? resource : append(resource, resourceSubject(name), note));
    },
    commitment,
    putCommitment(row, note) {
      commitments.set(row.id, append(row, commitmentSubject(row.id), note));
    },
    elapsed: (resource) =>
      (found.elapsed.get(resource) ?? []).flatMap(({ id }) => {
        const current = commitment(id) ?? found.elapsed.get(resource)?.find((held) => held.id === id);
        return current?.state === "held" ? [current] : [];
      }),
    writes: () => ({
      keys: [...keys.values()],
      resources: [...resources.values()],
      commitments: [...commitments.values()],
      events,
      checkpoint: events.length === 0 ? undefined : checkpointOf(namespace, checkpoint, now, events),
    }),
  };
}
