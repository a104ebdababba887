/**
 * A store in front of a real one that loses, delays and refuses calls, as networks do. A test plans faults for single
 * calls, or draws them from a seed.
 */
import { systemTimer, type Timer } from "../core/clock.ts";
import type { Store } from "../core/store.ts";
import { seededRandom } from "./random.ts";

/**
 * `refuse`: fails at once, nothing is applied. `hang`: never applied, never answered. `lose-reply`: applied, never
 * answered. `break-reply`: applied, then fails. `delay`: applied late. `delay-reply`: applied at once, answered late.
 */
export type StoreFault = "refuse" | "hang" | "lose-reply" | "break-reply" | "delay" | "delay-reply";

/** The methods of a store in which faults can be planned. */
export type FaultyMethod =
  | "claim"
  | "complete"
  | "abandon"
  | "renew"
  | "keepStep"
  | "read"
  | "purge"
  | "list"
  | "undecided"
  | "overdue"
  | "namespaces"
  | "forget"
  | "watch";

/** The probability of each fault, per call. */
export type FaultRates = { readonly [Name in StoreFault]?: number };

/** Options of `faultyStore`. */
export interface FaultyStoreOptions {
  /** The seed of the faults and delays; default 1. */
  readonly seed?: number;
  /**
   * How often each kind of fault happens, from 0 to 1.
   * @default none happen
   */
  readonly rates?: FaultRates;
  /** The longest delay of a call in milliseconds; default 50. */
  readonly delayMs?: number;
  /**
   * The timer of delays.
   * @default the system's
   */
  readonly timer?: Timer;
}

/** A store with faults. */
export interface FaultyStore extends Store {
  /** The next call of this method that has no planned fault gets this one. */
  plan(method: FaultyMethod, fault: StoreFault): void;
  /** Changes how often each kind of fault happens. */
  setRates(rates: FaultRates): void;
  /** How many calls of each method were made: the round trips. */
  readonly calls: Readonly<Record<FaultyMethod, number>>;
}

const FAULTS: readonly StoreFault[] = ["refuse", "hang", "lose-reply", "break-reply", "delay", "delay-reply"];

/**
 * Wraps a store so that its calls fail, hang, are delayed, or lose their answers, as networks make them. The
 * same seed gives the same faults.
 * @example
 * ```ts
 * import { createGuard } from "nevertwice";
 * import { memoryStore } from "nevertwice/stores/memory";
 * import { faultyStore } from "nevertwice/testing";
 *
 * const store = faultyStore(memoryStore());
 * store.plan("complete", "lose-reply"); // the outcome is stored, and the guard does not hear of it
 * const guard = createGuard({ store, completeWaitMs: 10 });
 * await guard.run({ operation: "charge", key: "order-17" }, async () => "receipt 1");
 * await guard.close();
 * ```
 */
export function faultyStore(store: Store, options: FaultyStoreOptions = {}): FaultyStore {
  const { seed = 1, delayMs = 50, timer = systemTimer } = options;
  const random = seededRandom(seed);
  const planned = new Map<FaultyMethod, StoreFault[]>();
  const calls = {
    claim: 0,
    complete: 0,
    abandon: 0,
    renew: 0,
    keepStep: 0,
    read: 0,
    purge: 0,
    list: 0,
    undecided: 0,
    overdue: 0,
    namespaces: 0,
    forget: 0,
    watch: 0,
  };
  let rates = options.rates ?? {};

  function drawFault(method: FaultyMethod): StoreFault | undefined {
    const next = planned.get(method)?.shift();
    if (next !== undefined) return next;
    let draw = random.next();
    for (const fault of FAULTS) {
      draw -= rates[fault] ?? 0;
      if (draw < 0) return fault;
    }
    return undefined;
  }

  const pause = () => new Promise<void>((resolve) => void timer.after(random.between(1, delayMs), resolve));

  async function pass<T>(method: FaultyMethod, call: () => Promise<T>): Promise<T> {
    calls[method]++;
    const fault = drawFault(method);
    if (fault === "refuse") throw new Error(`faulty store: ${method} was refused`);
    if (fault === "hang") return new Promise<never>(() => {});
    if (fault === "delay") await pause();
    const answer = await call();
    if (fault === "lose-reply") return new Promise<never>(() => {});
    if (fault === "break-reply")
      throw new Error(`faulty store: ${method} was applied, but its reply was lost`);
    if (fault === "delay-reply") await pause();
    return answer;
  }

  const { keepStep, watch, list, undecided, overdue, namespaces, forget, settings } = store;
  return {
    claim: (request) => pass("claim", () => store.claim(request)),
    complete: (request) => pass("complete", () => store.complete(request)),
    abandon: (request) => pass("abandon", () => store.abandon(request)),
    renew: (request) => pass("renew", () => store.renew(request)),
    read: (id, bound) => pass("read", () => store.read(id, bound)),
    purge: (limit, bound) => pass("purge", () => store.purge(limit, bound)),
    close: () => store.close(),
    ...(keepStep && { keepStep: (request) => pass("keepStep", () => keepStep.call(store, request)) }),
    ...(watch && { watch: (request) => pass("watch", () => watch.call(store, request)) }),
    ...(list && { list: (request) => pass("list", () => list.call(store, request)) }),
    ...(undecided && { undecided: (request) => pass("undecided", () => undecided.call(store, request)) }),
    ...(overdue && { overdue: (request) => pass("overdue", () => overdue.call(store, request)) }),
    ...(namespaces && { namespaces: (request) => pass("namespaces", () => namespaces.call(store, request)) }),
    ...(store.listOrder !== undefined && { listOrder: store.listOrder }),
    ...(store.keepsHistory !== undefined && { keepsHistory: store.keepsHistory }),
    ...(forget && { forget: (request) => pass("forget", () => forget.call(store, request)) }),
    ...(settings && { settings: () => settings.call(store) }),
    ...(store.maxOutcomeBytes !== undefined && { maxOutcomeBytes: store.maxOutcomeBytes }),
    ...(store.collectsItself !== undefined && { collectsItself: store.collectsItself }),
    ...(store.usesSignal !== undefined && { usesSignal: store.usesSignal }),
    get reconnects() {
      return store.reconnects ?? 0;
    },
    plan(method, fault) {
      planned.set(method, [...(planned.get(method) ?? []), fault]);
    },
    setRates(next) {
      rates = next;
    },
    calls,
  };
}
