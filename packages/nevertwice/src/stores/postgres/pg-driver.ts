/**
 * Runs statements on a `pg` Pool. When every caller of a statement has cancelled, the driver ends the statement on the
 * server, or finds out that its connection is dead. Such a connection does not go back to the pool.
 */
import {
  BEGIN,
  cancelledError,
  type IsCancelled,
  ignore,
  onCancelled,
  type PgClient,
  type PgPool,
  type PgPoolClient,
  type PgQuery,
  type PostgresDriver,
  type PostgresRow,
  type Statement,
} from "./client.ts";
import { isConnectionOver } from "./errors.ts";

/** Columns as text, whatever parsers the application has configured for its queries. */
const AS_TEXT = { getTypeParser: () => (value: string) => value };

export function createPgDriver(pool: PgPool, isPrepared: boolean): PostgresDriver {
  const health = connectionHealthFor(pool);
  const toQuery = ({ name, text }: Statement, values: readonly string[]): PgQuery => ({
    ...(isPrepared && { name }),
    text,
    values: values as string[],
    rowMode: "array",
    types: AS_TEXT,
  });

  /** A connection that is not suspected of being dead. */
  async function connect(isCancelled: IsCancelled | undefined): Promise<PgPoolClient> {
    for (;;) {
      const client = await pool.connect();
      if (isCancelled?.()) {
        client.release();
        throw cancelledError();
      }
      if (!health.isSuspect(client)) {
        // A pool does not listen to a connection that is in use; without a listener, its loss would end the process.
        client.on("error", ignore);
        return client;
      }
      closeNow(client);
    }
  }

  /** The answer to `send` on this connection, or an error once the call is cancelled and the connection is dead. */
  async function answerOn<T>(
    client: PgPoolClient,
    isCancelled: IsCancelled | undefined,
    send: () => Promise<T>,
  ): Promise<T> {
    const sent = health.sent(client, isCancelled);
    const answer = send();
    let stop = ignore;
    const dead = new Promise<never>((_, reject) => {
      stop = onCancelled(isCancelled, async () => {
        health.cancels(client);
        if (await endStatement(pool, client, answer)) return;
        sent.isLost();
        reject(cancelledError());
      });
    });
    try {
      const value = await Promise.race([answer, dead]);
      sent.isAnswered();
      return value;
    } catch (error) {
      if (!isConnectionOver(error)) sent.isAnswered();
      throw error;
    } finally {
      sent.isOver();
      stop();
    }
  }

  /** Returns a connection to the pool, or closes it: a late cancel request must not end the next statement. */
  function release(client: PgPoolClient, isUsable: boolean): void {
    const isKept = isUsable && !health.hasCancelled(client);
    if (isKept) client.off("error", ignore);
    client.release(!isKept);
  }

  return {
    cancelsBlindly: false,
    forsake: health.suspectAll,
    async run(statement, parameters, isCancelled) {
      const client = await connect(isCancelled);
      try {
        const { rows } = await answerOn(client, isCancelled, () =>
          client.query(toQuery(statement, parameters)),
        );
        release(client, true);
        return rows as PostgresRow[];
      } catch (error) {
        release(client, !isConnectionOver(error));
        throw error;
      }
    },
    async transact(work, { isCancelled, lockTimeoutMs, statementTimeoutMs } = {}) {
      const client = await connect(isCancelled);
      // In one message. A statement cannot set its own limits before it runs.
      const set = (name: string, ms: number | undefined) =>
        ms === undefined ? "" : `; SET LOCAL ${name} = ${ms}`;
      const begin = `BEGIN ${BEGIN}${set("lock_timeout", lockTimeoutMs)}${set("statement_timeout", statementTimeoutMs)}`;
      const commit = statementTimeoutMs === undefined ? "COMMIT" : "SET LOCAL statement_timeout = 0; COMMIT";
      try {
        await answerOn(client, isCancelled, () => client.query(begin));
        const done = await work(async (statement, parameters) => {
          const query = toQuery(statement, parameters);
          return (await answerOn(client, isCancelled, () => client.query(query))).rows as PostgresRow[];
        });
        await answerOn(client, isCancelled, () => client.query(commit));
        release(client, true);
        return done;
      } catch (error) {
        // Closing the connection rolls back as well, and without waiting.
        const isUsable =
          !isConnectionOver(error) && !health.hasCancelled(client) && (await isRolledBack(client));
        release(client, isUsable);
        throw error;
      }
    },
  };
}

/** Closes a connection at once. Without a statement in flight, the driver would wait for the server to close it. */
function closeNow(client: PgPoolClient): void {
  client.on("error", ignore);
  client.query("SELECT 1").catch(ignore);
  client.release(true);
}

/** A connection on which ROLLBACK fails may still be in its transaction, and must not be used again. */
function isRolledBack(client: PgPoolClient): Promise<boolean> {
  return client.query("ROLLBACK").then(
    () => true,
    () => false,
  );
}

interface SentStatement {
  isAnswered(): void;
  /** The statement will never be answered. */
  isLost(): void;
  /** Nobody waits for the statement any longer. */
  isOver(): void;
}

/**
 * When each connection of a pool last answered. A firewall that drops idle connections drops all of them. So when one does
 * not answer, the connections that have not answered since are not tried either.
 */
interface ConnectionHealth {
  /** Notes that a statement is sent on this connection. */
  sent(client: PgPoolClient, isCancelled: IsCancelled | undefined): SentStatement;
  /** Notes that a statement on this connection is cancelled. */
  cancels(client: PgPoolClient): void;
  /** The connection may be as dead as another one is. */
  isSuspect(client: PgPoolClient): boolean;
  /** A statement on this connection was cancelled, whether or not it was answered. */
  hasCancelled(client: PgPoolClient): boolean;
  /** Every connection that has not answered after now may be dead. */
  suspectAll(): void;
}

/** All stores on one pool share their knowledge about its connections. */
const healthByPool = new WeakMap<PgPool, ConnectionHealth>();

function connectionHealthFor(pool: PgPool): ConnectionHealth {
  const known = healthByPool.get(pool) ?? createConnectionHealth();
  healthByPool.set(pool, known);
  return known;
}

function createConnectionHealth(): ConnectionHealth {
  const answeredAt = new WeakMap<PgPoolClient, number>();
  const cancelled = new WeakSet<PgPoolClient>();
  /** The statements that are not answered yet, each with the time when it was sent. */
  const inFlight = new Set<{ readonly at: number; readonly isCancelled: IsCancelled | undefined }>();
  /** When the last statement was sent that will never be answered. */
  let lostSince = Number.NEGATIVE_INFINITY;

  return {
    sent(client, isCancelled) {
      const statement = { at: performance.now(), isCancelled };
      inFlight.add(statement);
      return {
        isAnswered: () => void answeredAt.set(client, performance.now()),
        isLost() {
          lostSince = Math.max(lostSince, statement.at);
        },
        isOver: () => void inFlight.delete(statement),
      };
    },
    cancels: (client) => void cancelled.add(client),
    // Asks the callers now: a caller that cancels and tries again at once must not get the next dead connection.
    isSuspect(client) {
      const last = answeredAt.get(client) ?? Number.POSITIVE_INFINITY;
      if (last < lostSince) return true;
      for (const { at, isCancelled } of inFlight) if (last < at && isCancelled?.()) return true;
      return false;
    },
    hasCancelled: (client) => cancelled.has(client),
    suspectAll() {
      lostSince = performance.now();
    },
  };
}

/** How long to wait for the answer of a cancelled statement before the server is queried again. */
const PAUSE_MS = 500;
/** A query about the statement that takes longer than this tells nothing. */
const QUERY_TIMEOUT_MS = 2_000;

/**
 * Cancels the statement of the server process `$1` if it waits for a lock. Returns whether that process works on a
 * statement at all. Behind a pooler the process ids mean nothing: there the id of this connection, `$2`, is not the one that
 * the server reports.
 */
const CANCEL_IF_LOCKED = `SELECT count(CASE WHEN wait_event_type = 'Lock' THEN pg_cancel_backend(pid) ELSE false END)::text
  FROM pg_stat_activity WHERE pid = ($1::text)::bigint AND state = 'active' AND pg_backend_pid() = ($2::text)::bigint`;

interface SeparateClient extends PgClient {
  connect(): Promise<unknown>;
  end(): Promise<void>;
  readonly processID?: unknown;
}

/**
 * Ends a cancelled statement. Resolves with true once `answer` is settled, and with false once it never will be. Asks the
 * server on a separate connection, since every connection of the pool may be stuck:
 *
 *   the statement waits for a lock         ─▶ cancel it; its own connection then reports an error
 *   the server does not run the statement  ─▶ the connection is dead
 *   anything else                          ─▶ leave it alone and check again. A commit that waits for a synchronous
 *                                             standby must not be cancelled: other sessions would see data that no
 *                                             standby has.
 */
async function endStatement(pool: PgPool, client: PgPoolClient, answer: Promise<unknown>): Promise<boolean> {
  const settled = answer.then(
    () => true,
    () => true,
  );
  for (;;) {
    const isRunning = await Promise.race([
      isRunningOnServer(pool, client),
      settled.then(() => "settled" as const),
    ]);
    if (isRunning === "settled") return true;
    if (!isRunning) return false;
    const pause = new Promise<boolean>((resolve) => setTimeout(resolve, PAUSE_MS, false).unref?.());
    if (await Promise.race([pause, settled])) return true;
  }
}

/** Whether the server runs the connection's statement. If the server does not answer, it may be running. */
async function isRunningOnServer({ Client, options }: PgPool, { processID }: PgPoolClient): Promise<boolean> {
  if (Client === undefined) return false;
  const limits = { connectionTimeoutMillis: QUERY_TIMEOUT_MS, query_timeout: QUERY_TIMEOUT_MS };
  const separate = new Client({ ...options, ...limits }) as SeparateClient;
  separate.on("error", ignore);
  try {
    await separate.connect();
    const values = [String(processID), String(separate.processID)];
    const { rows } = await separate.query({ text: CANCEL_IF_LOCKED, values, rowMode: "array" });
    return (rows as string[][])[0]?.[0] !== "0";
  } catch {
    return true;
  } finally {
    separate.end().catch(ignore);
  }
}
