/** The working set of a decision: the locked rows with the changes made so far, and the writes that result from them. */

import type { ActionRequest } from "./action-request.ts";
import { consistentCommitment, consistentKey, consistentResource, isConsistent } from "./consistent-rows.ts";
import {
  type ChainEnd,
  commitmentSubject,
  createCheckpoint,
  createEvent,
  type EventKind,
  type JournalEvent,
  NO_EVENTS,
  requestSubject,
  resourceSubject,
  saltedDigest,
} from "./journal.ts";
import { undeclared } from "./registry.ts";
import type { KeptCommitment, KeptResource, KeyRecord, LockedRows, Rules, Writes } from "./store.ts";

export interface EventDraft {
  readonly kind: EventKind;
  /** The request that caused it. */
  readonly by: Pick<ActionRequest, "keyId" | "digest" | "salt" | "actor"> | undefined;
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
  /** Adds an event to the chain of the resource; without one, an event of the request `request`, which only its checkpoint covers. */
  note(resource: string | undefined, request: string, draft: EventDraft): void;
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
  const { namespace, windowMs, historyMs } = rules;
  const keys = new Map<string, KeyRecord>();
  const resources = new Map<string, KeptResource>();
  const commitments = new Map<string, KeptCommitment>();
  const events: JournalEvent[] = [];

  function append(
    end: ChainEnd,
    event: Pick<JournalEvent, "subject" | "number" | "resource">,
    draft: EventDraft,
  ) {
    const { kind, by, at = now } = draft;
    const appended = createEvent(
      end,
      { namespace, ...event, kind, at, keyId: by?.keyId, detail: toDetail(draft) },
      checkpoint,
    );
    events.push(appended);
    return appended;
  }

  /** What the event says about its request: the audit needs it once the key is purged. */
  function toDetail({ by, detail }: EventDraft): object {
    if (by === undefined) return detail;
    const { digest, salt, actor } = by;
    const keptMs = historyMs === 0 ? undefined : windowMs + historyMs;
    return { ...detail, windowMs, keptMs, request: saltedDigest(salt, digest), actor };
  }

  const storedResource = (name: string) =>
    resources.get(name) ?? requireConsistent(found.resources.get(name), consistentResource);
  const resourceNamed = (name: string) =>
    storedResource(name) ?? { ...undeclared(name), namespace, ...NO_EVENTS };
  function appendTo(
    resource: KeptResource,
    subject: string,
    number: number,
    draft: EventDraft,
  ): JournalEvent {
    const { name } = resource;
    const event = append(resource, { subject, number, resource: name }, draft);
    resources.set(name, { ...resource, events: event.entry, lastHash: event.hash });
    return event;
  }
  const commitment = (id: string) =>
    commitments.get(id) ?? requireConsistent(found.commitments.get(id), consistentCommitment);
  return {
    now,
    rules,
    key: (id) => keys.get(id) ?? requireConsistent(found.keys.get(id), consistentKey),
    putKey: (key) => void keys.set(key.id, key),
    resource: resourceNamed,
    storedResource,
    putResource(resource, draft) {
      const { name, events: count } = resource;
      if (draft === undefined) resources.set(name, resource);
      else appendTo(resource, resourceSubject(name), count + 1, draft);
    },
    commitment,
    putCommitment(row, draft) {
      const { id, resource } = row;
      const { number, hash } = appendTo(
        resourceNamed(resource),
        commitmentSubject(id),
        row.events + 1,
        draft,
      );
      commitments.set(id, { ...row, events: number, lastHash: hash });
    },
    note(name, request, draft) {
      if (name === undefined)
        append(NO_EVENTS, { subject: requestSubject(request), number: 1, resource: undefined }, draft);
      else {
        const resource = resourceNamed(name);
        appendTo(resource, resourceSubject(name), resource.events + 1, draft);
      }
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
