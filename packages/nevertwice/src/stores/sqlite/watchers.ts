/** Who waits for which record in this process, and how they are woken. */

export interface Watchers {
  watch(id: string, wake: () => void): () => void;
  wake(ids: Iterable<string>): void;
  isEmpty(): boolean;
  clear(): void;
}

/** `onFirst` and `onLast` are told when the first begins to wait for an id, and when the last no longer does. */
export function createWatchers(onFirst: (id: string) => void, onLast: (id: string) => void): Watchers {
  const watchers = new Map<string, Set<() => void>>();
  return {
    watch(id, wake) {
      // Each call its own, so that the same function may wait twice.
      const waker = () => wake();
      const wakers = watchers.get(id) ?? new Set();
      watchers.set(id, wakers.add(waker));
      if (wakers.size === 1) onFirst(id);
      return () => {
        if (!wakers.delete(waker) || wakers.size > 0 || watchers.get(id) !== wakers) return;
        watchers.delete(id);
        onLast(id);
      };
    },
    wake(ids) {
      for (const id of ids) for (const waker of [...(watchers.get(id) ?? [])]) waker();
    },
    isEmpty: () => watchers.size === 0,
    clear: () => watchers.clear(),
  };
}
