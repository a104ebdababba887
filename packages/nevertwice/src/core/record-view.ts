/** A record as operators see it, in lists and alone. */
import { shortHash } from "./identity.ts";
import { decodeOutcome, type Outcome } from "./outcome.ts";
import type { RecordHistory, RecordState, StoreRecord } from "./store.ts";

/** A record as operators see it: everything except the token. Times are those of the store's clock. */
export interface RecordView {
  /** The full hash of the identity, which is the id of the record in the store. */
  readonly id: string;
  readonly keyHash: string;
  /** Absent after the record was forgotten. */
  readonly operation: string | undefined;
  readonly scope: string | undefined;
  readonly key: string | undefined;
  /** The digest of what the request meant, with its version; absent if the attempt gave none. */
  readonly fingerprint?: string | undefined;
  readonly state: RecordState;
  readonly fence: number;
  readonly number: number;
  readonly held: boolean;
  readonly claimedAt: number;
  readonly leaseLeftMs: number;
  readonly completedAt: number | undefined;
  /** When a lapsed record lapsed: when its lease ended, or when it was abandoned before that. Absent in other states. */
  readonly lapsedAt?: number | undefined;
  readonly keptUntil: number;
  readonly outcome: Outcome | undefined;
  /** The finished steps of work that is not completed, in order; absent if there are none. */
  readonly steps?: readonly StepView[];
  /** The attempts in their order, the latest one last. Lists leave it out, and so do stores that keep no history. */
  readonly history?: RecordHistory;
}

/** A finished step as operators see it. */
export interface StepView {
  readonly name: string;
  readonly keptAt: number;
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
