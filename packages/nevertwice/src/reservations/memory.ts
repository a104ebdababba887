/** Reservations in memory: the reference implementation, and for tests. They are lost when the process ends. */
import { type Clock, systemClock } from "../core/clock.ts";
import { checkOptions, isClock } from "../core/option-checks.ts";
import { isElapsed } from "./commitment.ts";
import { decide } from "./decision.ts";
import type { Checkpoint, JournalEvent } from "./journal.ts";
import type { KeptCommitment, KeptResource, KeyRecord, Page, PageQuery, ReservationStore } from "./store.ts";
import { createTimeOrderedId } from "./time-ordered-id.ts";

/** Options of `memoryReservations`. */
export interface MemoryReservationsOptions {
  /**
   * The clock for holds and keys.
   * @default the system clock
   */
  readonly clock?: Clock | undefined;
}

/** The rows of one namespace. */
interface NamespaceRows {
  readonly keys: Map<string, KeyRecord>;
  readonly resources: Map<string, KeptResource>;
  readonly commitments: Map<string, KeptCommitment>;
  readonly events: JournalEvent[];
  readonly checkpoints: Map<string, Checkpoint>;
  /** The current holds of each resource, so that no search reads all commitments. */
  readonly holds: Map<string, ResourceHolds>;
  /** Sorted rows, dropped at the next write: a caller that reads page after page needs the same order again. */
  readonly sorted: Map<string, readonly NamedRow<unknown>[]>;
}

interface ResourceHolds {
  readonly ids: Set<string>;
  /** No hold expires before this time. */
  earliestEnd: number;
}

/** A row with the name that it is sorted by. */
interface NamedRow<Row> {
  readonly name: string;
  readonly row: Row;
}

/**
 * Keeps reservations in this process. They are lost when it ends.
 * @throws `options-invalid`
 * @example
 * ```ts
 * import { createReservations, WINDOWS } from "nevertwice/reservations";
 * import { memoryReservations } from "nevertwice/reservations/memory";
 *
 * const reservations = createReservations({ store: memoryReservations(), windowMs: WINDOWS.clientReplay });
 * await reservations.close();
 * ```
 */
export function memoryReservations(options: MemoryReservationsOptions = {}): ReservationStore {
  checkOptions(options, { clock: isClock });
  const { clock = systemClock } = options;
  const namespaces = new Map<string, NamespaceRows>();

  function rowsFor(namespace: string): NamespaceRows {
    let rows = namespaces.get(namespace);
    if (rows === undefined) {
      rows = {
        keys: new Map(),
        resources: new Map(),
        commitments: new Map(),
        events: [],
        checkpoints: new Map(),
        holds: new Map(),
        sorted: new Map(),
      };
      namespaces.set(namespace, rows);
    }
    return rows;
  }

  /** The matching rows of one kind, sorted by name, as a page. */
  function readPage<Row>(
    query: PageQuery,
    kind: "commitments" | "resources" | "keys" | "events" | "checkpoints",
    toName: (row: Row) => string,
    matches: (row: Row) => boolean,
  ): Page<Row> {
    const rows = rowsFor(query.namespace);
    let sorted = rows.sorted.get(kind) as readonly NamedRow<Row>[] | undefined;
    if (sorted === undefined) {
      sorted = sortByName(rows[kind].values() as Iterable<Row>, toName);
      rows.sorted.set(kind, sorted);
    }
    return toPage(sorted, query, matches);
  }

  return {
    async transact(group, rules) {
      const now = clock.now();
      const rows = rowsFor(rules.namespace);
      const elapsed = { get: (resource: string) => elapsedHolds(rows, resource, now) };
      const { answers, writes } = decide(group, { ...rows, elapsed }, now, rules, createTimeOrderedId());
      for (const key of writes.keys) rows.keys.set(key.id, key);
      for (const resource of writes.resources) rows.resources.set(resource.name, resource);
      for (const commitment of writes.commitments) saveCommitment(rows, commitment);
      rows.events.push(...writes.events);
      if (writes.checkpoint !== undefined) rows.checkpoints.set(writes.checkpoint.id, writes.checkpoint);
      if (writes.keys.length > 0) rows.sorted.clear();
      return answers;
    },
    get: async (namespace, id) => ({
      commitment: rowsFor(namespace).commitments.get(id),
      now: clock.now(),
    }),
    commitments: async ({ resource, requester, state, ...query }) =>
      readPage<KeptCommitment>(
        query,
        "commitments",
        ({ id }) => id,
        (commitment) =>
          (resource === undefined || commitment.resource === resource) &&
          (requester === undefined || commitment.requester === requester) &&
          (state === undefined || commitment.state === state),
      ),
    resources: async ({ name, ...query }) =>
      readPage<KeptResource>(
        query,
        "resources",
        (resource) => resource.name,
        (resource) => name === undefined || resource.name === name,
      ),
    keys: async ({ id, commitment, ...query }) =>
      readPage<KeyRecord>(
        query,
        "keys",
        (key) => key.id,
        (key) =>
          (id === undefined || key.id === id) && (commitment === undefined || key.commitment === commitment),
      ),
    events: async ({ subject, ...query }) =>
      readPage<JournalEvent>(
        query,
        "events",
        (event) => `${event.subject} ${String(event.number).padStart(16, "0")}`,
        (event) => subject === undefined || event.subject === subject,
      ),
    checkpoints: async (query) =>
      readPage<Checkpoint>(
        query,
        "checkpoints",
        ({ id }) => id,
        () => true,
      ),
    async elapsed(namespace, limit, after) {
      const now = clock.now();
      const rows = rowsFor(namespace);
      const all = [...rows.holds.keys()].flatMap((resource) => elapsedHolds(rows, resource, now));
      const last = after === undefined ? undefined : rows.commitments.get(after);
      return all
        .filter((hold) => last === undefined || byEnd(last, hold) < 0)
        .sort(byEnd)
        .slice(0, limit)
        .map(({ id }) => id);
    },
    async purge(limit) {
      const now = clock.now();
      let removed = 0;
      for (const { keys, sorted } of namespaces.values())
        for (const { id, keptUntil } of keys.values()) {
          if (now < keptUntil) continue;
          if (removed === limit) return { removed, more: true };
          keys.delete(id);
          sorted.delete("keys");
          removed++;
        }
      return { removed, more: false };
    },
    now: async () => clock.now(),
    close: async () => {},
  };
}

function elapsedHolds(rows: NamespaceRows, resource: string, now: number): readonly KeptCommitment[] {
  const holds = rows.holds.get(resource);
  if (holds === undefined || now < holds.earliestEnd) return [];
  const all = [...holds.ids].map((id) => rows.commitments.get(id) as KeptCommitment);
  holds.earliestEnd = all.reduce(
    (earliest, { expiresAt }) => Math.min(earliest, expiresAt),
    Number.POSITIVE_INFINITY,
  );
  return all.filter((hold) => isElapsed(hold, now)).sort((a, b) => a.expiresAt - b.expiresAt);
}

/** Oldest first. The id decides between holds that end at the same time, so that each hold has one position. */
function byEnd(a: KeptCommitment, b: KeptCommitment): number {
  return a.expiresAt - b.expiresAt || (a.id < b.id ? -1 : Number(a.id > b.id));
}

function saveCommitment(rows: NamespaceRows, commitment: KeptCommitment): void {
  const { id, resource, state, expiresAt } = commitment;
  rows.commitments.set(id, commitment);
  const holds = rows.holds.get(resource) ?? { ids: new Set(), earliestEnd: Number.POSITIVE_INFINITY };
  if (state === "held") {
    holds.ids.add(id);
    holds.earliestEnd = Math.min(holds.earliestEnd, expiresAt);
  } else holds.ids.delete(id);
  if (holds.ids.size === 0) rows.holds.delete(resource);
  else rows.holds.set(resource, holds);
}

function sortByName<Row>(rows: Iterable<Row>, toName: (row: Row) => string): readonly NamedRow<Row>[] {
  const named = [...rows].map((row) => ({ row, name: toName(row) }));
  return named.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The page of matching rows after the position `after`. */
function toPage<Row>(
  rows: readonly NamedRow<Row>[],
  { limit, after }: PageQuery,
  matches: (row: Row) => boolean,
): Page<Row> {
  const page: NamedRow<Row>[] = [];
  for (let at = after === undefined ? 0 : firstAfter(rows, after); at < rows.length; at++) {
    const named = rows[at] as NamedRow<Row>;
    if (!matches(named.row)) continue;
    if (page.length === limit) return { rows: page.map(({ row }) => row), next: page.at(-1)?.name };
    page.push(named);
  }
  return { rows: page.map(({ row }) => row) };
}

/** The index of the first row whose name is greater, by binary search. */
function firstAfter(rows: readonly NamedRow<unknown>[], name: string): number {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((rows[middle] as NamedRow<unknown>).name > name) high = middle;
    else low = middle + 1;
  }
  return low;
}
