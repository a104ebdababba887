/**
 * Wakes the waiters of records that were settled, in every process, by pub/sub. A script publishes on a channel that has
 * the name of the record's key. Channels ignore database numbers, so a message may come from another application: its waiter
 * reads the record and continues to wait.
 */
import type { Store } from "../../core/store.ts";
import { createWatchers } from "../watchers.ts";
import { adaptClient, type RedisClient } from "./client.ts";
import { toStoreError } from "./errors.ts";

interface SharedWatch {
  /** Resolves once the channel is subscribed. The returned function stops watching. */
  watch(channel: string, wake: () => void): Promise<() => void>;
}

/** Stores with the same subscriber share its subscriptions: when one store stops watching, the others continue. */
const watchBySubscriber = new WeakMap<object, SharedWatch>();

function sharedWatchFor(subscriber: object): SharedWatch {
  const known = watchBySubscriber.get(subscriber) ?? createSharedWatch(subscriber);
  watchBySubscriber.set(subscriber, known);
  return known;
}

function createSharedWatch(subscriber: object): SharedWatch {
  const subscriptions = new Map<string, Promise<unknown>>();
  const watchers = createWatchers({
    onFirst: (channel) => void subscriptions.set(channel, channels.subscribe(channel)),
    onLast(channel) {
      subscriptions.delete(channel);
      channels.unsubscribe(channel).catch(() => {});
    },
  });
  const channels = adaptClient("subscriber", subscriber).channels((channel) => watchers.wake([channel]));
  channels.onReconnect(watchers.wakeAll, watchers.ids);

  return {
    async watch(channel, wake) {
      const unwatch = watchers.watch(channel, wake);
      try {
        await subscriptions.get(channel);
      } catch (error) {
        unwatch();
        throw toStoreError(error);
      }
      return unwatch;
    },
  };
}

/** The store with `watch`. `prefix` is the prefix that keys have in Redis. */
export function withWatch(store: Store, subscriber: RedisClient, prefix: string): Store {
  const listeners = adaptClient("subscriber", subscriber).listen();
  const shared = sharedWatchFor(subscriber);
  const watches = new Set<() => void>();
  return {
    ...store,
    async watch({ id, wake }) {
      const unwatch = await shared.watch(`${prefix}{${id}}`, wake);
      const stop = () => {
        watches.delete(stop);
        unwatch();
      };
      watches.add(stop);
      return stop;
    },
    async close() {
      for (const stop of [...watches]) stop();
      listeners.stop();
      await store.close();
    },
  };
}
