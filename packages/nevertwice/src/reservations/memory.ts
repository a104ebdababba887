/** Reservations in this process's memory: the reference, and for tests. They are gone with the process. */
import { randomUUID } from "node:crypto";
import { type Clock, systemClock } from "../core/clock.ts";
import { checkOptions, isClock } from "../core/policy.ts";
import { isElapsed } from "./commitment.ts";
import type { Checkpoint, JournalEvent } from "./journal.ts";
import type { KeptCommitment, KeptResource, KeyRecord, Page, PageQuery, ReservationStore } from "./ledger.ts";
import { decide, needsOf } from "./reservations.ts";

export interface MemoryReservationsOptions {
  readonly clock?: Clock | undefined;
}

/** All that belongs to one application. */
interface Shelf {
  readonly keys: Map<string, KeyRecord>;
  readonly resources: Map<string, KeptResource>;
  readonly commitments: Map<string, KeptCommitment>;
  readonly events: JournalEvent[];
  readonly checkpoints: Map<string, Checkpoint>;
  /** What is held of each resource, so that nothing has to look through all that ever was. */
  readonly held: Map<string, Held>;
  /** Rows in the order of their names, until something is written: whoever turns pages asks for the same again. */
  readonly orders: Map<string, readonly Named<unknown>[]>;
}

interface Held {
  readonly ids: Set<string>;
  /** None of them is over before this. */
  soonest: number;
}

interface Named<Row> {
  readonly name: string;
  readonly row: Row;
}

export function memoryReservations(options: MemoryReservationsOptions = {}): ReservationStore {
  checkOptions(options, { clock: isClock });
  const { clock = systemClock } = options;
  const shelves = new Map<string, Shelf>();

  function shelfOf(namespace: string): Shelf {
    let shelf = shelves.get(namespace);
    if (shelf === undefined) {
      shelf = {
        keys: new Map(),
        resources: new Map(),
        commitments: new Map(),
        events: [],
        checkpoints: new Map(),
        held: new Map(),
        orders: new Map(),
      };
      shelves.set(namespace, shelf);
    }
    return shelf;
  }

  return {
    async transact(group, rules) {
      const now = clock.now();
      const shelf = shelfOf(rules.namespace);
      const elapsed = new Map(
        needsOf(group).placements.map(({ resource }) => [resource, elapsedOf(shelf, resource, now)]),
      );
      const { answers, writes } = decide(group, { ...shelf, elapsed }, now, rules, randomUUID());
      for (const key of writes.keys) shelf.keys.set(key.id, key);
      for (const resource of writes.resources) shelf.resources.set(resource.name, resource);
      for (const commitment of writes.commitments) keep(shelf, commitment);
      shelf.events.push(...writes.events);
      if (writes.checkpoint !== undefined) shelf.checkpoints.set(writes.checkpoint.id, writes.checkpoint);
      if (writes.keys.length > 0) shelf.orders.clear();
      return answers;
    },
    get: async (namespace, id) => ({
      commitment: shelfOf(namespace).commitments.get(id),
      now: clock.now(),
    }),
    async commitments({ resource, requester, state, ...page }) {
      const shelf = shelfOf(page.namespace);
      const rows = inOrder(
        shelf,
        "commitments",
        () => shelf.commitments.values(),
        ({ id }) => id,
      );
      return pageOf(
        rows,
        page,
        (commitment) =>
          (resource === undefined || commitment.resource === resource) &&
          (requester === undefined || commitment.requester === requester) &&
          (state === undefined || commitment.state === state),
      );
    },
    async resources({ name, ...page }) {
      const shelf = shelfOf(page.namespace);
      const rows = inOrder(
        shelf,
        "resources",
        () => shelf.resources.values(),
        (resource) => resource.name,
      );
      return pageOf(rows, page, (resource) => name === undefined || resource.name === name);
    },
    async keys({ id, commitment, ...page }) {
      const shelf = shelfOf(page.namespace);
      const rows = inOrder(
        shelf,
        "keys",
        () => shelf.keys.values(),
        (key) => key.id,
      );
      return pageOf(
        rows,
        page,
        (key) =>
          (id === undefined || key.id === id) && (commitment === undefined || key.commitment === commitment),
      );
    },
    async events({ subject, ...page }) {
      const shelf = shelfOf(page.namespace);
      const nameOf = (event: JournalEvent) => `${event.subject} ${String(event.number).padStart(16, "0")}`;
      const rows = inOrder(shelf, "events", () => shelf.events, nameOf);
      return pageOf(rows, page, (event) => subject === undefined || event.subject === subject);
    },
    async checkpoints(page) {
      const shelf = shelfOf(page.namespace);
      return pageOf(
        inOrder(
          shelf,
          "checkpoints",
          () => shelf.checkpoints.values(),
          ({ id }) => id,
        ),
        page,
        () => true,
      );
    },
    async elapsed(namespace, limit) {
      const now = clock.now();
      const shelf = shelfOf(namespace);
      const all = [...shelf.held.keys()].flatMap((resource) => elapsedOf(shelf, resource, now));
      return all
        .sort((a, b) => a.expiresAt - b.expiresAt)
        .slice(0, limit)
        .map(({ id }) => id);
    },
    async purge(limit) {
      const now = clock.now();
      let removed = 0;
      for (const { keys, orders } of shelves.values())
        for (const { id, keptUntil } of keys.values()) {
          if (now < keptUntil) continue;
          if (removed === limit) return { removed, more: true };
          keys.delete(id);
          orders.delete("keys");
          removed++;
        }
      return { removed, more: false };
    },
    now: async () => clock.now(),
    close: async () => {},
  };
}

function elapsedOf({ held, commitments }: Shelf, resource: string, now: number): readonly KeptCommitment[] {
  const of = held.get(resource);
  if (of === undefined || now < of.soonest) return [];
  const all = [...of.ids].map((id) => commitments.get(id) as KeptCommitment);
  of.soonest = all.reduce((soonest, { expiresAt }) => Math.min(soonest, expiresAt), Number.POSITIVE_INFINITY);
  return all.filter((commitment) => isElapsed(commitment, now)).sort((a, b) => a.expiresAt - b.expiresAt);
}

function keep({ held, commitments }: Shelf, commitment: KeptCommitment): void {
  const { id, resource, state, expiresAt } = commitment;
  commitments.set(id, commitment);
  const of = held.get(resource) ?? { ids: new Set(), soonest: Number.POSITIVE_INFINITY };
  if (state === "held") of.ids.add(id);
  else of.ids.delete(id);
  if (state === "held") of.soonest = Math.min(of.soonest, expiresAt);
  if (of.ids.size === 0) held.delete(resource);
  else held.set(resource, of);
}

function inOrder<Row>(
  { orders }: Shelf,
  what: string,
  rows: () => Iterable<Row>,
  nameOf: (row: Row) => string,
): readonly Named<Row>[] {
  const known = orders.get(what) as readonly Named<Row>[] | undefined;
  if (known !== undefined) return known;
  const named = [...rows()].map((row) => ({ row, name: nameOf(row) }));
  named.sort((a, b) => (a.name < b.name ? -1 : 1));
  orders.set(what, named);
  return named;
}

/** The rows that match, after the last one of the page before. */
function pageOf<Row>(
  rows: readonly Named<Row>[],
  { limit, after }: PageQuery,
  matches: (row: Row) => boolean,
): Page<Row> {
  const page: Named<Row>[] = [];
  for (let at = after === undefined ? 0 : firstAfter(rows, after); at < rows.length; at++) {
    const named = rows[at] as Named<Row>;
    if (!matches(named.row)) continue;
    if (page.length === limit) return { rows: page.map(({ row }) => row), next: page.at(-1)?.name };
    page.push(named);
  }
  return { rows: page.map(({ row }) => row) };
}

function firstAfter(rows: readonly Named<unknown>[], name: string): number {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((rows[middle] as Named<unknown>).name > name) high = middle;
    else low = middle + 1;
  }
  return low;
}
