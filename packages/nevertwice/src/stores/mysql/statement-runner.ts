/**
 * Runs statements on the application's pool, each on a separate connection. A cancelled call leaves nothing behind: its
 * connection is closed instead of released, and the store ends the statement on the server.
 *
 * A network can drop a connection silently. Then no error occurs, and the statement is never answered. So when a call is
 * cancelled unanswered, every connection that has not answered since that call was sent is closed before its next use.
 */

import { killSql, runningSql } from "../mysql-sql.ts";
import {
  type Changed,
  change,
  type MysqlClient,
  type MysqlConnection,
  type MysqlRow,
  queryRows,
  untilAborted,
  withTimeout,
} from "./client.ts";
import { checkSession } from "./durability.ts";
import { isReadOnly, toStoreError } from "./errors.ts";

export interface StatementRunner {
  /** How many connections the pool has created since the store uses it. */
  readonly connections: number;
  /** How many bytes an outcome may have; infinite until the first connection was checked. */
  readonly maxOutcomeBytes: number;
  rows(sql: string, signal?: AbortSignal): Promise<readonly MysqlRow[]>;
  /** Rejects with the driver's own error. */
  change(sql: string, signal?: AbortSignal): Promise<Changed>;
  /** A connection of the pool that is believed to be alive. */
  connect(signal: AbortSignal | undefined): Promise<MysqlConnection>;
  /** Notes that the connection has answered. */
  markAnswered(connection: MysqlConnection): void;
  /** Cancels a statement that was sent at `sentAt`, and closes its connection. */
  cancel(connection: MysqlConnection, sql: string, sentAt: number): void;
}

/** How long to try to end a statement on the server. */
const END_MS = 5_000;

const runners = new WeakMap<MysqlClient, StatementRunner>();

/** The runner of this pool. All stores on one pool share it, and so share what it knows about the connections. */
export function statementRunnerFor(client: MysqlClient): StatementRunner {
  const runner = runners.get(client) ?? createStatementRunner(client);
  runners.set(client, runner);
  return runner;
}

function createStatementRunner(client: MysqlClient): StatementRunner {
  /** When each connection was created or last answered. */
  const answeredAt = new WeakMap<object, number>();
  const inspected = new WeakSet<object>();
  let connections = 0;
  let silentSince = Number.NEGATIVE_INFINITY;
  let maxOutcomeBytes = Number.POSITIVE_INFINITY;
  client.on?.("connection", (connection) => {
    answeredAt.set(connection, performance.now());
    connections++;
  });

  async function connect(signal: AbortSignal | undefined): Promise<MysqlConnection> {
    for (;;) {
      const connection = await untilAborted(client.getConnection(), signal, (late) => late.release()).catch(
        (error: unknown) => {
          throw toStoreError(error);
        },
      );
      const isSuspect = (answeredAt.get(rawConnection(connection)) ?? Number.NEGATIVE_INFINITY) < silentSince;
      // A pool without events does not report its new connections, so all of them would stay suspect.
      if (!isSuspect || client.on === undefined) return connection;
      connection.destroy();
    }
  }

  /** Each connection has its own session, and a later one may lead to another server. */
  async function inspect(connection: MysqlConnection): Promise<void> {
    if (inspected.has(rawConnection(connection))) return;
    maxOutcomeBytes = await checkSession(connection);
    inspected.add(rawConnection(connection));
  }

  async function run<T>(
    sql: string,
    signal: AbortSignal | undefined,
    send: (connection: MysqlConnection, sql: string) => Promise<T>,
  ): Promise<T> {
    let used: { readonly connection: MysqlConnection; readonly sentAt: number } | undefined;

    async function runOnConnection(): Promise<T> {
      const connection = await connect(undefined);
      // The caller has cancelled: the connection goes back to the pool for the next call.
      if (signal?.aborted) connection.release();
      signal?.throwIfAborted();
      used = { connection, sentAt: performance.now() };
      try {
        await inspect(connection);
        const answer = await send(connection, sql);
        markAnswered(connection);
        connection.release();
        return answer;
      } catch (error) {
        // The pool's host name may lead to another server by now, so a connection to a demoted primary is closed.
        if (isReadOnly(error)) connection.destroy();
        else connection.release();
        throw error;
      } finally {
        used = undefined;
      }
    }

    // One listener on the signal for the whole call: adding one costs microseconds.
    return untilAborted(runOnConnection(), signal).catch((error: unknown) => {
      if (signal?.aborted && used !== undefined) cancel(used.connection, sql, used.sentAt);
      throw error;
    });
  }

  function markAnswered(connection: MysqlConnection): void {
    answeredAt.set(rawConnection(connection), performance.now());
  }

  function cancel(connection: MysqlConnection, sql: string, sentAt: number): void {
    silentSince = Math.max(silentSince, sentAt);
    connection.destroy();
    // The server does not notice a closed connection while its statement waits for a lock.
    if (typeof connection.threadId === "number") void endOnServer(connection.threadId, sql);
  }

  /** Best effort: does nothing if the server cannot be reached. */
  async function endOnServer(thread: number, sql: string): Promise<void> {
    const signal = AbortSignal.timeout(END_MS);
    const connection = await connect(signal).catch(() => undefined);
    if (connection === undefined) return;
    try {
      // Behind a host name or a proxy there may be another server, where this id belongs to another client.
      const running = await untilAborted(queryRows(connection, runningSql(thread, sql)), signal);
      if (running.length > 0) await untilAborted(change(connection, killSql(thread)), signal);
      markAnswered(connection);
      connection.release();
    } catch {
      // Also after an error that the server reported, such as an unknown thread: a new connection costs little here.
      connection.destroy();
    }
  }

  return {
    get connections() {
      return connections;
    },
    get maxOutcomeBytes() {
      return maxOutcomeBytes;
    },
    rows: (sql, signal) => run(sql, signal, queryRows),
    change: (sql, signal) => run(sql, signal, change),
    connect,
    markAnswered,
    cancel,
  };
}

/** The pool's own connection object. The driver returns a new wrapper around it each time. */
function rawConnection(connection: MysqlConnection): object {
  return connection.connection ?? connection;
}

/** Enough for a busy server. MySQL itself would wait 50 seconds for a row lock, which is too long for a caller. */
const STATEMENT_MS = 10_000;

export interface BoundedConnection extends MysqlConnection {
  /** Ends the statement that is running, on the server too, and closes the connection. The statement rejects. */
  cancel(): void;
}

export interface BoundedClient extends MysqlClient {
  getConnection(): Promise<BoundedConnection>;
}

/**
 * The same pool with a time limit on every statement, for transactions. After the limit the connection is closed, and the
 * server rolls the transaction back. Without a limit, a call on a silently dropped connection would wait for ever.
 */
export function boundedClient(client: MysqlClient): BoundedClient {
  const runner = statementRunnerFor(client);

  async function getConnection(): Promise<BoundedConnection> {
    const connection = await withTimeout(STATEMENT_MS, runner.connect);
    let cancel = () => {};
    return {
      cancel: () => cancel(),
      query: (options) =>
        withTimeout(STATEMENT_MS, async (signal, fire) => {
          let sentAt = performance.now();
          cancel = () => {
            // The network is not suspected, so the other connections stay in use.
            sentAt = Number.NEGATIVE_INFINITY;
            fire();
          };
          try {
            const answer = await untilAborted(connection.query(options), signal);
            runner.markAnswered(connection);
            return answer;
          } catch (error) {
            if (signal.aborted) runner.cancel(connection, options.sql, sentAt);
            throw error;
          }
        }),
      release: () => connection.release(),
      destroy: () => connection.destroy(),
    };
  }

  return {
    getConnection,
    async query(options) {
      const connection = await getConnection();
      try {
        return await connection.query(options);
      } finally {
        connection.release();
      }
    },
  };
}
