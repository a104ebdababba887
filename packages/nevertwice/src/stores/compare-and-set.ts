/**
 * The steps of a store that can read a record, and replace it only if it has not changed since: read, let core/record.ts
 * decide, replace exactly what was read, and start over if another write came first. Every write leaves a new mark, so no
 * change goes unnoticed, not even one that writes the same values.
 */
import { NevertwiceError } from "../core/errors.ts";
import * as machine from "../core/record.ts";
import { toDetails } from "../core/record-details.ts";
import type {
  AbandonRequest,
  ClaimAnswer,
  ClaimRequest,
  CompleteRequest,
  KeepStepRequest,
  RenewRequest,
  Store,
  StoreRecord,
} from "../core/store.ts";

/** A record as it was read. */
export interface RecordSnapshot {
  readonly record: machine.Kept | undefined;
  /** The mark of the record's last write; empty if there is no record. */
  readonly mark: string;
  /** The time by which the record is judged, on the store's clock. */
  readonly now: number;
}

/** Written, with the fence that was stored; or overtaken, with the current record if the store returned it. */
export type WriteResult = { readonly fence: number } | { readonly overtakenBy: RecordSnapshot | undefined };

/** What a store implements to use these steps. */
export interface ConditionalStorage {
  read(id: string, signal?: AbortSignal): Promise<RecordSnapshot>;
  /** Replaces `found`, or inserts if it has no record. `record` undefined removes it. */
  write(
    id: string,
    found: RecordSnapshot,
    record: machine.Kept | undefined,
    signal?: AbortSignal,
  ): Promise<WriteResult>;
}

export interface CompareAndSetSteps extends Required<Pick<Store, "forget">> {
  /** `first` is used instead of a first read, here and below. A wrong guess is safe if it leads to a write, which checks it. */
  claim(request: ClaimRequest, first?: RecordSnapshot): Promise<ClaimAnswer>;
  complete(request: CompleteRequest, first?: RecordSnapshot): Promise<boolean>;
  keepStep(request: KeepStepRequest, first?: RecordSnapshot): Promise<boolean>;
  abandon(request: AbandonRequest, first?: RecordSnapshot): Promise<boolean>;
  renew(request: RenewRequest, first?: RecordSnapshot): Promise<boolean>;
  read(id: string, options?: Pick<ClaimRequest, "signal">): Promise<StoreRecord | undefined>;
}

/** Losing this many races in one step is not normal contention. */
const MAX_RACES = 20;

/** The record of a step, and the signal that cancels the step. */
type StepTarget = Pick<ClaimRequest, "id" | "signal">;

interface StepDecision<Answer> {
  readonly answer: Answer;
  readonly write?: machine.Kept;
  readonly removes?: boolean;
}

export function createCompareAndSet(storage: ConditionalStorage): CompareAndSetSteps {
  /** Returns the answer, and the fence that was written, if any. */
  async function runStep<Answer>(
    { id, signal }: StepTarget,
    decide: (found: RecordSnapshot) => StepDecision<Answer>,
    first?: RecordSnapshot,
  ): Promise<{ answer: Answer; fence: number | undefined }> {
    let found = first ?? (await storage.read(id, signal));
    for (let races = 0; races < MAX_RACES; races++) {
      const { answer, write, removes = false } = decide(found);
      if (write === undefined && !removes) return { answer, fence: undefined };
      const written = await storage.write(id, found, write, signal);
      // one-owner: the answer is returned only after the write that it depends on has succeeded.
      if ("fence" in written) return { answer, fence: written.fence };
      found = written.overtakenBy ?? (await storage.read(id, signal));
    }
    throw new NevertwiceError(
      "unavailable",
      `other calls changed the record ${MAX_RACES} times while this one tried to; try again later.`,
    );
  }

  async function settle(
    target: StepTarget,
    decide: (found: RecordSnapshot) => StepDecision<boolean>,
    first?: RecordSnapshot,
  ): Promise<boolean> {
    return (await runStep(target, decide, first)).answer;
  }

  return {
    async claim(request, first) {
      const decide = ({ record, now }: RecordSnapshot) =>
        machine.claimRecord(record, request, now, (after) => Math.max(after + 1, Math.floor(now * 1_000)));
      const { answer, fence } = await runStep(request, decide, first);
      return answer.status === "new" && fence !== undefined ? { ...answer, fence } : answer;
    },

    complete: (request, first) =>
      settle(request, ({ record, now }) => machine.completeRecord(record, request, now), first),

    keepStep: (request, first) =>
      settle(request, ({ record, now }) => machine.keepStepRecord(record, request, now), first),

    abandon: (request, first) =>
      settle(
        request,
        ({ record, now }) => machine.abandonRecord(record, request.token, request.as, now),
        first,
      ),

    renew: (request, first) =>
      settle(
        request,
        ({ record, now }) => machine.renewRecord(record, request.token, request.leaseMs, now),
        first,
      ),

    forget: (request) =>
      settle(request, ({ record, now }) => {
        const step = machine.forgetRecord(record, request, now);
        return { ...step, removes: step.answer && step.write === undefined };
      }),

    async read(id, { signal } = {}) {
      const { record, now } = await storage.read(id, signal);
      return record === undefined || machine.isExpired(record, now) ? undefined : toDetails(record, now);
    },
  };
}
