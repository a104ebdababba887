/** A record as operators see it, in lists and alone. */
import { shortHash } from "./identity.ts";
import { decodeOutcome, type Outcome } from "./outcome.ts";
import type { RecordHistory, RecordState, StoreRecord } from "./store.ts";

/** A record as operators see it: everything except the token. Times are those of the store's clock. */
export interface RecordView {
  /** The full hash of the identity, which is the id of the record in the store. */
  readonly id: string;
  /** A short hash of the identity, the same as in events and errors. */
  readonly keyHash: string;
  /** Absent after the record was forgotten. */
  readonly operation: string | undefined;
  /** The scope of the key; empty if it has none. Absent after the record was forgotten. */
  readonly scope: string | undefined;
  /** The key as it was sent. Absent after the record was forgotten. */
  readonly key: string | undefined;
  /** The digest of what the request meant, with its version; absent if the attempt gave none. */
  readonly fingerprint?: string | undefined;
  /** Whether the work runs, is done, was given up, or has lapsed. */
  readonly state: RecordState;
  /** The fence of the latest claim. `resolve` and `forget` compare it. */
  readonly fence: number;
  /** How many attempts there were. */
  readonly number: number;
  /** Whether the record waits for a decision once it has lapsed, instead of being taken over. */
  readonly held: boolean;
  /** When the latest attempt claimed the key, in milliseconds since the epoch. */
  readonly claimedAt: number;
  /** How long the running attempt still holds the key, in milliseconds; 0 if none runs. */
  readonly leaseLeftMs: number;
  /** When the work was done, in milliseconds since the epoch; undefined unless completed. */
  readonly completedAt: number | undefined;
  /** When a lapsed record lapsed: when its lease ended, or when it was abandoned before that. Absent in other states. */
  readonly lapsedAt?: number | undefined;
  /**
   * When the record becomes absent, in milliseconds since the epoch. A held record stays until it is decided.
   */
  readonly keptUntil: number;
  /** The stored outcome; undefined unless completed. */
  readonly outcome: Outcome | undefined;
  /** The finished steps of work that is not completed, in order; absent if there are none. */
  readonly steps?: readonly StepView[];
  /** The attempts in their order, the latest one last. Lists leave it out, and so do stores that keep no history. */
  readonly history?: RecordHistory;
}

/** A finished step as operators see it. */
export interface StepView {
  /** The name that `attempt.step` was called with. */
  readonly name: string;
  /** When the store kept the step, in milliseconds since the epoch. */
  readonly keptAt: number;
  /** What the step returned or threw. */
  readonly outcome: Outcome;
}

export function toView(record: StoreRecord): RecordView {
  const {
    parts,
    fingerprint,
    state,
    fence,
    number,
    hold,
    claimedAt,
    leaseLeftMs,
    completedAt,
    lapsedAt,
    keptUntil,
    outcome,
    steps,
    history,
  } = record;
  return {
    id: record.id,
    keyHash: shortHash(record.id),
    operation: parts?.operation,
    scope: parts?.scope,
    key: parts?.key,
    ...(fingerprint !== undefined && { fingerprint }),
    state,
    fence,
    number,
    held: hold,
    claimedAt,
    leaseLeftMs,
    completedAt,
    ...(lapsedAt !== undefined && { lapsedAt }),
    keptUntil,
    outcome: outcome === undefined ? undefined : decodeOutcome(outcome),
    ...(steps && { steps: steps.map((step) => ({ ...step, outcome: decodeOutcome(step.outcome) })) }),
    ...(history && { history }),
  };
}
