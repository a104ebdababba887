/**
 * The reference store: a Map in this process. JavaScript runs on a single thread, so every step is atomic. Its records do
 * not survive the process. It uses no timers, and when it is full it refuses new keys instead of evicting a record. A guard
 * gets its answers at once, and gives it values to keep; through the public methods an outcome is text, as in every store.
 */
import { canShareAcrossCalls } from "#platform";
import { type Clock, systemClock } from "../core/clock.ts";
import { offerDirect } from "../core/direct-store.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkOptions, isClock, wholeFrom } from "../core/option-checks.ts";
import { type KeptOutcome, outcomeText } from "../core/outcome.ts";
import * as machine from "../core/record.ts";
import { toDetails, viewOf } from "../core/record-details.ts";
import type { ClaimAnswer, ClaimRequest, CompleteRequest, ListRequest, Store } from "../core/store.ts";
import {
  comparePlaces,
  countUndecided,
  fromCursor,
  isListed,
  type ListPlace,
  namesAfter,
  toCursor,
  toPlace,
} from "./listing.ts";
import { createWatchers } from "./watchers.ts";

/** Options of `memoryStore`. */
export interface MemoryStoreOptions {
  /** Decides when leases and retention end; default: the system clock. */
  readonly clock?: Clock;
  /**
   * How many records the store holds at most. Then a claim of a new key fails with `store-full`.
   * @default 100_000
   */
  readonly maxRecords?: number;
}

const MAX_RECORDS = 100_000;
/** How many records a claim searches for an expired one before it fails with `store-full`. */
const SEARCH_WHEN_FULL = 1_000;

const LOST = {
  survives: "no",
  because: "the records are in the memory of this process",
  raise: "use a store that outlives the process: SQLite on one machine, or a database server",
} as const;
const SURVIVES_NOTHING = {
  "our-crash": LOST,
  "store-crash": LOST,
  "power-loss": LOST,
  failover: LOST,
} as const;

/**
 * Keeps records in this process: for tests, and for a single process. They are lost when it ends.
 * @throws `options-invalid`
 * @example
 * ```ts
 * import { createGuard } from "nevertwice";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * const guard = createGuard({ store: memoryStore() });
 * await guard.close();
 * ```
 */
export function memoryStore(options: MemoryStoreOptions = {}): Store {
  checkOptions(options, { clock: isClock, maxRecords: wholeFrom(1) });
  const { clock = systemClock, maxRecords = MAX_RECORDS } = options;
  const records = new Map<string, machine.Kept<KeptOutcome>>();
  const watchers = createWatchers();
  let lastFence = 0;
  /** Where the next purge continues. */
  let cursor = records.entries();

  function nextFence(): number {
    lastFence = Math.max(lastFence + 1, Math.floor(clock.now() * 1_000));
    return lastFence;
  }

  /** Looks at the next `count` records and removes the expired ones. */
  function purgeSome(count: number): { removed: number; more: boolean } {
    const now = clock.now();
    let removed = 0;
    for (let looked = 0; looked < count; looked++) {
      const { done, value } = cursor.next();
      if (done) {
        cursor = records.entries();
        return { removed, more: false };
      }
      if (machine.isExpired(value[1], now) && records.delete(value[0])) removed++;
    }
    return { removed, more: true };
  }

  /** Writes what the step changed, wakes the waiters if `wakes`, and returns the answer. */
  function apply(id: string, step: machine.Step<KeptOutcome>, wakes: boolean): boolean {
    if (step.write !== undefined) {
      records.set(id, step.write);
      if (wakes && !watchers.isEmpty()) watchers.wake([id]);
    }
    return step.answer;
  }

  /** Undefined, and nothing is changed, if there is no room for the record. */
  function claim(request: ClaimRequest): ClaimAnswer<KeptOutcome> | undefined {
    const found = records.get(request.id);
    const { answer, write } = machine.claimRecord(found, request, clock.now(), nextFence);
    if (write === undefined) return answer;
    const isFull = found === undefined && records.size >= maxRecords;
    if (isFull && purgeSome(SEARCH_WHEN_FULL).removed === 0) return undefined;
    records.set(request.id, write);
    return answer;
  }

  function complete(request: CompleteRequest<KeptOutcome>): boolean {
    return apply(request.id, machine.completeRecord(records.get(request.id), request, clock.now()), true);
  }

  const store: Store = {
    async claim(request): Promise<ClaimAnswer> {
      const answer = claim(request);
      if (answer === undefined)
        throw new NevertwiceError(
          "store-full",
          `the memory store holds ${maxRecords} records (maxRecords), and none of them has expired.`,
        );
      return answer.status === "completed" ? { ...answer, outcome: outcomeText(answer.outcome) } : answer;
    },

    complete: async (request) => complete(request),

    async abandon({ id, token, as }) {
      return apply(id, machine.abandonRecord(records.get(id), token, as, clock.now()), true);
    },

    async renew({ id, token, leaseMs }) {
      return apply(id, machine.renewRecord(records.get(id), token, leaseMs, clock.now()), false);
    },

    async keepStep(request) {
      return apply(request.id, machine.keepStepRecord(records.get(request.id), request, clock.now()), false);
    },

    async read(id) {
      const record = records.get(id);
      const now = clock.now();
      return record === undefined || machine.isExpired(record, now) ? undefined : toDetails(record, now);
    },
    keepsHistory: true,

    async purge(limit) {
      return purgeSome(limit);
    },

    async close() {
      records.clear();
      watchers.clear();
    },

    async settings() {
      return { title: "memory", survives: SURVIVES_NOTHING, notes: [] };
    },

    async list({ limit, after, ...filter }: ListRequest) {
      const now = clock.now();
      const from = after === undefined ? undefined : fromCursor(after);
      const matching: (ListPlace & { readonly record: machine.Kept<KeptOutcome> })[] = [];
      for (const record of records.values()) {
        if (!isListed(record, filter, now)) continue;
        const place = { ...toPlace(record), record };
        if (from === undefined || comparePlaces(from, place) < 0) matching.push(place);
      }
      const page = matching.sort(comparePlaces).slice(0, limit);
      const shown = page.map(({ record }) => viewOf(record, now));
      return matching.length > limit
        ? { records: shown, next: toCursor(page.at(-1) as ListPlace) }
        : { records: shown };
    },

    listOrder: "newest-first",

    async undecided({ namespace, limit }) {
      return countUndecided(records.values(), { namespace, limit, now: clock.now(), isWhole: true });
    },

    async namespaces({ limit, after }) {
      const found = new Set<string>();
      for (const { parts } of records.values()) if (parts !== undefined) found.add(parts.namespace);
      return namesAfter([...found], limit, after);
    },

    async forget(request) {
      const { id } = request;
      const step = machine.forgetRecord(records.get(id), request, clock.now());
      if (!step.answer) return false;
      if (step.write === undefined) records.delete(id);
      else records.set(id, step.write);
      watchers.wake([id]);
      return true;
    },
  };
  // The call that changes a record would wake waiters of other calls. Where it must not, they read the record again.
  if (canShareAcrossCalls) store.watch = async ({ id, wake }) => watchers.watch(id, wake);
  return offerDirect(store, { claim, complete });
}
