/**
 * The reference store: a Map in this process. Single-threaded JavaScript makes every step atomic. It survives nothing,
 * keeps no timer, and when it is full it refuses new keys rather than forget one that is still owed.
 */
import { type Clock, systemClock } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkOptions, isClock, wholeFrom } from "../core/policy.ts";
import * as machine from "../core/record.ts";
import type { ClaimAnswer, ListRequest, Store } from "../core/store.ts";

export interface MemoryStoreOptions {
  /** Judges leases and retention; default: the system's. */
  readonly clock?: Clock;
  /** Default 100,000. Past it, a claim of a new key fails with `store-full`. */
  readonly maxRecords?: number;
}

const MAX_RECORDS = 100_000;
/** How many records a claim looks through for an expired one before it says that the store is full. */
const FULL_LOOK = 1_000;

const GONE = {
  survives: "no",
  because: "the records live in this process's memory",
  raise: "use a store that outlives the process: SQLite on one machine, or a server",
} as const;
const SURVIVES_NOTHING = {
  "our-crash": GONE,
  "store-crash": GONE,
  "power-loss": GONE,
  failover: GONE,
} as const;

export function memoryStore(options: MemoryStoreOptions = {}): Store {
  checkOptions(options, { clock: isClock, maxRecords: wholeFrom(1) });
  const { clock = systemClock, maxRecords = MAX_RECORDS } = options;
  const records = new Map<string, machine.Kept>();
  const watchers = new Map<string, Set<() => void>>();
  let lastFence = 0;
  let lap = records.entries();

  function nextFence(): number {
    lastFence = Math.max(lastFence + 1, Math.floor(clock.now() * 1_000));
    return lastFence;
  }

  /** Looks at the next `count` records of the lap and removes those past their time. */
  function purgeSome(count: number): { removed: number; more: boolean } {
    const now = clock.now();
    let removed = 0;
    for (let looked = 0; looked < count; looked++) {
      const { done, value } = lap.next();
      if (done) {
        lap = records.entries();
        return { removed, more: false };
      }
      if (machine.isExpired(value[1], now) && records.delete(value[0])) removed++;
    }
    return { removed, more: true };
  }

  function wake(id: string): void {
    for (const waker of watchers.get(id) ?? []) waker();
  }

  /** Applies a step: writes what changed, wakes whoever waits for it, answers. */
  function apply(id: string, step: machine.Step, wakes: boolean): boolean {
    if (step.write !== undefined) {
      records.set(id, step.write);
      if (wakes) wake(id);
    }
    return step.answer;
  }

  return {
    async claim(request): Promise<ClaimAnswer> {
      const found = records.get(request.id);
      const { answer, write } = machine.claimRecord(found, request, clock.now(), nextFence);
      if (write !== undefined) {
        if (found === undefined && records.size >= maxRecords && purgeSome(FULL_LOOK).removed === 0) {
          throw new NevertwiceError(
            "store-full",
            `the memory store holds ${maxRecords} records (maxRecords) and none is past its time.`,
          );
        }
        records.set(request.id, write);
      }
      return answer;
    },

    async complete(request) {
      return apply(request.id, machine.completeRecord(records.get(request.id), request, clock.now()), true);
    },

    async abandon({ id, token, as }) {
      return apply(id, machine.abandonRecord(records.get(id), token, as, clock.now()), true);
    },

    async renew({ id, token, leaseMs }) {
      return apply(id, machine.renewRecord(records.get(id), token, leaseMs, clock.now()), false);
    },

    async read(id) {
      const record = records.get(id);
      const now = clock.now();
      return record === undefined || machine.isExpired(record, now) ? undefined : machine.viewOf(record, now);
    },

    async purge(limit) {
      return purgeSome(limit);
    },

    async close() {
      records.clear();
      watchers.clear();
    },

    async watch({ id, wake: waker }) {
      const wakers = watchers.get(id) ?? new Set();
      watchers.set(id, wakers.add(waker));
      return () => {
        wakers.delete(waker);
        if (wakers.size === 0 && watchers.get(id) === wakers) watchers.delete(id);
      };
    },

    async settings() {
      return { title: "memory", survives: SURVIVES_NOTHING, notes: [] };
    },

    async list({ namespace, scope, state, limit, after }: ListRequest) {
      const now = clock.now();
      // By id, so that a page stands where it stood when records between come and go.
      const matching = [...records.values()].filter(
        (record) =>
          record.parts?.namespace === namespace &&
          (scope === undefined || record.parts.scope === scope) &&
          (after === undefined || record.id > after) &&
          !machine.isExpired(record, now) &&
          (state === undefined || machine.stateOf(record, now) === state),
      );
      const page = matching
        .sort((a, b) => (a.id < b.id ? -1 : 1))
        .slice(0, limit)
        .map((record) => machine.viewOf(record, now));
      return matching.length > limit ? { records: page, next: page.at(-1)?.id } : { records: page };
    },

    async forget(request) {
      const { id } = request;
      const step = machine.forgetRecord(records.get(id), request, clock.now());
      if (!step.answer) return false;
      if (step.write === undefined) records.delete(id);
      else records.set(id, step.write);
      wake(id);
      return true;
    },
  };
}
