/** Reservations: holds that confirm, release or expire once, however often they are asked to, and records that prove it. */
import { systemTimer } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkedPart } from "../core/identity.ts";
import { type Check, checkOptions, isFunction, wholeFrom } from "../core/policy.ts";
import { type Actions, createActions } from "./actions.ts";
import { type Auditor, createAuditor } from "./audit.ts";
import type { Availability, ReservationStore, Rules } from "./ledger.ts";
import { type Reads, readsOf } from "./reads.ts";
import { startSweeping, sweepOnce } from "./sweeping.ts";

export type {
  Actions,
  CapacityRequest,
  CommitmentRequest,
  HoldRequest,
  Keyed,
  ResourceRequest,
  UnitsRequest,
} from "./actions.ts";
export type { Answer, Done, Placed, Reason, Rejected } from "./answer.ts";
export type { InvariantResult, Offender } from "./audit/findings.ts";
export type { InvariantId } from "./audit/invariants.ts";
export type { AuditData, AuditPage, AuditPageRow, AuditPageSection, AuditStatus } from "./audit/report.ts";
export type { Counts } from "./audit/rounds.ts";
export type {
  Double,
  DoubleSide,
  Doubles,
  DoublesQuery,
  KeyTrace,
  Trace,
  TracedEvent,
} from "./audit/trace.ts";
export type { AuditOptions, Auditor, AuditReport, Configuration } from "./audit.ts";
export { AUDIT_DEFAULTS } from "./audit.ts";
export type { CommitmentState } from "./commitment.ts";
export type { Checkpoint, EventKind, JournalEvent } from "./journal.ts";
export type {
  Availability,
  CommitmentQuery,
  KeptCommitment,
  KeptResource,
  KeyRecord,
  Page,
  PageQuery,
  ReservationStore,
} from "./ledger.ts";
export type { CommitmentsQuery, CommitmentView, HeldQuery, Paging } from "./reads.ts";
export type { Resource, ResourceState } from "./registry.ts";

/** How long a key answers, by who retries: a network layer, an application that replays, a slow payment rail. */
export const WINDOWS = { httpRetry: 60_000, clientReplay: 600_000, paymentRail: 86_400_000 } as const;

export interface ReservationsOptions {
  readonly store: ReservationStore;
  readonly namespace?: string | undefined;
  /** How long a key answers, from its first use. `WINDOWS` has presets. */
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
  /** Writes down what expired: up to `limit` holds whose time is over. Answers how many. */
  sweep(limit?: number): Promise<number>;
  /** Stops sweeping and purging. The store stays open. */
  close(): Promise<void>;
}

const CHECKS: { readonly [Name in keyof ReservationsOptions]-?: Check } = {
  store: isReservationStore,
  namespace: (name, value) => void checkedPart(value, name, "options-invalid"),
  windowMs: wholeFrom(1),
  historyMs: wholeFrom(0),
  maxDurationMs: wholeFrom(1),
  available: isFunction,
  actionMs: wholeFrom(1),
  sweepEveryMs: wholeFrom(0),
  purgeEveryMs: wholeFrom(0),
};

const SWEEP = 100;

/** Fails with `options-invalid` on a bad option, by name. */
export function createReservations(options: ReservationsOptions): Reservations {
  checkOptions(options, CHECKS);
  const { store, windowMs, available } = options;
  if (store === undefined)
    throw wrong("store is missing: createReservations({ store: memoryReservations(), windowMs }).");
  if (windowMs === undefined)
    throw wrong("windowMs is missing: say how long a key answers, e.g. WINDOWS.clientReplay.");
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
      `windowMs is ${windowMs}; it must be more than actionMs (${actionMs}), or a key is gone before its action has ended.`,
    );
  if (available !== undefined && store.refusesAvailable !== undefined)
    throw wrong(`available cannot be asked here: ${store.refusesAvailable}.`);
  const rules: Rules = { namespace, windowMs, historyMs, maxDurationMs, available };
  const actions = createActions({ store, rules, actionMs, timer: systemTimer });
  const stop = startSweeping({ store, actions, namespace, sweepEveryMs, purgeEveryMs, timer: systemTimer });

  return {
    ...actions,
    ...readsOf(store, namespace),
    ...createAuditor({ store, rules, actionMs, sweepEveryMs, purgeEveryMs }),
    sweep: (limit = SWEEP) => sweepOnce({ store, actions, namespace }, limit),
    async close() {
      stop();
    },
  };
}

function wrong(message: string): NevertwiceError {
  return new NevertwiceError("options-invalid", message);
}

function isReservationStore(name: string, value: unknown): void {
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
  if (missing.length > 0) throw wrong(`${name} is no store of reservations: it lacks ${missing.join(", ")}.`);
}
