/**
 * Marks the records that a process waits for, so that only their settlements are notified: a notification reaches every
 * process that listens to the database, and costs each of them time.
 *
 * A process listens first and marks then. A settlement locks the record, so it either comes before the mark, which finds the
 * record settled, or it sees the mark:
 *
 *     waiter:      LISTEN ── mark: pending ──────────────── notified
 *     settlement:                            reads the mark ─┘
 *
 *     waiter:      LISTEN ───────────────── mark: ended ── claims again
 *     settlement:            no mark yet ─┘
 *
 * Renewals, releases and takeovers leave the mark, so a waiter need not mark again. No statement waits for a lock: a record that
 * stays locked belongs to a transaction of the application, which notifies in any case if its store has a subscriber.
 */
import type { WatchRequest } from "../../core/store.ts";
import { type RunStatement, type Statement, textArray } from "./client.ts";
import { createStepBatch } from "./statement-runner.ts";
import type { StepFormat } from "./steps.ts";
import type { Subscription } from "./watch.ts";

interface MarkCall {
  readonly id: string;
}

type MarkAnswer = "awaited" | "ended" | "locked";

const markStep: StepFormat<MarkCall, MarkAnswer> = {
  toParameters: (calls) => [textArray(calls.map(({ id }) => id))],
  toAnswers(calls, rows) {
    const answers = new Map(rows.map(([position, answer]) => [Number(position), answer as MarkAnswer]));
    return calls.map((_, index) => answers.get(index + 1));
  },
  idOf: ({ id }) => id,
};

/** How long to wait before a locked record is tried again. A statement of the store locks it for a few milliseconds. */
const LOCKED_PAUSES_MS = [5, 25, 125];

/** Marks a record. False if it has ended: the caller must claim again. */
type Marking = (id: string) => Promise<boolean>;

/** Tables that were not migrated have no marks, and every settlement is notified. */
export function createMarking(run: RunStatement, statement: Statement, isMigrated: () => boolean): Marking {
  const batch = createStepBatch(run, { ...markStep, step: { together: statement, alone: statement } });
  return async (id) => {
    if (!isMigrated()) return true;
    for (const pauseMs of LOCKED_PAUSES_MS) {
      const answer = await batch.run({ id });
      if (answer !== "locked") return answer === "awaited";
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
    return true;
  };
}

/** Watches a record, and marks it once the subscription is active. Wakes the caller if the record has ended before. */
export async function watchMarked(
  subscription: Subscription,
  mark: Marking,
  request: WatchRequest,
): Promise<() => void> {
  const unwatch = await subscription.watch(request);
  try {
    if (!(await mark(request.id))) request.wake();
    return unwatch;
  } catch (error) {
    unwatch();
    throw error;
  }
}
