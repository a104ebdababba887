/**
 * Wakes the waiters of records that were settled, in every process, by LISTEN and NOTIFY. One connection listens, from the
 * first waiter until there has been none for a while: the server wakes every connection that listens, on any channel of the
 * database, for every notification. When it is lost, it is replaced, and then every waiter is woken once, since notifications in between were missed. A waiter that no
 * notification reaches still polls.
 */
import { NevertwiceError } from "../../core/errors.ts";
import type { WatchRequest } from "../../core/store.ts";
import { createWatchers } from "../watchers.ts";
import { ignore, isPgPool, isPostgresJs, type PgClient, type PgPool, type PostgresJs } from "./client.ts";
import { toStoreError } from "./errors.ts";
import { parsePayload, shortId } from "./notifier.ts";

/**
 * A pg Pool, of which one connection is kept; the `sql` of postgres.js; or a function that makes a pg Client and
 * connects it, called again after its connection was lost.
 */
export type PostgresSubscriber = PgPool | PostgresJs | (() => OwnClient | Promise<OwnClient>);

type OwnClient = PgClient & { end(): Promise<void> };

const LISTEN_TIMEOUT_MS = 5_000;
/** How often to check a connection that waiters rely on, and how long it may take to answer. */
const PULSE_MS = 2_000;
/** How long the connection stays when nothing waits. */
const IDLE_MS = 30_000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5_000;

export interface Subscription {
  watch(request: WatchRequest): Promise<() => void>;
  close(): Promise<void>;
}

/** A connection that listens. */
interface ListenConnection {
  /** Resolves when the connection is lost; never if the driver reconnects by itself. */
  readonly lost: Promise<unknown>;
  /** Sends a statement to find out whether the connection is alive. If no answer comes, the connection is lost. */
  check(): void;
  end(): unknown;
}

interface ListenHandlers {
  onPayload(payload: string): void;
  /** The connection listens, for the first time or again. */
  onListening(): void;
}

type Listen = (channel: string, handlers: ListenHandlers) => Promise<ListenConnection>;

export function createSubscription(
  subscriber: PostgresSubscriber,
  readChannel: () => Promise<string>,
  { pulseMs = PULSE_MS, idleMs = IDLE_MS }: { readonly pulseMs?: number; readonly idleMs?: number } = {},
): Subscription {
  const listen = listenWith(subscriber);
  const watchers = createWatchers();
  let connecting: Promise<void> | undefined;
  let connection: ListenConnection | undefined;
  let isClosed = false;
  let hasListened = false;
  let pulse: ReturnType<typeof setInterval> | undefined;
  let neededAt = 0;

  const handlers: ListenHandlers = {
    onPayload: (payload) => watchers.wake(parsePayload(payload)),
    onListening() {
      if (hasListened) watchers.wakeAll();
      hasListened = true;
    },
  };

  // A network device can drop an idle connection without informing either side.
  function startPulse(): void {
    neededAt = performance.now();
    if (pulse !== undefined) return;
    pulse = setInterval(() => {
      if (!watchers.isEmpty()) {
        neededAt = performance.now();
        connection?.check();
      } else if (connection !== undefined && performance.now() - neededAt >= idleMs)
        stopListening(connection);
    }, pulseMs);
    pulse.unref?.();
    connection?.check();
  }

  /** The next waiter connects again. */
  function stopListening(idle: ListenConnection): void {
    clearInterval(pulse);
    pulse = undefined;
    connection = undefined;
    connecting = undefined;
    void idle.end();
  }

  async function connect(): Promise<void> {
    const made = await listen(await readChannel(), handlers);
    if (isClosed) return void made.end();
    connection = made;
    void made.lost.then(() => {
      if (connection !== made) return;
      connection = undefined;
      void reconnect(FIRST_PAUSE_MS);
    });
  }

  async function reconnect(pauseMs: number): Promise<void> {
    await new Promise<void>((resolve) => {
      setTimeout(resolve, pauseMs * (0.5 + Math.random())).unref?.();
    });
    if (isClosed) return;
    connecting = connect();
    await connecting.catch(() => reconnect(Math.min(LONGEST_PAUSE_MS, pauseMs * 2)));
  }

  /** While the store reconnects, a new watch waits for it, and fails if it fails. */
  function connected(): Promise<void> {
    if (connecting === undefined) {
      connecting = connect();
      connecting.catch(() => {
        connecting = undefined;
      });
    }
    return connecting;
  }

  return {
    async watch({ id, wake }) {
      if (isClosed) throw new NevertwiceError("unavailable", "the store is closed.");
      await connected();
      const unwatch = watchers.watch(shortId(id), wake);
      startPulse();
      return unwatch;
    },
    async close() {
      isClosed = true;
      watchers.clear();
      clearInterval(pulse);
      await connection?.end();
    },
  };
}

function listenWith(subscriber: PostgresSubscriber): Listen {
  if (isPostgresJs(subscriber)) {
    return async (channel, { onPayload, onListening }) => {
      const { unlisten } = await subscriber.listen(channel, onPayload, onListening);
      // postgres.js keeps a separate connection for this; if that is lost, there is nothing to undo.
      return { lost: new Promise(() => {}), check: ignore, end: () => void unlisten().catch(() => {}) };
    };
  }
  if (isPgPool(subscriber)) {
    return async (channel, handlers) => {
      const client = await subscriber.connect();
      // The connection listens, so the pool must not use it again.
      return listenOn(client, channel, handlers, () => client.release(true));
    };
  }
  return async (channel, handlers) => {
    const client = await subscriber();
    return listenOn(client, channel, handlers, () => client.end());
  };
}

async function listenOn(
  client: PgClient,
  channel: string,
  { onPayload, onListening }: ListenHandlers,
  end: () => unknown,
): Promise<ListenConnection> {
  const listen = `LISTEN "${channel}"`;
  let lose: () => void = ignore;
  const lost = new Promise<void>((resolve) => {
    lose = () => resolve();
    client.on("error", lose);
    client.on("end", lose);
  });
  client.on("notification", (message) => message.channel === channel && onPayload(message.payload ?? ""));
  // A lost connection is ended too, so that the pool no longer counts it.
  let ended: Promise<void> | undefined;
  const endOnce = () => {
    ended ??= (async () => end())().then(ignore, ignore);
    return ended;
  };
  void lost.then(endOnce);
  try {
    await answeredInTime(client.query(listen), lost);
  } catch (error) {
    void endOnce();
    throw toStoreError(error);
  }
  onListening();
  let isChecking = false;
  const check = () => {
    if (isChecking) return;
    isChecking = true;
    // A second LISTEN changes nothing and needs an answer.
    answeredInTime(client.query(listen), lost, PULSE_MS)
      .catch(lose)
      .finally(() => {
        isChecking = false;
      });
  };
  return { lost, check, end: endOnce };
}

/** A client that was never connected, or whose server is silent, never answers. */
async function answeredInTime(
  answer: Promise<unknown>,
  lost: Promise<unknown>,
  ms: number = LISTEN_TIMEOUT_MS,
): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise((_, reject) => {
    const error = new NevertwiceError(
      "unavailable",
      "Postgres: LISTEN was not answered; is the subscriber connected?",
    );
    timer = setTimeout(reject, ms, error);
  });
  const gone = lost.then(() => {
    throw new NevertwiceError("unavailable", "Postgres: the subscriber's connection was lost.");
  });
  answer.catch(() => {});
  gone.catch(() => {});
  try {
    await Promise.race([answer, late, gone]);
  } finally {
    clearTimeout(timer);
  }
}
