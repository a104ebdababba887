/** `createReservations`: checks the options and puts the actions, the reads, the audit and the sweeper on one store. */
import { systemTimer } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkedPart } from "../core/identity.ts";
import { type Check, checkOptions, isFunction, wholeFrom } from "../core/option-checks.ts";
import { type Actions, createActions } from "./actions.ts";
import { type Auditor, createAuditor } from "./audit.ts";
import { createMaintenance } from "./maintenance.ts";
import { createReads, type Reads } from "./reads.ts";
import type { Availability, ReservationStore, Rules } from "./store.ts";
import { createSweeper } from "./sweeper.ts";

/** Presets for `windowMs`, by what retries: the network layer, an application that replays, a slow payment rail. */
export const WINDOWS = { httpRetry: 60_000, clientReplay: 600_000, paymentRail: 86_400_000 } as const;

export interface ReservationsOptions {
  readonly store: ReservationStore;
  readonly namespace?: string | undefined;
  /** How long a key returns its stored answer, counted from the first use of the key. `WINDOWS` has presets. */
  readonly windowMs: number;
  readonly historyMs?: number | undefined;
  readonly maxDurationMs?: number | undefined;
  readonly available?: Availability | undefined;
  readonly actionMs?: number | undefined;
  readonly sweepEveryMs?: number | undefined;
  readonly purgeEveryMs?: number | undefined;
}

export const RESERVATION_DEFAULTS = {
  namespace: "default",
  historyMs: 0,
  maxDurationMs: 31_622_400_000,
  actionMs: 5_000,
  sweepEveryMs: 0,
  purgeEveryMs: 60_000,
} as const;

export interface Reservations extends Actions, Reads, Auditor {
  /** Records the expiry of up to `limit` holds whose time is over (default 100). Returns how many it expired. */
  sweep(limit?: number): Promise<number>;
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
  actionMs: wholeFrom(1),
  sweepEveryMs: wholeFrom(0),
  purgeEveryMs: wholeFrom(0),
};

const DEFAULT_SWEEP_LIMIT = 100;

/** Throws `options-invalid`, with the name of the option, if an option is not valid. */
export function createReservations(options: ReservationsOptions): Reservations {
  checkOptions(options, CHECKS);
  const { store, windowMs, available } = options;
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
  const actions = createActions({ store, rules, actionMs, timer: systemTimer });
  const sweeper = createSweeper({ store, rules, actionMs, timer: systemTimer });
  const maintenance = createMaintenance({ store, sweeper, sweepEveryMs, purgeEveryMs, timer: systemTimer });

  const methods = {
    ...actions,
    ...createReads(store, namespace),
    ...createAuditor({ store, rules, actionMs, sweepEveryMs, purgeEveryMs }),
    sweep: (limit = DEFAULT_SWEEP_LIMIT) => sweeper.sweep(limit),
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
