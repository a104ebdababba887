/** One SQLite connection that serves an outbox: every step is one synchronous transaction. */
import type { Clock } from "../../core/clock.ts";
import { NevertwiceError } from "../../core/errors.ts";
import {
  BEGIN_WRITING,
  COMMIT,
  prepareQuery,
  rollBack,
  type SqliteDatabase,
  type SqliteQuery,
  type SqliteRow,
  type SqliteStatement,
} from "../../stores/sqlite/client.ts";
import { type ConnectionOptions, withStoreErrors } from "../../stores/sqlite/connection-calls.ts";
import { migrate } from "../../stores/sqlite/schema.ts";
import type { StoredMessage } from "../message.ts";
import { type MessageRow, rowsToRead, toFigures, toMs, toPage } from "../message-rows.ts";
import * as sql from "../sqlite-sql.ts";
import type { OutboxStore } from "../store.ts";

type SyncStep<Name extends OutboxMethod> = OutboxStore[Name] extends (
  ...values: infer Values
) => Promise<infer Answer>
  ? (...values: Values) => Answer
  : never;

export type OutboxMethod =
  | "claim"
  | "settle"
  | "renew"
  | "repair"
  | "list"
  | "retry"
  | "park"
  | "discard"
  | "forget"
  | "figures"
  | "migrate";

/** The steps of the store, carried out synchronously. */
export type OutboxConnection = { readonly [Name in OutboxMethod]: SyncStep<Name> };

/** Writes messages in the transaction that the application has open on this connection. */
export function createInsert(
  database: SqliteDatabase,
  clock: Clock,
): (namespace: string, messages: readonly StoredMessage[]) => void {
  let insert: SqliteStatement | undefined;
  return (namespace, messages) =>
    withStoreErrors(() => {
      requireOpen(database);
      insert ??= database.prepare(sql.INSERT);
      for (const { id, scope, topic, key = null, content } of messages)
        insert.run(id, namespace, scope, topic, key, content, clock.now() * 1_000);
    });
}

/** Where the driver says it: `node:sqlite` and better-sqlite3 have different names for it. */
function requireOpen(database: object): void {
  const { isTransaction, inTransaction } = database as { isTransaction?: boolean; inTransaction?: boolean };
  if ((isTransaction ?? inTransaction) !== false) return;
  throw new NevertwiceError(
    "options-invalid",
    "the connection has no open transaction, so nothing was written.",
  );
}

/** Prepares the table. */
export function connect(database: SqliteDatabase, { clock, waiting }: ConnectionOptions): OutboxConnection {
  waiting(() => migrate(database, sql.SCHEMA));
  const queries = new Map<string, SqliteQuery>();
  const statements = new Map<string, SqliteStatement>();
  const now = () => Math.round(clock.now() * 1_000);

  function query(text: string): SqliteQuery {
    const known = queries.get(text) ?? prepareQuery(database, text);
    queries.set(text, known);
    return known;
  }

  function run(text: string, ...values: (string | number | null)[]): number {
    const statement = statements.get(text) ?? database.prepare(text);
    statements.set(text, statement);
    return Number(statement.run(...values).changes);
  }

  /** The clock is read after the write lock was obtained. */
  function transact<T>(work: () => T): T {
    waiting(() => database.exec(BEGIN_WRITING));
    try {
      const done = work();
      database.exec(COMMIT);
      return done;
    } catch (error) {
      rollBack(database);
      throw error;
    }
  }

  const advance = (namespace: string, keys: Iterable<string>) => {
    let advanced = 0;
    for (const key of new Set(keys)) advanced += run(sql.ADVANCE, namespace, key);
    return advanced;
  };

  function remove(namespace: string, find: () => readonly SqliteRow[]): number {
    return transact(() => {
      const rows = find();
      for (const [seq] of rows) run(sql.DELETE, seq as number);
      advance(
        namespace,
        rows.flatMap(([, key]) => (typeof key === "string" ? [key] : [])),
      );
      return rows.length;
    });
  }

  return {
    claim({ namespace, limit, lateLimit, leaseMs, token }) {
      // Without the write lock: an idle relay must not write to the log at every look.
      if (!hasDue(namespace)) return { messages: [], changed: 0, first: undefined };
      return transact(() => {
        const late = query(sql.LATE).all(namespace, now(), lateLimit);
        const fresh = query(sql.FRESH).all(namespace, limit - late.length);
        const dueAt = now() + leaseMs * 1_000;
        const looked = [...late, ...fresh];
        const heads: SqliteRow[] = [];
        for (const [seq, isBehind] of looked) {
          if (isBehind) run(sql.PUT_BEHIND, seq as number);
          else {
            run(sql.CLAIM, dueAt, token, seq as number);
            heads.push(query(sql.READ).first(seq as number) as SqliteRow);
          }
        }
        return { messages: heads.map(toClaimed), changed: looked.length, first: toSeq(fresh[0]?.[0]) };
      });
    },

    settle: ({ namespace, delivered, keys, failed, parked, released }) =>
      transact(() => {
        let deleted = 0;
        for (const { seq, token } of delivered) deleted += run(sql.DELETE_OWN, Number(seq), token);
        for (const { seq, token, delayMs, error } of failed)
          run(sql.FAIL, now() + delayMs * 1_000, error, Number(seq), token);
        for (const { seq, token, error } of parked) run(sql.PARK_OWN, now(), error, Number(seq), token);
        for (const { seq, token } of released) run(sql.RELEASE, Number(seq), token);
        return { deleted, advanced: advance(namespace, keys) };
      }),

    renew: (held, leaseMs) =>
      transact(() => {
        const dueAt = now() + leaseMs * 1_000;
        return held
          .filter(({ seq, token }) => run(sql.RENEW, dueAt, Number(seq), token) > 0)
          .map(({ seq }) => seq);
      }),

    repair: (namespace) => transact(() => void run(sql.REPAIR, now(), namespace, now())),

    list(namespace, asked) {
      const { key, state, after = "0" } = asked;
      const rest = [Number(after), rowsToRead(asked)];
      const rows =
        key !== undefined
          ? query(sql.LIST_KEY).all(namespace, key, ...rest)
          : query(state === "parked" ? sql.LIST_PARKED : sql.LIST).all(namespace, ...rest);
      const at = String(now());
      return toPage(
        rows.map((row) => toMessageRow(row, at)),
        asked,
      );
    },

    retry: (namespace, id) => transact(() => run(sql.RETRY, namespace, id, now()) > 0),
    park: (namespace, id) => transact(() => run(sql.PARK, now(), namespace, id, now()) > 0),
    discard: (namespace, id) => remove(namespace, () => query(sql.FREE).all(namespace, id, now())) > 0,
    forget: (namespace, scope, limit) =>
      remove(namespace, () => query(sql.SCOPE).all(namespace, scope, limit)),

    figures(namespace) {
      const at = now();
      const rows = query(sql.FIGURES).all(at, namespace, namespace, namespace);
      const groups = rows.map(([topic, state, messages, oldestAt]) => ({
        topic: String(topic),
        state: String(state),
        messages: Number(messages),
        oldestAt: Number(oldestAt),
      }));
      return toFigures(groups, at);
    },

    migrate() {},
  };

  function hasDue(namespace: string): boolean {
    return (
      query(sql.FRESH).first(namespace, 1) !== undefined ||
      query(sql.LATE).first(namespace, now(), 1) !== undefined
    );
  }
}

function toSeq(seq: unknown): string | undefined {
  return seq === undefined ? undefined : String(seq);
}

function toClaimed([seq, id, topic, key, content, createdAt, attempts]: SqliteRow) {
  return {
    seq: String(seq),
    id: String(id),
    topic: String(topic),
    key: key === null ? undefined : String(key),
    content: String(content),
    createdAt: toMs(Number(createdAt)),
    attempts: Number(attempts),
  };
}

function toMessageRow(row: SqliteRow, now: string): MessageRow {
  const [seq, id, topic, key, scope, createdAt, attempts, dueAt, isClaimed, parkedAt, lastError] = row;
  const text = (value: unknown) => (value === null || value === undefined ? null : String(value));
  return {
    seq: String(seq),
    id: String(id),
    topic: String(topic),
    key: text(key),
    scope: String(scope),
    createdAt: String(createdAt),
    attempts: String(attempts),
    dueAt: text(dueAt),
    isClaimed: Number(isClaimed) === 1,
    parkedAt: text(parkedAt),
    lastError: text(lastError),
    now,
  };
}
