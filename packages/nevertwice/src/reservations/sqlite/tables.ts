/** The rows of reservations on one connection. Each statement is prepared once. */
import { prepareQuery, type Query, type Row, type SqliteDatabase } from "../../stores/sqlite/driver.ts";
import type { Checkpoint, JournalEvent } from "../journal.ts";
import type { KeptCommitment, KeptResource, KeyRecord, Page, ReservationStore, Writes } from "../ledger.ts";
import * as rows from "./rows.ts";
import * as sql from "./sql.ts";

const { toColumn } = rows;

type Asking<Method extends "commitments" | "resources" | "keys" | "events" | "checkpoints"> = Parameters<
  ReservationStore[Method]
>[0];

export interface Tables {
  key(namespace: string, id: string): KeyRecord | undefined;
  resource(namespace: string, name: string): KeptResource | undefined;
  commitment(namespace: string, id: string): KeptCommitment | undefined;
  /** Holds of this resource whose time is over, at most so many, the oldest first. */
  elapsedOf(namespace: string, resource: string, now: number, limit: number): readonly KeptCommitment[];
  elapsed(namespace: string, now: number, limit: number): readonly string[];
  write(writes: Writes): void;
  commitments(query: Asking<"commitments">): Page<KeptCommitment>;
  resources(query: Asking<"resources">): Page<KeptResource>;
  keys(query: Asking<"keys">): Page<KeyRecord>;
  events(query: Asking<"events">): Page<JournalEvent>;
  checkpoints(query: Asking<"checkpoints">): Page<Checkpoint>;
  hasPurgeable(now: number): boolean;
  /** Removes at most so many keys; answers how many. */
  purge(now: number, limit: number): number;
}

/** A part of a query, and what it is bound to; undefined where it is not asked for. */
type Condition = readonly [sql: string, ...values: string[]] | undefined;

export function createTables(database: SqliteDatabase): Tables {
  const queries = new Map<string, Query>();
  const writeKey = database.prepare(sql.write(sql.KEYS));
  const writeResource = database.prepare(sql.write(sql.RESOURCES));
  const writeCommitment = database.prepare(sql.write(sql.COMMITMENTS));
  const writeEvent = database.prepare(sql.write(sql.EVENTS));
  const writeCheckpoint = database.prepare(sql.write(sql.CHECKPOINTS));
  const purge = database.prepare(sql.PURGE);

  function query(text: string): Query {
    const known = queries.get(text);
    if (known !== undefined) return known;
    const prepared = prepareQuery(database, text);
    queries.set(text, prepared);
    return prepared;
  }

  function finder<Kept>(shape: sql.TableShape, fromRow: (row: Row) => Kept) {
    const text = sql.find(shape);
    return (namespace: string, name: string) => {
      const row = query(text).first(toColumn(namespace), toColumn(name));
      return row === undefined ? undefined : fromRow(row);
    };
  }

  /** One row more than asked for tells whether there is another page. */
  function page<Kept>(
    shape: sql.TableShape,
    fromRow: (row: Row) => Kept,
    { namespace, limit }: { readonly namespace: string; readonly limit: number },
    conditions: readonly Condition[],
    placeOf: (kept: Kept) => string,
  ): Page<Kept> {
    const asked = conditions.filter((condition) => condition !== undefined);
    const values = asked.flatMap(([, ...bound]) => bound.map(toColumn));
    const found = query(sql.page(shape, ...asked.map(([text]) => text)))
      .all(toColumn(namespace), ...values, limit + 1)
      .map(fromRow);
    if (found.length <= limit) return { rows: found };
    const kept = found.slice(0, limit);
    return { rows: kept, next: kept.map(placeOf).at(-1) };
  }

  return {
    key: finder(sql.KEYS, rows.toKey),
    resource: finder(sql.RESOURCES, rows.toResource),
    commitment: finder(sql.COMMITMENTS, rows.toCommitment),
    elapsedOf: (namespace, resource, now, limit) =>
      query(sql.ELAPSED_OF).all(toColumn(namespace), toColumn(resource), now, limit).map(rows.toCommitment),
    elapsed: (namespace, now, limit) =>
      query(sql.ELAPSED)
        .all(toColumn(namespace), now, limit)
        .map(([id]) => rows.fromColumn(id)),
    write({ keys, resources, commitments, events, checkpoint }) {
      for (const key of keys) writeKey.run(...rows.fromKey(key));
      for (const resource of resources) writeResource.run(...rows.fromResource(resource));
      for (const commitment of commitments) writeCommitment.run(...rows.fromCommitment(commitment));
      for (const event of events) writeEvent.run(...rows.fromEvent(event));
      if (checkpoint !== undefined) writeCheckpoint.run(...rows.fromCheckpoint(checkpoint));
    },
    commitments: ({ resource, requester, state, after, ...asked }) =>
      page(
        sql.COMMITMENTS,
        rows.toCommitment,
        asked,
        [
          equal("resource", resource),
          equal("requester", requester),
          state === "held" ? [sql.IS_HELD] : equal("state", state),
          behind("id", after),
        ],
        ({ id }) => id,
      ),
    resources: ({ name, after, ...asked }) =>
      page(
        sql.RESOURCES,
        rows.toResource,
        asked,
        [equal("name", name), behind("name", after)],
        (resource) => resource.name,
      ),
    keys: ({ id, commitment, after, ...asked }) =>
      page(
        sql.KEYS,
        rows.toKey,
        asked,
        [equal("id", id), equal("commitment", commitment), behind("id", after)],
        (key) => key.id,
      ),
    events: ({ subject, after, ...asked }) =>
      page(
        sql.EVENTS,
        rows.toEvent,
        asked,
        [equal("subject", subject), behindEvent(subject, after)],
        (event) => `${event.number} ${event.subject}`,
      ),
    checkpoints: ({ after, ...asked }) =>
      page(sql.CHECKPOINTS, rows.toCheckpoint, asked, [behind("id", after)], ({ id }) => id),
    hasPurgeable: (now) => query(sql.HAS_PURGEABLE).first(now) !== undefined,
    purge: (now, limit) => Number(purge.run(now, limit).changes),
  };
}

function equal(column: string, value: string | undefined): Condition {
  return value === undefined ? undefined : [`${column} = ?`, value];
}

function behind(column: string, after: string | undefined): Condition {
  return after === undefined ? undefined : [`${column} > ?`, after];
}

/** A place in the log is the event's number and then its subject, which may be any text. */
function behindEvent(subject: string | undefined, after: string | undefined): Condition {
  if (after === undefined) return undefined;
  const [number = ""] = after.split(" ", 1);
  if (subject !== undefined) return ["number > CAST(? AS INTEGER)", number];
  return ["(subject, number) > (?, CAST(? AS INTEGER))", after.slice(number.length + 1), number];
}
