/** The outbox in MySQL or MariaDB, over a pool of mysql2/promise. */
import { turnsFor } from "../stores/in-turn.ts";
import {
  change,
  type MysqlClient,
  type MysqlConnection,
  type MysqlRow,
  queryRows,
} from "../stores/mysql/client.ts";
import { isDeadlock, toStoreError } from "../stores/mysql/errors.ts";
import { createReadiness } from "../stores/mysql/readiness.ts";
import { migrate } from "../stores/mysql/schema.ts";
import { boundedClient } from "../stores/mysql/statement-runner.ts";
import { readNumber, readText } from "../stores/mysql/values.ts";
import { type MessageRow, rowsToRead, toFigures, toMs, toPage } from "./message-rows.ts";
import * as sql from "./mysql-sql.ts";
import { TABLES } from "./mysql-sql.ts";
import type { OutboxStore } from "./store.ts";

/** How often a transaction is tried that a deadlock rolled back. */
const TRIES = 5;

export function mysqlOutbox({ client: pool }: { readonly client: MysqlClient }): OutboxStore {
  const client = boundedClient(pool);
  const ready = createReadiness(client, TABLES);
  const turns = turnsFor(pool);

  /** One transaction at READ COMMITTED, where each statement sees what was committed before it. */
  async function transact<T>(work: (connection: MysqlConnection) => Promise<T>): Promise<T> {
    await ready();
    for (let tries = 1; ; tries++) {
      try {
        return await transactOnce(client, work);
      } catch (error) {
        if (tries >= TRIES || !isDeadlock(error)) throw toStoreError(error);
      }
    }
  }

  async function advance(
    connection: MysqlConnection,
    namespace: string,
    keys: readonly string[],
  ): Promise<number> {
    if (keys.length === 0) return 0;
    const heads = seqs(await queryRows(connection, sql.headsSql(namespace, keys)));
    if (heads.length === 0) return 0;
    return (await change(connection, sql.advanceSql(heads))).affectedRows;
  }

  /** Deletes what `find` locks, and makes the next messages of their keys due. */
  function remove(namespace: string, find: string): Promise<number> {
    return transact(async (connection) => {
      const rows = await queryRows(connection, find);
      if (rows.length === 0) return 0;
      await change(connection, sql.deleteSeqsSql(seqs(rows)));
      const keys = rows.flatMap((row) => (isNull(row, "key") ? [] : [readText(row, "key")]));
      await advance(connection, namespace, [...new Set(keys)]);
      return rows.length;
    });
  }

  const changed = (statement: string) =>
    transact(async (connection) => (await change(connection, statement)).affectedRows);

  /** Operators take turns. */
  const inTurn = <T>(call: () => Promise<T>): Promise<T> =>
    turns(async () => {
      await ready();
      return call();
    });

  return {
    insertText: (namespace, messages) => sql.insertText(namespace, messages),

    claim: ({ namespace, limit, lateLimit, from, leaseMs, token }) =>
      transact(async (connection) => {
        const late = await queryRows(connection, sql.lookSql(namespace, undefined, lateLimit));
        const fresh = await queryRows(connection, sql.lookSql(namespace, from, limit - late.length));
        const [first] = seqs(fresh);
        const looked = [...late, ...fresh];
        const heads = seqs(looked.filter((row) => isNull(row, "blocker")));
        const behind = looked.filter((row) => !isNull(row, "blocker"));
        const moved = await putBehind(connection, behind);
        if (heads.length === 0) return { messages: [], changed: moved, first };
        await change(connection, sql.claimSql(heads, token, leaseMs));
        const rows = await queryRows(connection, sql.readSql(heads));
        const messages = rows.map((row) => ({
          seq: readText(row, "seq"),
          id: readText(row, "id"),
          topic: readText(row, "topic"),
          key: isNull(row, "key") ? undefined : readText(row, "key"),
          content: readText(row, "content"),
          createdAt: toMs(readText(row, "created_at")),
          attempts: readNumber(row, "attempts"),
        }));
        return { messages, changed: messages.length + moved, first };
      }),

    settle: ({ namespace, delivered, keys, failed, parked, released }) =>
      transact(async (connection) => {
        const deleted =
          delivered.length === 0 ? 0 : (await change(connection, sql.deleteSql(delivered))).affectedRows;
        if (failed.length > 0) await change(connection, sql.failSql(failed));
        if (parked.length > 0) await change(connection, sql.parkEndingsSql(parked));
        if (released.length > 0) await change(connection, sql.releaseSql(released));
        // After the rows are locked, so that this read sees every message that was put behind them.
        return { deleted, advanced: await advance(connection, namespace, [...new Set(keys)]) };
      }),

    renew: (held, leaseMs) =>
      transact(async (connection) => {
        await change(connection, sql.renewSql(held, leaseMs));
        return seqs(await queryRows(connection, sql.ownSql(held)));
      }),

    async repair(namespace) {
      await changed(sql.repairSql(namespace));
    },

    async list(namespace, query) {
      const rows = await inTurn(() => queryRows(client, sql.listSql(namespace, query, rowsToRead(query))));
      return toPage(rows.map(toMessageRow), query);
    },

    retry: async (namespace, id) => (await changed(sql.retrySql(namespace, id))) > 0,
    park: async (namespace, id) => (await changed(sql.parkSql(namespace, id))) > 0,
    discard: async (namespace, id) => (await remove(namespace, sql.freeSql(namespace, id))) > 0,
    forget: (namespace, scope, limit) =>
      inTurn(() => remove(namespace, sql.scopeSql(namespace, scope, limit))),

    async figures(namespace) {
      const rows = await inTurn(() => queryRows(client, sql.figuresSql(namespace)));
      const groups = rows.map((row) => ({
        topic: readText(row, "topic"),
        state: readText(row, "state"),
        messages: readNumber(row, "messages"),
        oldestAt: readNumber(row, "oldest_at"),
      }));
      return toFigures(groups, rows[0] === undefined ? 0 : readNumber(rows[0], "now_us"));
    },

    async migrate() {
      await migrate(client, TABLES);
      await ready();
    },
    async close() {},
  };
}

/** Puts rows behind an older one of their key, if that one can be locked. Returns how many. */
async function putBehind(connection: MysqlConnection, rows: readonly MysqlRow[]): Promise<number> {
  if (rows.length === 0) return 0;
  const blockers = [...new Set(rows.map((row) => readText(row, "blocker")))];
  const locked = new Set(seqs(await queryRows(connection, sql.lockSql(blockers))));
  const behind = seqs(rows.filter((row) => locked.has(readText(row, "blocker"))));
  if (behind.length > 0) await change(connection, sql.putBehindSql(behind));
  return behind.length;
}

async function transactOnce<T>(
  client: MysqlClient,
  work: (connection: MysqlConnection) => Promise<T>,
): Promise<T> {
  const connection = await client.getConnection();
  try {
    await change(connection, sql.READ_COMMITTED_SQL);
    await change(connection, sql.BEGIN_SQL);
    const done = await work(connection);
    await change(connection, sql.COMMIT_SQL);
    connection.release();
    return done;
  } catch (error) {
    await change(connection, sql.ROLLBACK_SQL).then(
      () => connection.release(),
      () => connection.destroy(),
    );
    throw error;
  }
}

function seqs(rows: readonly MysqlRow[]): readonly string[] {
  return rows.map((row) => readText(row, "seq"));
}

function isNull(row: MysqlRow, column: string): boolean {
  return row[column] === null || row[column] === undefined;
}

function textOrNull(row: MysqlRow, column: string): string | null {
  return isNull(row, column) ? null : readText(row, column);
}

function toMessageRow(row: MysqlRow): MessageRow {
  return {
    seq: readText(row, "seq"),
    id: readText(row, "id"),
    topic: readText(row, "topic"),
    key: textOrNull(row, "key"),
    scope: readText(row, "scope"),
    createdAt: readText(row, "created_at"),
    attempts: readText(row, "attempts"),
    dueAt: textOrNull(row, "due_at"),
    isClaimed: readText(row, "is_claimed") === "1",
    parkedAt: textOrNull(row, "parked_at"),
    lastError: textOrNull(row, "last_error"),
    now: readText(row, "now_us"),
  };
}
