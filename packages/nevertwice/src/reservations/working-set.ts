/** The working set of a decision: the locked rows with the changes made so far, and the writes that result from them. */

import { consistentCommitment, consistentKey, consistentResource, isConsistent } from "./consistent-rows.ts";
import {
  commitmentSubject,
  createCheckpoint,
  createEvent,
  type EventKind,
  type JournalEvent,
  NO_EVENTS,
  resourceSubject,
} from "./journal.ts";
import { undeclared } from "./registry.ts";
import type { KeptCommitment, KeptResource, KeyRecord, LockedRows, Rules, Writes } from "./store.ts";

export interface EventDraft {
  readonly kind: EventKind;
  readonly keyId: string | undefined;
  /** Default: the time of the transaction. */
  readonly at?: number | undefined;
  readonly detail: object;
}

/** Reading a row whose cells contradict each other throws `store-unsafe`. */
export interface WorkingSet {
  readonly now: number;
  readonly rules: Rules;
  key(id: string): KeyRecord | undefined;
  putKey(key: KeyRecord): void;
  /** The resource with this name; the default one if there is no row. */
  resource(name: string): KeptResource;
  /** The row of the resource, if there is one. */
  storedResource(name: string): KeptResource | undefined;
  putResource(resource: KeptResource, draft?: EventDraft): void;
  commitment(id: string): KeptCommitment | undefined;
  putCommitment(commitment: KeptCommitment, draft: EventDraft): void;
  /** Holds of this resource whose time is over, oldest first. A hold whose row contradicts itself is left out and keeps its units. */
  elapsed(resource: string): readonly KeptCommitment[];
  writes(): Writes;
}

export function createWorkingSet(
  found: LockedRows,
  now: number,
  rules: Rules,
  checkpoint: string,
): WorkingSet {
  const { namespace, windowMs } = rules;
  const keys = new Map<string, KeyRecord>();
  const resources = new Map<string, KeptResource>();
  const commitments = new Map<string, KeptCommitment>();
  const events: JournalEvent[] = [];

  function append<Row extends KeptResource | KeptCommitment>(
    row: Row,
    subject: string,
    draft: EventDraft,
  ): Row {
    const { kind, keyId, at = now } = draft;
    // The window that its key was recorded with. The audit needs it once the key is purged.
    const detail = keyId === undefined ? draft.detail : { ...draft.detail, windowMs };
    const event = createEvent(row, { namespace, subject, kind, at, keyId, detail }, checkpoint);
    events.push(event);
    return { ...row, events: event.number, lastHash: event.hash };
  }

  const storedResource = (name: string) =>
    resources.get(name) ?? requireConsistent(found.resources.get(name), consistentResource);
  const commitment = (id: string) =>
    commitments.get(id) ?? requireConsistent(found.commitments.get(id), consistentCommitment);
  return {
    now,
    rules,
    key: (id) => keys.get(id) ?? requireConsistent(found.keys.get(id), consistentKey),
    putKey: (key) => void keys.set(key.id, key),
    resource: (name) => storedResource(name) ?? { ...undeclared(name), namespace, ...NO_EVENTS },
    storedResource,
    putResource(resource, draft) {
      const { name } = resource;
      resources.set(name, draft === undefined ? resource : append(resource, resourceSubject(name), draft));
    },
    commitment,
    putCommitment(row, draft) {
      commitments.set(row.id, append(row, commitmentSubject(row.id), draft));
    },
    elapsed: (resource) =>
      (found.elapsed.get(resource) ?? []).flatMap((held) => {
        const current = commitments.get(held.id) ?? held;
        return current.state === "held" && isConsistent(current) ? [current] : [];
      }),
    writes: () => ({
      keys: [...keys.values()],
      resources: [...resources.values()],
      commitments: [...commitments.values()],
      events,
      checkpoint: events.length === 0 ? undefined : createCheckpoint(namespace, checkpoint, now, events),
    }),
  };
}

function requireConsistent<Row>(row: Row | undefined, check: (row: Row) => Row): Row | undefined {
  return row === undefined ? undefined : check(row);
}
