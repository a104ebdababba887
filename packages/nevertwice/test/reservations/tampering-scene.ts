/** A data set with every kind of record in real tables, for tests that alter the tables by SQL. */
import {
  type Anchor,
  createReservations,
  type JournalEvent,
  type KeyRecord,
  type ReservationStore,
  type Reservations,
} from "../../src/reservations/index.ts";
import { placedId } from "./desk.ts";

export const NAMESPACE = "shop";
export const OTHER = "other";

/** How the SQL of a database differs. */
export interface Dialect {
  readonly checkpoints: string;
  /** A hash in hexadecimal as it is stored. */
  hash(hex: string): string;
  /** A digest of parameters as it is stored. */
  digest(text: string): string;
  /** The assignment that gives a key another scope and text. */
  named(scope: string, key: string): string;
  readonly yes: string;
  /** The column that names the transaction that wrote a key; SQLite has none. */
  readonly writer: string | undefined;
}

export interface TamperingScene {
  readonly dialect: Dialect;
  readonly desk: Reservations;
  readonly anchor: Anchor;
  readonly ids: Readonly<
    Record<"held" | "confirmed" | "released" | "expired" | "partial" | "erased", string>
  >;
  readonly keys: ReadonlyMap<string, KeyRecord>;
  readonly events: readonly JournalEvent[];
  /** Events of a subject, the first one first. */
  of(subject: string): readonly JournalEvent[];
  /** The event of this key. */
  by(key: string): JournalEvent;
  /** The event of the actor whom `authorize` refused. */
  readonly denial: JournalEvent;
  /** The event of the requester who was erased. */
  readonly erasure: JournalEvent;
}

const WINDOW_MS = 600_000;

export async function openTamperingScene(
  store: ReservationStore,
  dialect: Dialect,
  pass: () => Promise<void> | void,
): Promise<TamperingScene> {
  const open = (namespace: string) =>
    createReservations({
      store,
      namespace,
      windowMs: WINDOW_MS,
      actionMs: 60_000,
      purgeEveryMs: 0,
      authorize: ({ actor }) => actor !== "eve",
    });
  const desk = open(NAMESPACE);
  const place = async (resource: string, units = 1, durationMs = 300_000, requester = "ann") =>
    placedId(await desk.placeHold({ resource, requester, durationMs, units, key: `place-${resource}` }));
  for (const one of [desk, open(OTHER)])
    await one.resources.declare({ resource: "pool", capacity: 10, key: "declare" });
  const expired = await place("bed", 1, 1);
  await pass();
  const held = await place("seat-1");
  const confirmed = await place("seat-2");
  const released = await place("seat-3");
  const partial = await place("pool", 5);
  const erased = await place("seat-4", 1, 300_000, "zed");
  await desk.confirm({ id: held, key: "denied", actor: "eve" });
  await desk.confirm({ id: confirmed, key: "confirm", actor: "till-1" });
  await desk.release({ id: released, key: "release" });
  await desk.release({ id: erased, key: "release-erased" });
  await desk.erase({ requester: "zed" });
  await desk.expire({ id: expired, key: "expire" });
  await desk.confirm({ id: partial, units: 3, key: "partial" });
  await desk.giveBack({ id: partial, units: 1, key: "give-back" });
  await desk.resources.adjust({ resource: "pool", capacity: 12, key: "adjust" });
  await desk.placeHold({ resource: "seat-1", requester: "ben", durationMs: 9, key: "refused" });
  await desk.confirm({ id: released, key: "refused-confirm" });
  await desk.confirm({ id: "nobody", key: "refused-unknown" });
  await pass();
  const all = { namespace: NAMESPACE, limit: 1_000 };
  const events = (await store.events(all)).rows;
  const keys = new Map((await store.keys(all)).rows.map((row) => [row.key, row]));
  return {
    dialect,
    desk,
    anchor: await desk.anchor(),
    ids: { held, confirmed, released, expired, partial, erased },
    keys,
    events,
    of: (subject) => events.filter((event) => event.subject === subject),
    by: (key) => events.find(({ keyId }) => keyId === keys.get(key)?.id) as JournalEvent,
    denial: events.find(({ detail }) => detail.includes('"not-authorized"')) as JournalEvent,
    erasure: events.find(({ kind }) => kind === "erased") as JournalEvent,
  };
}
