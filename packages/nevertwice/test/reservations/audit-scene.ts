/** A small data set with every kind of record, and a store that shows it with single rows altered or removed. */
import { onTestFinished } from "vitest";
import type { InvariantId } from "../../src/reservations/audit/invariants.ts";
import {
  type AuditData,
  type AuditOptions,
  type Checkpoint,
  createReservations,
  type JournalEvent,
  type KeptCommitment,
  type KeptResource,
  type KeyRecord,
  type Page,
  type PageQuery,
  type ReservationStore,
  type Reservations,
  type UnreadableRow,
} from "../../src/reservations/index.ts";
import { memoryReservations } from "../../src/reservations/memory.ts";
import { type ManualClock, manualClock } from "../../src/testing/manual-clock.ts";
import { placedId } from "./desk.ts";

export const WINDOW_MS = 600_000;
export const NAMESPACE = "shop";

/** Undefined removes the row. */
type Alter<Row> = (row: Row) => Row | undefined;

export interface Alterations {
  commitment?: Alter<KeptCommitment>;
  resource?: Alter<KeptResource>;
  key?: Alter<KeyRecord>;
  event?: Alter<JournalEvent>;
  checkpoint?: Alter<Checkpoint>;
  /** Forged rows. */
  moreKeys?: readonly KeyRecord[];
  moreCommitments?: readonly KeptCommitment[];
  moreEvents?: readonly JournalEvent[];
  /** Keys that a store found and could not read. */
  unreadableKeys?: readonly UnreadableRow[];
}

/** The store with altered rows. Queries are answered from the altered rows. */
export function altered(store: ReservationStore, alterations: Alterations): ReservationStore {
  const all = { namespace: NAMESPACE, limit: 100_000 };
  const commitments = async () => {
    const { rows } = await store.commitments(all);
    const kept = rows.flatMap((row) => (alterations.commitment ?? same)(row) ?? []);
    return [...kept, ...(alterations.moreCommitments ?? [])];
  };
  return {
    ...store,
    async get(_, id) {
      const rows = await commitments();
      return { commitment: rows.find((row) => row.id === id), now: await store.now() };
    },
    commitments: async ({ resource, ...page }) =>
      paged(
        await commitments(),
        page,
        ({ id }) => id,
        (row) => resource === undefined || row.resource === resource,
      ),
    async resources({ name, ...page }) {
      const rows = (await store.resources(all)).rows.flatMap(
        (row) => (alterations.resource ?? same)(row) ?? [],
      );
      return paged(
        rows,
        page,
        (row) => row.name,
        (row) => name === undefined || row.name === name,
      );
    },
    async keys({ id, commitment, ...page }) {
      const rows = (await store.keys(all)).rows.flatMap((row) => (alterations.key ?? same)(row) ?? []);
      const found = paged(
        [...rows, ...(alterations.moreKeys ?? [])],
        page,
        (row) => row.id,
        (row) =>
          (id === undefined || row.id === id) && (commitment === undefined || row.commitment === commitment),
      );
      return id === undefined ? { ...found, unreadable: alterations.unreadableKeys } : found;
    },
    async events({ subject, ...page }) {
      const rows = (await store.events(all)).rows.flatMap((row) => (alterations.event ?? same)(row) ?? []);
      return paged(
        [...rows, ...(alterations.moreEvents ?? [])],
        page,
        (row) => `${row.subject} ${String(row.number).padStart(6, "0")}`,
        (row) => subject === undefined || row.subject === subject,
      );
    },
    async checkpoints(page) {
      const rows = (await store.checkpoints(all)).rows.flatMap(
        (row) => (alterations.checkpoint ?? same)(row) ?? [],
      );
      return paged(
        rows,
        page,
        ({ id }) => id,
        () => true,
      );
    },
  };
}

function same<Row>(row: Row): Row {
  return row;
}

/** Pages by position, so that two rows with the same name stay two rows. */
function paged<Row>(
  rows: readonly Row[],
  { limit, after }: PageQuery,
  nameOf: (row: Row) => string,
  isAsked: (row: Row) => boolean,
): Page<Row> {
  const asked = rows.filter(isAsked).sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
  const from = after === undefined ? 0 : Number(after);
  const to = from + limit;
  return { rows: asked.slice(from, to), next: to < asked.length ? String(to) : undefined };
}

export interface AuditScene {
  readonly clock: ManualClock;
  readonly store: ReservationStore;
  readonly desk: Reservations;
  /** Ids by what became of them. */
  readonly ids: Readonly<Record<"held" | "confirmed" | "released" | "expired" | "partial", string>>;
  /** The kept row of a key. */
  key(key: string): Promise<KeyRecord>;
  commitment(id: string): Promise<KeptCommitment>;
  resource(name: string): Promise<KeptResource>;
  events(subject: string): Promise<readonly JournalEvent[]>;
  /** Audits the altered rows. */
  audit(alterations?: Alterations, options?: AuditOptions): Promise<AuditData>;
}

export function openReservations(store: ReservationStore): Reservations {
  const reservations = createReservations({
    store,
    namespace: NAMESPACE,
    windowMs: WINDOW_MS,
    purgeEveryMs: 0,
  });
  onTestFinished(() => reservations.close());
  return reservations;
}

export async function openAuditScene(): Promise<AuditScene> {
  const clock = manualClock();
  const store = memoryReservations({ clock });
  const desk = openReservations(store);
  const all = { namespace: NAMESPACE, limit: 100_000 };
  const place = async (resource: string, units = 1) =>
    placedId(
      await desk.placeHold({
        resource,
        requester: "ann",
        durationMs: 60_000,
        units,
        key: `place-${resource}`,
      }),
    );
  await desk.resources.declare({ resource: "stock", capacity: 10, key: "declare-stock" });
  await desk.resources.declare({ resource: "old", capacity: 2, key: "declare-old" });
  clock.advance(1);
  const expired = await place("bed");
  clock.advance(60_000);
  const held = await place("seat-1");
  const confirmed = await place("seat-2");
  const released = await place("seat-3");
  const partial = await place("stock", 5);
  clock.advance(1);
  await desk.confirm({ id: confirmed, key: "confirm" });
  await desk.release({ id: released, key: "release" });
  await desk.expire({ id: expired, key: "expire" });
  await desk.confirm({ id: partial, units: 3, key: "partial" });
  clock.advance(1);
  await desk.giveBack({ id: partial, units: 1, key: "give-back" });
  await desk.placeHold({ resource: "seat-1", requester: "ben", durationMs: 60_000, key: "refused" });
  await desk.confirm({ id: released, key: "refused-confirm" });
  await desk.confirm({ id: "nobody", units: Number.NaN, key: "refused-unknown" });
  await desk.placeHold({ resource: "seat-1", requester: "ben", durationMs: Number.NaN, key: "refused-nan" });
  await desk.resources.close({ resource: "old", key: "close-old" });
  return {
    clock,
    store,
    desk,
    ids: { held, confirmed, released, expired, partial },
    async key(key) {
      return (await store.keys(all)).rows.find((row) => row.key === key) as KeyRecord;
    },
    async commitment(id) {
      return (await store.get(NAMESPACE, id)).commitment as KeptCommitment;
    },
    async resource(name) {
      return (await store.resources({ ...all, name })).rows[0] as KeptResource;
    },
    events: async (subject) => (await store.events({ ...all, subject })).rows,
    audit: (alterations = {}, options = {}) => openReservations(altered(store, alterations)).audit(options),
  };
}

/** The ids of the broken invariants. */
export function broken({ invariants }: AuditData): InvariantId[] {
  return invariants.filter(({ broken: count }) => count > 0).map(({ id }) => id);
}

export function listOffenders({ invariants }: AuditData, id: InvariantId): string[] {
  const result = invariants.find((one) => one.id === id);
  return result?.offenders.map(({ subject, problem }) => `${subject}: ${problem}`) ?? [];
}
