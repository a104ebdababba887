/** The queue of a node with [join]: a message waits for one message on each other in-port with an equal value of one field. */
import { createFifo } from "./fifo.ts";
import type { MessageQueue, QueuedMessage } from "./message-queue.ts";
import type { Join } from "./model.ts";

/** Why a message found no match: its time is over, too many messages wait, or the network stops. */
export type NoMatchReason = "unmatched" | "too-many-unmatched" | "stopping";

/** The messages of one match that have arrived so far. */
interface JoinGroup {
  readonly key: string;
  readonly dueMs: number;
  readonly parts: Map<string, QueuedMessage>;
}

export interface JoinQueueOptions {
  readonly join: Join;
  readonly ports: readonly string[];
  readonly isStopping: () => boolean;
  /** The value of the join field as text. Undefined if the message has none; it was then settled as invalid. */
  readonly readJoinKey: (queued: QueuedMessage) => string | undefined;
  readonly onUnmatched: (queued: QueuedMessage, why: NoMatchReason) => void;
}

export function createJoinQueue(options: JoinQueueOptions): MessageQueue {
  const { join, ports, isStopping, readJoinKey, onUnmatched } = options;
  const queue = createFifo<QueuedMessage>();
  /** In the order in which they began, which is also the order in which they expire. */
  const groups = new Set<JoinGroup>();
  const byKey = new Map<string, Set<JoinGroup>>();
  let gone: QueuedMessage[] = [];

  function remove(group: JoinGroup): void {
    groups.delete(group);
    const same = byKey.get(group.key);
    same?.delete(group);
    if (same?.size === 0) byKey.delete(group.key);
  }

  function giveUp(group: JoinGroup, why: NoMatchReason): void {
    remove(group);
    for (const queued of group.parts.values()) onUnmatched(queued, why);
  }

  /** The group that this message completes, if it completes one. Two messages of one port never match each other. */
  function match(queued: QueuedMessage, key: string, nowMs: number): readonly QueuedMessage[] | undefined {
    const same = byKey.get(key) ?? new Set();
    let group = [...same].find(({ parts }) => !parts.has(queued.port));
    if (group === undefined) {
      group = { key, dueMs: nowMs + join.withinMs, parts: new Map() };
      groups.add(group);
      byKey.set(key, same.add(group));
    }
    group.parts.set(queued.port, queued);
    if (group.parts.size < ports.length) return undefined;
    remove(group);
    return [...group.parts.values()];
  }

  function expire(nowMs: number): void {
    for (const group of groups) {
      const why: NoMatchReason | undefined = isStopping()
        ? "stopping"
        : nowMs >= group.dueMs
          ? "unmatched"
          : groups.size > join.maxPending
            ? "too-many-unmatched"
            : undefined;
      if (why === undefined) return;
      giveUp(group, why);
    }
  }

  return {
    add: queue.add,
    next(nowMs) {
      for (;;) {
        const [queued] = queue.take(1);
        if (queued === undefined) return undefined;
        gone.push(queued);
        const key = readJoinKey(queued);
        if (key === undefined) continue;
        const matched = match(queued, key, nowMs);
        if (matched !== undefined) return matched;
        expire(nowMs);
      }
    },
    takeLeft() {
      const left = gone;
      gone = [];
      return left;
    },
    expire,
    dueMs() {
      const [first] = groups;
      return first?.dueMs;
    },
    size: () => queue.length + [...groups].reduce((sum, { parts }) => sum + parts.size, 0),
    drop() {
      const waiting = [...groups].flatMap(({ parts }) => [...parts.values()]);
      groups.clear();
      byKey.clear();
      return [...queue.take(queue.length), ...waiting];
    },
  };
}
