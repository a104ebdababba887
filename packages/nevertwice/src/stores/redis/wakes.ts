/**
 * Waking whoever watches a record. A script publishes on a channel that is called as the record's key; channels know
 * no database numbers, so a wake-up may be another application's: its waiter looks, and goes back to sleep.
 */
import { failureOf } from "./failures.ts";
import { linkTo } from "./link.ts";

export interface Wakes {
  /** Resolves once the channel is subscribed to; the answer ends it. */
  watch(channel: string, wake: () => void): Promise<() => void>;
}

interface Watched {
  readonly wakers: Set<() => void>;
  readonly standing: Promise<unknown>;
}

/** Stores that share a subscriber share its subscriptions: one's end must not end another's. */
const wakesOf = new WeakMap<object, Wakes>();

export function wakesBy(subscriber: object): Wakes {
  const known = wakesOf.get(subscriber) ?? createWakes(subscriber);
  wakesOf.set(subscriber, known);
  return known;
}

function createWakes(subscriber: object): Wakes {
  const watched = new Map<string, Watched>();
  const rouse = ({ wakers }: Watched) => {
    for (const wake of [...wakers]) wake();
  };
  const channels = linkTo("subscriber", subscriber).channels((channel) => {
    const found = watched.get(channel);
    if (found !== undefined) rouse(found);
  });
  channels.onBack(
    () => {
      for (const each of [...watched.values()]) rouse(each);
    },
    () => [...watched.keys()],
  );

  function leave(channel: string, found: Watched, waker: () => void): void {
    if (!found.wakers.delete(waker) || found.wakers.size > 0 || watched.get(channel) !== found) return;
    watched.delete(channel);
    channels.unsubscribe(channel).catch(() => {});
  }

  return {
    async watch(channel, wake) {
      const waker = () => wake();
      const found = watched.get(channel) ?? { wakers: new Set(), standing: channels.subscribe(channel) };
      watched.set(channel, found);
      found.wakers.add(waker);
      try {
        await found.standing;
      } catch (error) {
        leave(channel, found, waker);
        throw failureOf(error);
      }
      return () => leave(channel, found, waker);
    },
  };
}
