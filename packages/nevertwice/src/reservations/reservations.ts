/** `createReservations`: checks the options and puts the actions, the reads, the audit and the sweeper on one store. */
import { systemTimer } from "../core/clock.ts";
import { FAULTS, type Fault } from "../core/durability.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkedPart } from "../core/identity.ts";
import { type Check, checkOptions, isFunction, oneOf, wholeFrom } from "../core/option-checks.ts";
import { createRequirement } from "../core/requirement.ts";
import { type Actions, createActions } from "./actions.ts";
import { type Auditor, createAuditor } from "./audit.ts";
import type { Authorize } from "./authorization.ts";
import { createEraser, type Erasure, type ErasureRequest } from "./erasure.ts";
import { createMaintenance } from "./maintenance.ts";
import { createReads, type Reads } from "./reads.ts";
import type { Availability, ReservationStore, Rules } from "./store.ts";
import { createSweeper } from "./sweeper.ts";

/** Presets for `windowMs`, by what retries: the network layer, an application that replays, a slow payment rail. */
export const WINDOWS = { httpRetry: 60_000, clientReplay: 600_000, paymentRail: 86_400_000 } as const;

/** Options of `createReservations`. */
export interface ReservationsOptions {
  /** Stores everything. All processes that reserve the same resources need the same store. */
  readonly store: ReservationStore;
  /**
   * Separates applications: resources, commitments and keys of two namespaces never meet.
   * @default "default"
   */
  readonly namespace?: string | undefined;
  /** How long a key returns its stored answer, counted from the first use of the key. `WINDOWS` has presets. */
  readonly windowMs: number;
  /**
   * How long an answer is kept after its window, in milliseconds.
   * @default 0
   */
  readonly historyMs?: number | undefined;
  /**
   * The longest duration of a hold, in milliseconds.
   * @default 31_622_400_000 (366 days)
   */
  readonly maxDurationMs?: number | undefined;
  /**
   * Decides, in addition to the capacity, whether a hold may be placed. It must return true or false at once.
   * @default none
   */
  readonly available?: Availability | undefined;
  /** Decides who may do what. Without it every caller of these methods may do everything. */
  readonly authorize?: Authorize | undefined;
  /** The fault that the store must survive. Until the settings of the database show that, nothing is written. */
  readonly require?: Fault | undefined;
  /**
   * How long the caller waits for an action, in milliseconds. After that the answer is `recording-failure`.
   * @default 5_000 (5 s)
   */
  readonly actionMs?: number | undefined;
  /**
   * How often expired holds are recorded in the background, in milliseconds. 0: only by `sweep` and by a hold
   * that needs the units.
   * @default 0
   */
  readonly sweepEveryMs?: number | undefined;
  /**
   * How often keys past their time are removed, in milliseconds. 0 turns it off.
   * @default 60_000 (60 s)
   */
  readonly purgeEveryMs?: number | undefined;
}

/** The defaults of `ReservationsOptions`. */
export const RESERVATION_DEFAULTS = {
  namespace: "default",
  historyMs: 0,
  maxDurationMs: 31_622_400_000,
  actionMs: 5_000,
  sweepEveryMs: 0,
  purgeEveryMs: 60_000,
} as const;

/** Holds on resources: placed, confirmed, given back, and audited. */
export interface Reservations extends Actions, Reads, Auditor {
  /** Resolves if the store answers and meets `require`; throws `store-unsafe` if it does not. */
  ready(): Promise<void>;
  /** Records the expiry of up to `limit` holds whose time is over (default 100). Returns how many it expired. */
  sweep(limit?: number): Promise<number>;
  /**
   * Erases the requester of commitments that are over, and of the kept requests that placed them. Bounded: call it again while
   * `more` is true. For operators, like `sweep`: `authorize` is not asked.
   */
  erase(request: ErasureRequest): Promise<Erasure>;
  /** Stops the background sweep and purge. The store stays open. */
  close(): Promise<void>;
}

const CHECKS: { readonly [Name in keyof ReservationsOptions]-?: Check } = {
  store: checkStore,
  namespace: (name, value) => void checkedPart(value, name, "options-invalid"),
  windowMs: wholeFrom(1),
  historyMs: wholeFrom(0),
  maxDurationMs: wholeFrom(1),
  available: isFunction,
  authorize: isFunction,
  require: oneOf(...FAULTS),
  actionMs: wholeFrom(1),
  sweepEveryMs: wholeFrom(0),
  purgeEveryMs: wholeFrom(0),
};

const DEFAULT_SWEEP_LIMIT = 100;

/**
 * Creates holds on resources: the actions, the reads and the audit on one store.
 * @throws `options-invalid`
 * @example
 * ```ts
 * import { createReservations, WINDOWS } from "nevertwice/reservations";
 * import { memoryReservations } from "nevertwice/reservations/memory";
 *
 * const reservations = createReservations({ store: memoryReservations(), windowMs: WINDOWS.clientReplay });
 * const held = await reservations.placeHold({
 *   resource: "room 307",
 *   requester: "guest 91",
 *   durationMs: 900_000,
 *   key: "booking-4711",
 * });
 * if (held.ok) await reservations.confirm({ id: held.id, key: "booking-4711/pay" });
 * await reservations.close();
 * ```
 */
export function createReservations(options: ReservationsOptions): Reservations {
  checkOptions(options, CHECKS);
  const { store, windowMs, available, authorize } = options;
  if (store === undefined)
    throw wrong(
      "store is missing: pass a reservation store, e.g. { store: memoryReservations(), windowMs }.",
    );
  if (windowMs === undefined)
    throw wrong("windowMs is missing: pass how long a key returns its answer, e.g. WINDOWS.clientReplay.");
  const {
    namespace = RESERVATION_DEFAULTS.namespace,
    historyMs = RESERVATION_DEFAULTS.historyMs,
    maxDurationMs = RESERVATION_DEFAULTS.maxDurationMs,
    actionMs = RESERVATION_DEFAULTS.actionMs,
    sweepEveryMs = RESERVATION_DEFAULTS.sweepEveryMs,
    purgeEveryMs = RESERVATION_DEFAULTS.purgeEveryMs,
  } = options;
  if (windowMs <= actionMs)
    throw wrong(
      `windowMs is ${windowMs}; it must be more than actionMs (${actionMs}), or a key could expire before its action ends.`,
    );
  if (available !== undefined && store.refusesAvailable !== undefined)
    throw wrong(`available does not work with this store: ${store.refusesAvailable}.`);
  const rules: Rules = { namespace, windowMs, historyMs, maxDurationMs, available };
  const requirement = options.require === undefined ? undefined : createRequirement(store, options.require);
  const actions = createActions({ store, rules, actionMs, timer: systemTimer, authorize, requirement });
  const sweeper = createSweeper({ store, rules, actionMs, timer: systemTimer });
  const eraser = createEraser({ store, rules, actionMs, timer: systemTimer });
  const maintenance = createMaintenance({ store, sweeper, sweepEveryMs, purgeEveryMs, timer: systemTimer });

  const methods = {
    ...actions,
    ...createReads(store, namespace),
    ...createAuditor({ store, rules, actionMs, sweepEveryMs, purgeEveryMs }),
    async sweep(limit = DEFAULT_SWEEP_LIMIT) {
      await requirement?.meet();
      return sweeper.sweep(limit);
    },
    async erase(request: ErasureRequest) {
      await requirement?.meet();
      return eraser(request);
    },
    async ready() {
      await requirement?.meet();
      await store.now();
    },
  };
  return {
    ...callingFirst(maintenance.start, methods),
    async close() {
      maintenance.stop();
    },
  };
}

/** The same methods, nested objects included; each calls `first` before it runs. */
function callingFirst<Methods extends object>(first: () => void, methods: Methods): Methods {
  const wrapped = Object.entries(methods).map(([name, method]) => [
    name,
    typeof method === "object"
      ? callingFirst(first, method)
      : (...args: readonly unknown[]) => {
          first();
          return method(...args);
        },
  ]);
  return Object.fromEntries(wrapped) as Methods;
}

function wrong(message: string): NevertwiceError {
  return new NevertwiceError("options-invalid", message);
}

function checkStore(name: string, value: unknown): void {
  const methods = [
    "transact",
    "get",
    "commitments",
    "resources",
    "keys",
    "events",
    "checkpoints",
    "elapsed",
    "purge",
    "now",
    "close",
  ] as const;
  const missing = methods.filter(
    (method) => typeof (value as Partial<ReservationStore> | null)?.[method] !== "function",
  );
  if (missing.length > 0) throw wrong(`${name} is not a reservation store: it lacks ${missing.join(", ")}.`);
}
