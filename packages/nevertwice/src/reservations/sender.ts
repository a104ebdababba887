/**
 * Sends actions to the store in groups. An action that meets a transaction which the application has open leaves its group
 * and is tried again, so that no other action waits for that transaction.
 *
 *   group ─▶ answered
 *     └────▶ locked ── pause, next group ── … ── still locked after LOCKED_MS: nothing was written
 */
import type { Timer } from "../core/clock.ts";
import { type CallBatchOptions, createBatch } from "../stores/batch.ts";
import type { ActionRequest } from "./action-request.ts";
import type { Answer } from "./answer.ts";
import { findWrongAnswer } from "./availability.ts";
import { MayBeWritten, NotWritten, type ReservationStore, type Rules } from "./store.ts";

/** The most actions in one transaction. */
const MAX_GROUP = 64;
/** The most transactions at the same time. */
const MAX_FLIGHTS = 2;
/** How often a transaction is tried that failed, or whose result is not known. */
const TRIES = 3;
/** How long an action is tried again while what it needs is locked. No connection waits meanwhile. */
const LOCKED_MS = 2_000;
const STILL_LOCKED = "an open transaction of the application holds a lock on this key or resource";
const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 50;

/** Takes the place of an answer: a transaction of the application has locked what the action needs. */
const LOCKED = Symbol("locked");
type Result = Answer | typeof LOCKED;

/** The returned function rejects with `NotWritten`, `MayBeWritten`, or an error of the store. */
export function createSender(
  store: ReservationStore,
  rules: Rules,
  timer: Timer,
): (request: ActionRequest) => Promise<Answer> {
  /** Actions that may have been written, each with the answer that was decided, if the store reported it. */
  const doubts = new WeakMap<ActionRequest, readonly Answer[]>();
  const groups = createBatch({
    ...createTries(doubts, TRIES, async (group) => {
      const answers = await (store.transactSkippingLocked?.(group, rules) ?? store.transact(group, rules));
      return answers.map((answer) => answer ?? LOCKED);
    }),
    maxCalls: MAX_GROUP,
    maxFlights: MAX_FLIGHTS,
  });

  async function untilAnswered(request: ActionRequest): Promise<Answer> {
    const until = timer.now() + LOCKED_MS;
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      const result = await groups.run(request);
      if (result !== LOCKED) return result;
      if (timer.now() >= until) throw new NotWritten(new Error(STILL_LOCKED));
      // Not all at the same moment: the groups of several processes would meet again.
      await new Promise<void>((wake) => timer.after(pauseMs * (0.5 + Math.random()), wake));
    }
  }

  return async (request) => {
    try {
      return await untilAnswered(request);
    } catch (error) {
      // The last try may have written nothing, but an earlier one may have.
      const decided = doubts.get(request);
      throw decided === undefined ? error : new MayBeWritten(decided, error);
    }
  };
}

/**
 * Sends actions in groups or one by one. The key of each action makes a retry safe: if the first try was written, the retry
 * returns its answer.
 */
function createTries(
  doubts: WeakMap<ActionRequest, readonly Answer[]>,
  maxTries: number,
  transact: (group: readonly ActionRequest[]) => Promise<readonly Result[]>,
): Pick<CallBatchOptions<ActionRequest, Result>, "send" | "alone"> {
  async function attempt(group: readonly ActionRequest[]): Promise<readonly Result[]> {
    try {
      return await transact(group);
    } catch (error) {
      if (error instanceof MayBeWritten)
        for (const [i, request] of group.entries()) doubts.set(request, error.answers.slice(i, i + 1));
      throw error;
    }
  }

  async function alone(request: ActionRequest): Promise<Result> {
    for (let tries = 1; ; tries++) {
      try {
        const [result] = await attempt([request]);
        return result as Result;
      } catch (error) {
        if (tries === maxTries || findWrongAnswer(error) !== undefined) throw error;
      }
    }
  }

  return {
    alone,
    async send(group) {
      const [only] = group;
      return only !== undefined && group.length === 1 ? [await alone(only)] : attempt(group);
    },
  };
}
