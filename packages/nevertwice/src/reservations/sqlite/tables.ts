/** Reads and writes the tables of reservations on one SQLite connection. Each statement is prepared once. */
import {
  prepareQuery,
  type SqliteDatabase,
  type SqliteQuery,
  type SqliteRow,
  type SqlValue,
} from "../../stores/sqlite/client.ts";
import type { Checkpoint, JournalEvent } from "../journal.ts";
import * as sql from "../sqlite-sql.ts";
import type { KeptCommitment, KeptResource, KeyRecord, Page, ReservationStore, Writes } from "../store.ts";
import { type Readable, requireReadable, separateUnreadable, toPage } from "../stored-rows.ts";
import * as rows from "./rows.ts";
import { CHECKPOINTS, COMMITMENTS, EVENTS, KEYS, RESOURCES, type TableShape } from "./schema.ts";

const { toColumn } = rows;

type QueryOf<Method extends "commitments" | "resources" | "keys" | "events" | "checkpoints"> = Parameters<
  ReservationStore[Method]
>[0];

export interface ReservationTables {
  /** `key`, `resource` and `commitment` throw `store-unsafe` if the row exists and cannot be read. */
  key(namespace: string, id: string): KeyRecord | undefined;
  resource(namespace: string, name: string): KeptResource | undefined;
  commitment(namespace: string, id: string): KeptCommitment | undefined;
  readCommitment(namespace: string, id: string): Readable<KeptCommitment> | undefined;
  /** Up to `limit` holds of a resource whose time is over, oldest first. Rows that cannot be read are left out. */
  elapsedOfResource(
    namespace: string,
    resource: string,
    now: number,
    limit: number,
  ): readonly KeptCommitment[];
  elapsed(namespace: string, now: number, limit: number, after: string | undefined): readonly string[];
  write(writes: Writes): void;
  commitments(query: QueryOf<"commitments">): Page<KeptCommitment>;
  resources(query: QueryOf<"resources">): Page<KeptResource>;
  keys(query: QueryOf<"keys">): Page<KeyRecord>;
  events(query: QueryOf<"events">): Page<JournalEvent>;
  checkpoints(query: QueryOf<"checkpoints">): Page<Checkpoint>;
  hasPurgeable(now: number): boolean;
  /** Removes up to `limit` keys; returns how many. */
  purge(now: number, limit: number): number;
}

export function createTables(database: SqliteDatabase): ReservationTables {
  const queries = new Map<string, SqliteQuery>();
  const writeKey = database.prepare(sql.write(KEYS));
  const writeResource = database.prepare(sql.write(RESOURCES));
  const writeCommitment = database.prepare(sql.write(COMMITMENTS));
  const writeEvent = database.prepare(sql.write(EVENTS));
  const writeCheckpoint = database.prepare(sql.write(CHECKPOINTS));
  const purge = database.prepare(sql.PURGE);

  function prepared(text: string): SqliteQuery {
    const known = queries.get(text);
    if (known !== undefined) return known;
    const created = prepareQuery(database, text);
    queries.set(text, created);
    return created;
  }

  /** A damaged number beyond 2^53 makes some drivers refuse the whole result; then the rows are read as bigints. */
  function all(text: string, ...values: SqlValue[]): readonly SqliteRow[] {
    try {
      return prepared(text).all(...values);
    } catch (error) {
      if (!isOutOfRange(error)) throw error;
      return prepareQuery(database, text, true).all(...values);
    }
  }

  function createReader<Kept>(shape: TableShape, fromRow: (row: SqliteRow) => Readable<Kept>) {
    const text = sql.find(shape);
    const toName = shape.hashes.includes(shape.key[1] as string) ? rows.toHashColumn : toColumn;
    return (namespace: string, name: string) => {
      const [row] = all(text, toColumn(namespace), toName(name));
      return row === undefined ? undefined : fromRow(row);
    };
  }

  function createFinder<Kept>(shape: TableShape, fromRow: (row: SqliteRow) => Readable<Kept>) {
    const read = createReader(shape, fromRow);
    return (namespace: string, name: string) => {
      const found = read(namespace, name);
      return found && requireReadable(found);
    };
  }

  /** Reads one row more than the page has, to know whether there is a next page. */
  function page<Kept>(
    shape: TableShape,
    fromRow: (row: SqliteRow) => Readable<Kept>,
    { namespace, limit }: { readonly namespace: string; readonly limit: number },
    conditions: readonly sql.PageCondition[],
    toPosition: (row: SqliteRow) => string = sql.namePosition(shape),
  ): Page<Kept> {
    const given = conditions.filter((condition) => condition !== undefined);
    const values = given.flatMap(([, ...bound]) => bound);
    const text = sql.page(shape, ...given.map(([condition]) => condition));
    const found = all(text, toColumn(namespace), ...values, limit + 1);
    return toPage(found, limit, fromRow, toPosition);
  }

  return {
    key: createFinder(KEYS, rows.toKey),
    resource: createFinder(RESOURCES, rows.toResource),
    commitment: createFinder(COMMITMENTS, rows.toCommitment),
    readCommitment: createReader(COMMITMENTS, rows.toCommitment),
    elapsedOfResource: (namespace, resource, now, limit) =>
      separateUnreadable(
        all(sql.ELAPSED_OF_RESOURCE, toColumn(namespace), toColumn(resource), now, limit).map(
          rows.toCommitment,
        ),
      ).rows,
    elapsed(namespace, now, limit, after) {
      const name = toColumn(namespace);
      const found =
        after === undefined
          ? prepared(sql.ELAPSED).all(name, now, limit)
          : prepared(sql.ELAPSED_AFTER).all(name, now, name, toColumn(after), limit);
      return found.map(([id]) => id as string);
    },
    write({ keys, resources, commitments, events, checkpoint }) {
      for (const key of keys) writeKey.run(...rows.fromKey(key));
      for (const resource of resources) writeResource.run(...rows.fromResource(resource));
      for (const commitment of commitments) writeCommitment.run(...rows.fromCommitment(commitment));
      for (const event of events) writeEvent.run(...rows.fromEvent(event));
      if (checkpoint !== undefined) writeCheckpoint.run(...rows.fromCheckpoint(checkpoint));
    },
    commitments: ({ resource, requester, state, after, ...query }) =>
      page(COMMITMENTS, rows.toCommitment, query, [
        sql.equals("resource", resource),
        sql.equals("requester", requester),
        state === "held" ? [sql.IS_HELD] : sql.equals("state", state),
        sql.after("id", after),
      ]),
    resources: ({ name, after, ...query }) =>
      page(RESOURCES, rows.toResource, query, [sql.equals("name", name), sql.after("name", after)]),
    keys: ({ id, commitment, after, ...query }) =>
      page(KEYS, rows.toKey, query, [
        sql.equals("id", id, rows.toHashColumn),
        sql.equals("commitment", commitment),
        sql.after("id", after),
      ]),
    events: ({ subject, after, ...query }) =>
      page(
        EVENTS,
        rows.toEvent,
        query,
        [sql.equals("subject", subject), sql.afterEvent(subject, after)],
        sql.eventPosition,
      ),
    checkpoints: ({ after, ...query }) =>
      page(CHECKPOINTS, rows.toCheckpoint, query, [sql.after("id", after)]),
    hasPurgeable: (now) => prepared(sql.HAS_PURGEABLE).first(now) !== undefined,
    purge: (now, limit) => Number(purge.run(now, limit).changes),
  };
}

/** `DatabaseSync` has a code for this error; other drivers only have a message. */
function isOutOfRange(error: unknown): boolean {
  const { code, message } = error as { readonly code?: unknown; readonly message?: unknown };
  return code === "ERR_OUT_OF_RANGE" || /too large|out of range/i.test(String(message));
}
