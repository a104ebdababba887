/** Messages of several ports that belong together, by equal values of one field: each waits for the others, for a while. */
import { type Arrived, createQueue, type Gathering } from "./gathering.ts";
import type { Join } from "./model.ts";

/** Why a message has found no match: its time was up, too many waited, or the network stops. */
export type Unmatched = "unmatched" | "too-many-unmatched" | "stopping";

interface Partial {
  readonly key: string;
  readonly dueMs: number;
  readonly parts: Map<string, Arrived>;
}

export interface JoinOptions {
  readonly join: Join;
  readonly ports: readonly string[];
  readonly isStopping: () => boolean;
  /** The value of the field as text, or undefined if the message was settled since it has none. */
  readonly keyOf: (arrived: Arrived) => string | undefined;
  readonly onUnmatched: (arrived: Arrived, why: Unmatched) => void;
}

export function gatherMatches(options: JoinOptions): Gathering {
  const { join, ports, isStopping, keyOf, onUnmatched } = options;
  const queue = createQueue();
  /** In the order in which they began, and so in which their time is up. */
  const partials = new Set<Partial>();
  const byKey = new Map<string, Set<Partial>>();
  let gone: Arrived[] = [];

  function remove(partial: Partial): void {
    partials.delete(partial);
    const same = byKey.get(partial.key);
    same?.delete(partial);
    if (same?.size === 0) byKey.delete(partial.key);
  }

  function giveUp(partial: Partial, why: Unmatched): void {
    remove(partial);
    for (const arrived of partial.parts.values()) onUnmatched(arrived, why);
  }

  /** The set that a message completes, if it does. Two of one port never match each other. */
  function match(arrived: Arrived, key: string, nowMs: number): readonly Arrived[] | undefined {
    const same = byKey.get(key) ?? new Set();
    let partial = [...same].find(({ parts }) => !parts.has(arrived.port));
    if (partial === undefined) {
      partial = { key, dueMs: nowMs + join.withinMs, parts: new Map() };
      partials.add(partial);
      byKey.set(key, same.add(partial));
    }
    partial.parts.set(arrived.port, arrived);
    if (partial.parts.size < ports.length) return undefined;
    remove(partial);
    return [...partial.parts.values()];
  }

  function expire(nowMs: number): void {
    for (const partial of partials) {
      const why: Unmatched | undefined = isStopping()
        ? "stopping"
        : nowMs >= partial.dueMs
          ? "unmatched"
          : partials.size > join.maxPending
            ? "too-many-unmatched"
            : undefined;
      if (why === undefined) return;
      giveUp(partial, why);
    }
  }

  return {
    add: queue.add,
    next(nowMs) {
      for (;;) {
        const [arrived] = queue.take(1);
        if (arrived === undefined) return undefined;
        gone.push(arrived);
        const key = keyOf(arrived);
        if (key === undefined) continue;
        const matched = match(arrived, key, nowMs);
        if (matched !== undefined) return matched;
        expire(nowMs);
      }
    },
    left() {
      const left = gone;
      gone = [];
      return left;
    },
    expire,
    dueMs() {
      const [first] = partials;
      return first?.dueMs;
    },
    size: () => queue.length + [...partials].reduce((sum, { parts }) => sum + parts.size, 0),
    drop() {
      const held = [...partials].flatMap(({ parts }) => [...parts.values()]);
      partials.clear();
      byKey.clear();
      return [...queue.take(queue.length), ...held];
    },
  };
}
