/** From a commitment to the keys behind it, and from commitments that look like doubles to whether they are. */
import { commitmentSubject, type JournalEvent } from "../journal.ts";
import type { KeptCommitment, KeyRecord } from "../ledger.ts";
import { keyOf, type Reading } from "./anew.ts";
import { entryOf, pagesOf, shareOf } from "./pages.ts";

/** Which key asked for something. `record` is undefined once it was purged; the id stays in the event for ever. */
export interface KeyTrace {
  readonly keyId: string;
  readonly record: KeyRecord | undefined;
}

export interface TracedEvent extends JournalEvent {
  /** None for what expired by itself. */
  readonly by: KeyTrace | undefined;
}

export interface Trace {
  readonly commitment: KeptCommitment | undefined;
  readonly placedBy: KeyTrace | undefined;
  /** Undefined as long as it is held, and if it expired by itself. */
  readonly endedBy: KeyTrace | undefined;
  readonly events: readonly TracedEvent[];
  /** Keys that are kept and named it, also those that were refused. */
  readonly keys: readonly KeyRecord[];
}

/** Undefined if neither a row nor an event knows the id. */
export async function traceOf(reading: Reading, id: string): Promise<Trace | undefined> {
  const { store, namespace } = reading;
  const { commitment } = await store.get(namespace, id);
  const events: TracedEvent[] = [];
  for await (const rows of eventPages(reading, id))
    for (const event of rows) {
      const { keyId } = event;
      const by =
        keyId === undefined ? undefined : { keyId, record: recordingOf(event, await keyOf(reading, keyId)) };
      events.push({ ...event, by });
    }
  if (commitment === undefined && events.length === 0) return undefined;
  const keys: KeyRecord[] = [];
  for await (const rows of pagesOf(reading, (query) => store.keys({ ...query, commitment: id })))
    keys.push(...rows);
  const byKind = (...kinds: string[]) => events.find(({ kind }) => kinds.includes(kind))?.by;
  return {
    commitment,
    placedBy: byKind("placed"),
    endedBy: byKind("confirmed", "released", "expired"),
    events,
    keys,
  };
}

/** A key may have been recorded anew since, for something else. */
function recordingOf({ at }: JournalEvent, key: KeyRecord | undefined): KeyRecord | undefined {
  return key !== undefined && key.recordedAt <= at && at < key.windowEndsAt ? key : undefined;
}

export interface DoublesQuery {
  /** How near to each other two of them were placed. */
  readonly withinMs: number;
  readonly resource?: string | undefined;
  readonly requester?: string | undefined;
  /** How many pairs at most; default 1,000. The count goes on. */
  readonly limit?: number | undefined;
}

export interface Double {
  readonly resource: string;
  readonly requester: string;
  readonly apartMs: number;
  readonly first: DoubleSide;
  readonly second: DoubleSide;
  /**
   * `two-operations`: two keys, so two requests, whatever their sender meant. `one-key`: one key within its window, which
   * cannot be. `key-used-again`: one key, whose window was over. `untold`: an event that should name a key is missing.
   */
  readonly verdict: "two-operations" | "one-key" | "key-used-again" | "untold";
}

export interface DoubleSide {
  readonly id: string;
  readonly placedAt: number;
  readonly placedBy: KeyTrace | undefined;
}

export interface Doubles {
  /** How many commitments were looked at. */
  readonly looked: number;
  /** How many pairs there are; `pairs` are the first of them. */
  readonly count: number;
  readonly pairs: readonly Double[];
  /** Of those in `pairs`: how many are of one key within its window. */
  readonly violations: number;
}

/** Each commitment beside the one of the same resource and requester that was placed next. */
export async function doublesOf(reading: Reading, query: DoublesQuery, rowsAtOnce: number): Promise<Doubles> {
  const { withinMs, limit = 1_000 } = query;
  let looked = 0;
  for await (const rows of commitmentPages(reading, query)) looked += rows.length;
  const shares = Math.max(1, Math.ceil(looked / rowsAtOnce));
  const pairs: Double[] = [];
  let count = 0;
  for (let share = 0; share < shares; share++) {
    const groups = new Map<string, KeptCommitment[]>();
    for await (const rows of commitmentPages(reading, query))
      for (const row of rows) {
        const name = JSON.stringify([row.resource, row.requester]);
        if (shareOf(name, shares) === share) entryOf(groups, name, () => []).push(row);
      }
    for (const group of groups.values()) {
      group.sort((a, b) => a.placedAt - b.placedAt);
      for (const [index, second] of group.entries()) {
        const first = group[index - 1];
        if (first === undefined || second.placedAt - first.placedAt > withinMs) continue;
        count++;
        if (pairs.length < limit) pairs.push(await pairOf(reading, first, second));
      }
    }
  }
  return { looked, count, pairs, violations: pairs.filter(({ verdict }) => verdict === "one-key").length };
}

async function pairOf(reading: Reading, first: KeptCommitment, second: KeptCommitment): Promise<Double> {
  const [one, two] = await Promise.all([sideOf(reading, first), sideOf(reading, second)]);
  const apartMs = second.placedAt - first.placedAt;
  return {
    resource: second.resource,
    requester: second.requester,
    apartMs,
    first: one,
    second: two,
    verdict: verdictOn(one, two, apartMs, reading.windows.shortest),
  };
}

function verdictOn(one: DoubleSide, two: DoubleSide, apartMs: number, windowMs: number): Double["verdict"] {
  if (one.placedBy === undefined || two.placedBy === undefined) return "untold";
  if (one.placedBy.keyId !== two.placedBy.keyId) return "two-operations";
  return apartMs < windowMs ? "one-key" : "key-used-again";
}

async function sideOf(reading: Reading, { id, placedAt }: KeptCommitment): Promise<DoubleSide> {
  const { store, namespace } = reading;
  const { rows } = await store.events({ namespace, subject: commitmentSubject(id), limit: 1 });
  const [event] = rows;
  if (event?.keyId === undefined) return { id, placedAt, placedBy: undefined };
  const record = recordingOf(event, await keyOf(reading, event.keyId));
  return { id, placedAt, placedBy: { keyId: event.keyId, record } };
}

function eventPages(reading: Reading, id: string): AsyncGenerator<readonly JournalEvent[]> {
  return pagesOf(reading, (query) => reading.store.events({ ...query, subject: commitmentSubject(id) }));
}

function commitmentPages(
  reading: Reading,
  { resource, requester }: DoublesQuery,
): AsyncGenerator<readonly KeptCommitment[]> {
  return pagesOf(reading, (query) => reading.store.commitments({ ...query, resource, requester }));
}
