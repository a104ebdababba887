/**
 * Which listeners in this process wait for which record. Every store that implements `watch` keeps one of these maps; the
 * store's own part is only how it learns that a record has changed.
 */

export interface Watchers {
  /** Adds a listener. The returned function removes it; calling that function again does nothing. */
  watch(id: string, wake: () => void): () => void;
  /** Calls every listener of these ids. */
  wake(ids: Iterable<string>): void;
  /** Calls every listener, for a store that may have missed changes, such as after a lost connection. */
  wakeAll(): void;
  /** The ids that have at least one listener. */
  ids(): readonly string[];
  isEmpty(): boolean;
  /** Forgets all listeners without calling them or `onLast`. */
  clear(): void;
}

export interface WatchersOptions {
  /** Called when an id gets its first listener. */
  readonly onFirst?: (id: string) => void;
  /** Called when an id loses its last listener. */
  readonly onLast?: (id: string) => void;
}

export function createWatchers({ onFirst, onLast }: WatchersOptions = {}): Watchers {
  const listenersById = new Map<string, Set<() => void>>();

  function wakeOne(id: string): void {
    const listeners = listenersById.get(id);
    if (listeners === undefined) return;
    // A copy: a listener may remove itself, or add another one, while it is called.
    for (const listener of [...listeners]) listener();
  }

  return {
    watch(id, wake) {
      // A new function for each call, so that the same `wake` may be added twice and removed once.
      const listener = () => wake();
      const listeners = listenersById.get(id) ?? new Set();
      listenersById.set(id, listeners.add(listener));
      if (listeners.size === 1) onFirst?.(id);
      return () => {
        if (!listeners.delete(listener) || listeners.size > 0 || listenersById.get(id) !== listeners) return;
        listenersById.delete(id);
        onLast?.(id);
      };
    },
    wake(ids) {
      for (const id of ids) wakeOne(id);
    },
    wakeAll() {
      for (const id of [...listenersById.keys()]) wakeOne(id);
    },
    ids: () => [...listenersById.keys()],
    isEmpty: () => listenersById.size === 0,
    clear: () => listenersById.clear(),
  };
}
