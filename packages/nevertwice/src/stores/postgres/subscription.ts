/**
 * Who watches which record, and the one connection on which Postgres tells that one was settled. A connection that is
 * lost is made again; what was told meanwhile is lost, so everybody who watches is woken once when it stands again.
 */
import { NevertwiceError } from "../../core/errors.ts";
import type { WatchRequest } from "../../core/store.ts";
import { isPgPool, isPostgresJs, type PgClient, type PgPool, type PostgresJs } from "./client.ts";
import { toFailure } from "./failure.ts";
import { idsOf, shortId } from "./payload.ts";

/**
 * A pg Pool, of which one connection is kept; the `sql` of postgres.js; or a function that makes a pg Client and
 * connects it, called again after its connection was lost.
 */
export type PostgresSubscriber = PgPool | PostgresJs | (() => OwnClient | Promise<OwnClient>);

type OwnClient = PgClient & { end(): Promise<void> };

const LISTEN_TIMEOUT_MS = 5_000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5_000;

export interface Subscription {
  watch(request: WatchRequest): Promise<() => void>;
  close(): Promise<void>;
}

interface Listening {
  /** Resolves when the connection is lost; never where the driver makes it again by itself. */
  readonly lost: Promise<unknown>;
  end(): unknown;
}

interface Hearing {
  hear(payload: string): void;
  /** It listens, for the first time or again. */
  stands(): void;
}

type Listen = (channel: string, hearing: Hearing) => Promise<Listening>;

export function createSubscription(
  subscriber: PostgresSubscriber,
  channelOf: () => Promise<string>,
): Subscription {
  const listen = listenOf(subscriber);
  const watchers = new Map<string, Set<() => void>>();
  let standing: Promise<void> | undefined;
  let listening: Listening | undefined;
  let isClosed = false;
  let hasStood = false;

  function wake(wakers: Iterable<() => void>): void {
    for (const waker of [...wakers]) waker();
  }

  const hearing: Hearing = {
    hear(payload) {
      for (const id of idsOf(payload)) wake(watchers.get(id) ?? []);
    },
    stands() {
      if (hasStood) for (const wakers of [...watchers.values()]) wake(wakers);
      hasStood = true;
    },
  };

  async function stand(): Promise<void> {
    const made = await listen(await channelOf(), hearing);
    if (isClosed) return void made.end();
    listening = made;
    void made.lost.then(() => {
      listening = undefined;
      void standAgain(FIRST_PAUSE_MS);
    });
  }

  async function standAgain(pauseMs: number): Promise<void> {
    await new Promise<void>((resolve) => {
      setTimeout(resolve, pauseMs * (0.5 + Math.random())).unref?.();
    });
    if (isClosed) return;
    standing = stand();
    await standing.catch(() => standAgain(Math.min(LONGEST_PAUSE_MS, pauseMs * 2)));
  }

  /** While it is being made again whoever watches waits with it, and is told if it cannot be. */
  function stood(): Promise<void> {
    if (standing === undefined) {
      standing = stand();
      standing.catch(() => {
        standing = undefined;
      });
    }
    return standing;
  }

  return {
    async watch({ id, wake: waker }) {
      if (isClosed) throw new NevertwiceError("unavailable", "the store is closed.");
      await stood();
      const short = shortId(id);
      const wakers = watchers.get(short) ?? new Set();
      watchers.set(short, wakers.add(waker));
      return () => {
        wakers.delete(waker);
        if (wakers.size === 0 && watchers.get(short) === wakers) watchers.delete(short);
      };
    },
    async close() {
      isClosed = true;
      watchers.clear();
      await listening?.end();
    },
  };
}

function listenOf(subscriber: PostgresSubscriber): Listen {
  if (isPostgresJs(subscriber)) {
    return async (channel, { hear, stands }) => {
      const { unlisten } = await subscriber.listen(channel, hear, stands);
      // Its own connection for this stays with the sql; where it is lost, there is nothing to take back.
      return { lost: new Promise(() => {}), end: () => void unlisten().catch(() => {}) };
    };
  }
  if (isPgPool(subscriber)) {
    return async (channel, hearing) => {
      const client = await subscriber.connect();
      // It listens: nobody else must be handed it.
      return listenOn(client, channel, hearing, () => client.release(true));
    };
  }
  return async (channel, hearing) => {
    const client = await subscriber();
    return listenOn(client, channel, hearing, () => client.end());
  };
}

async function listenOn(
  client: PgClient,
  channel: string,
  { hear, stands }: Hearing,
  end: () => unknown,
): Promise<Listening> {
  const lost = new Promise<unknown>((resolve) => {
    client.on("error", resolve);
    client.on("end", resolve);
  });
  client.on("notification", (message) => message.channel === channel && hear(message.payload ?? ""));
  // A connection that is lost is ended too, so that whoever counts it counts it no more.
  const ended = once(async () => {
    try {
      await end();
    } catch {
      // It is gone already.
    }
  });
  void lost.then(ended);
  try {
    await bounded(client.query(`LISTEN "${channel}"`), lost);
  } catch (error) {
    void ended();
    throw toFailure(error);
  }
  stands();
  return { lost, end: ended };
}

function once<T>(action: () => T): () => T {
  let done: { readonly value: T } | undefined;
  return () => {
    done ??= { value: action() };
    return done.value;
  };
}

/** A client that was never connected, or whose server is silent, answers nothing at all. */
async function bounded(answer: Promise<unknown>, lost: Promise<unknown>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise((_, reject) => {
    const error = new NevertwiceError(
      "unavailable",
      "Postgres: LISTEN was not answered; is the subscriber connected?",
    );
    timer = setTimeout(reject, LISTEN_TIMEOUT_MS, error);
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
