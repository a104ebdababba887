/** Traces a commitment to the keys that caused its events, and finds pairs of commitments that may be doubles. */
import { isErased } from "../commitment.ts";
import { commitmentSubject, type JournalEvent } from "../journal.ts";
import type { KeptCommitment, KeyRecord } from "../store.ts";
import type { UnreadableRow } from "../stored-rows.ts";
import type { AuditContext } from "./context.ts";
import { eventWindow } from "./judge-key.ts";
import { getOrCreate, scanPages, shareIndex } from "./page-scan.ts";
import { loadKey } from "./recheck.ts";

/** The key that caused an event. `record` is undefined once the key is purged; its id stays in the event forever. */
export interface KeyTrace {
  /** The id of the key: a hash of namespace, scope and key. */
  readonly keyId: string;
  /** The stored key; undefined once it is purged. */
  readonly record: KeyRecord | undefined;
}

/** An event of the journal with the key that caused it. */
export interface TracedEvent extends JournalEvent {
  /** Undefined if the hold expired to make room for another. */
  readonly by: KeyTrace | undefined;
}

/** All that is known about a commitment. */
export interface Trace {
  /** The commitment; undefined if its row is missing or cannot be read. */
  readonly commitment: KeptCommitment | undefined;
  /** The key that placed it. */
  readonly placedBy: KeyTrace | undefined;
  /** Undefined while it is held, and if it expired to make room for another. */
  readonly endedBy: KeyTrace | undefined;
  /** Its events, in order. */
  readonly events: readonly TracedEvent[];
  /** Stored keys of actions on this commitment, including those of rejected actions. */
  readonly keys: readonly KeyRecord[];
  /** Rows that cannot be read and are therefore missing above. */
  readonly unreadable: readonly UnreadableRow[];
}

/** Undefined if neither a row nor an event has this id. */
export async function traceCommitment(context: AuditContext, id: string): Promise<Trace | undefined> {
  const { store, namespace } = context;
  const unreadable = new Map<string, UnreadableRow>();
  const tallied: AuditContext = {
    ...context,
    notice: (rows) => {
      for (const row of rows) unreadable.set(JSON.stringify(row), row);
    },
  };
  const { commitment, unreadable: own } = await store.get(namespace, id);
  if (own !== undefined) tallied.notice?.([own]);
  const events = await traceEvents(tallied, id);
  if (commitment === undefined && events.length === 0 && unreadable.size === 0) return undefined;
  const keys: KeyRecord[] = [];
  for await (const rows of scanPages(tallied, (query) => store.keys({ ...query, commitment: id })))
    keys.push(...rows);
  const byKind = (...kinds: string[]) => events.find(({ kind }) => kinds.includes(kind))?.by;
  return {
    commitment,
    placedBy: byKind("placed"),
    endedBy: byKind("confirmed", "released", "expired"),
    events,
    keys,
    unreadable: [...unreadable.values()],
  };
}

async function traceEvents(context: AuditContext, id: string): Promise<readonly TracedEvent[]> {
  const events: TracedEvent[] = [];
  for await (const rows of eventPages(context, id))
    for (const event of rows) {
      const { keyId } = event;
      const by =
        keyId === undefined
          ? undefined
          : { keyId, record: matchingRecord(event, await loadKey(context, keyId)) };
      events.push({ ...event, by });
    }
  return events;
}

/** The record, if it is the one of this event: since then the key may have been recorded again for another action. */
function matchingRecord({ at }: JournalEvent, key: KeyRecord | undefined): KeyRecord | undefined {
  return key !== undefined && key.recordedAt <= at && at < key.windowEndsAt ? key : undefined;
}

/** Which pairs of commitments to look for. */
export interface DoublesQuery {
  /** The longest time between the placement of two commitments of a pair. */
  readonly withinMs: number;
  /** Only commitments of this resource. */
  readonly resource?: string | undefined;
  /** Only commitments of this requester. */
  readonly requester?: string | undefined;
  /** The most pairs to return; default 1,000. All pairs are counted. */
  readonly limit?: number | undefined;
  /** All values that `windowMs` ever had, for events that do not contain theirs; default: the current value. */
  readonly windowsMs?: readonly number[] | undefined;
}

/** Two commitments of the same resource and requester that were placed close together. */
export interface Double {
  /** The resource of both. */
  readonly resource: string;
  /** The requester of both. */
  readonly requester: string;
  /** How far apart they were placed, in milliseconds. */
  readonly apartMs: number;
  /** The earlier one. */
  readonly first: DoubleSide;
  /** The later one. */
  readonly second: DoubleSide;
  /**
   * `two-operations`: two keys, so two requests, whatever the sender intended. `one-key`: one key within its window, which
   * is a violation. `key-used-again`: one key after its window ended. `untold`: the event that names the key is missing.
   */
  readonly verdict: "two-operations" | "one-key" | "key-used-again" | "untold";
}

/** One commitment of a pair. */
export interface DoubleSide {
  /** The id of the commitment. */
  readonly id: string;
  /** When it was placed, in milliseconds since the epoch. */
  readonly placedAt: number;
  /** The key that placed it. */
  readonly placedBy: KeyTrace | undefined;
}

/** The pairs that were found. */
export interface Doubles {
  /** How many commitments were checked. */
  readonly looked: number;
  /** How many pairs there are; `pairs` has the first ones. */
  readonly count: number;
  /** The first pairs, up to `limit`. */
  readonly pairs: readonly Double[];
  /** How many of the `pairs` have the verdict `one-key`. */
  readonly violations: number;
  /** How many commitments cannot be read and were therefore not checked. */
  readonly unreadable: number;
}

/** Compares each commitment with the next one of the same resource and requester. */
export async function findDoubles(
  context: AuditContext,
  query: DoublesQuery,
  rowsAtOnce: number,
): Promise<Doubles> {
  const { withinMs, limit = 1_000 } = query;
  let looked = 0;
  let unreadable = 0;
  const tallied: AuditContext = {
    ...context,
    notice: (rows) => {
      unreadable += rows.length;
    },
  };
  for await (const rows of commitmentPages(tallied, query)) looked += rows.length;
  const shares = Math.max(1, Math.ceil(looked / rowsAtOnce));
  const pairs: Double[] = [];
  let count = 0;
  for (let share = 0; share < shares; share++) {
    const groups = new Map<string, KeptCommitment[]>();
    for await (const rows of commitmentPages(context, query))
      for (const row of rows) {
        // Whose they were is not known.
        if (isErased(row)) continue;
        const name = JSON.stringify([row.resource, row.requester]);
        if (shareIndex(name, shares) === share) getOrCreate(groups, name, () => []).push(row);
      }
    for (const group of groups.values()) {
      group.sort((a, b) => a.placedAt - b.placedAt);
      for (const [index, second] of group.entries()) {
        const first = group[index - 1];
        if (first === undefined || second.placedAt - first.placedAt > withinMs) continue;
        count++;
        if (pairs.length < limit) pairs.push(await toDouble(context, first, second));
      }
    }
  }
  const violations = pairs.filter(({ verdict }) => verdict === "one-key").length;
  return { looked, count, pairs, violations, unreadable };
}

async function toDouble(
  context: AuditContext,
  first: KeptCommitment,
  second: KeptCommitment,
): Promise<Double> {
  const [one, two] = await Promise.all([loadSide(context, first), loadSide(context, second)]);
  const apartMs = second.placedAt - first.placedAt;
  return {
    resource: second.resource,
    requester: second.requester,
    apartMs,
    first: toDoubleSide(one),
    second: toDoubleSide(two),
    verdict: judgePair(one, two, apartMs),
  };
}

function judgePair(one: SideWithWindow, two: SideWithWindow, apartMs: number): Double["verdict"] {
  if (one.placedBy === undefined || two.placedBy === undefined) return "untold";
  if (one.placedBy.keyId !== two.placedBy.keyId) return "two-operations";
  return apartMs < one.windowMs ? "one-key" : "key-used-again";
}

/** One side of a pair, with the window of the key that placed it. */
interface SideWithWindow extends DoubleSide {
  readonly windowMs: number;
}

async function loadSide(context: AuditContext, { id, placedAt }: KeptCommitment): Promise<SideWithWindow> {
  const { store, namespace, windows } = context;
  const { rows } = await store.events({ namespace, subject: commitmentSubject(id), limit: 1 });
  const [event] = rows;
  if (event?.keyId === undefined) return { id, placedAt, placedBy: undefined, windowMs: windows.shortest };
  const record = matchingRecord(event, await loadKey(context, event.keyId));
  const placedBy = { keyId: event.keyId, record };
  return { id, placedAt, placedBy, windowMs: eventWindow(event, windows) };
}

function toDoubleSide({ id, placedAt, placedBy }: SideWithWindow): DoubleSide {
  return { id, placedAt, placedBy };
}

function eventPages(context: AuditContext, id: string): AsyncGenerator<readonly JournalEvent[]> {
  return scanPages(context, (query) => context.store.events({ ...query, subject: commitmentSubject(id) }));
}

function commitmentPages(
  context: AuditContext,
  { resource, requester }: DoublesQuery,
): AsyncGenerator<readonly KeptCommitment[]> {
  return scanPages(context, (query) => context.store.commitments({ ...query, resource, requester }));
}
