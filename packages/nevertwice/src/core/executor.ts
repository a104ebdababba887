/**
 * Executes one call from its first claim to its result: it claims, and then runs the work and records its outcome, replays,
 * waits, reconciles, proceeds without a claim, or refuses. The store says who owns the key, and the policy says what to do
 * about it. This file owns the control flow.
 */
import { endingFromThrow, stuckSteps, type Work } from "./attempt.ts";
import { within } from "./background.ts";
import {
  type AnsweredClaim,
  abandonUnrun,
  claimDirectly,
  claimRound,
  mayProceed,
  tokenSpent,
} from "./claim-round.ts";
import { answerCompleted } from "./completed-answer.ts";
import { warnUnreplayable } from "./describe-unkeepable.ts";
import { directStore } from "./direct-store.ts";
import { type Ending, endingFromReturn, type KeepLimits } from "./ending.ts";
import { holdOver, isHoldOver } from "./hold.ts";
import { leaseEnd } from "./lease.ts";
import { about } from "./observer.ts";
import { callOutcomeLimit, type Ports } from "./ports.ts";
import { reconcileLapsed } from "./reconcile.ts";
import { reportClaim, tooLate } from "./report.ts";
import type { Call } from "./request.ts";
import { closed, type RunResult, refused, toResult, withCallDetails } from "./result.ts";
import type { Round, Settlement } from "./round.ts";
import { createRunningAttempts, type LeftRunning } from "./running-attempts.ts";
import { completeDirectly, settleAbandon, settleCompletion } from "./settlement.ts";
import type { ClaimAnswer } from "./store.ts";
import { finishInTransaction } from "./transaction.ts";
import type { TransactionRunner } from "./transaction-port.ts";
import { carry } from "./wait-until.ts";
import { createSeat, createWaiters, type Seat } from "./waiters.ts";

/** The work, or the runner that runs it in a transaction. */
export type ExecutedWork<T> = Work<T> | TransactionRunner;

export interface Executor {
  execute<T>(call: Call, work: ExecutedWork<T>): Promise<RunResult<T>>;
  isClosed(): boolean;
  /** Takes no new claims and waits for running work. After `drainMs` it fires the signals of what still runs, and leaves it to lapse. */
  close(drainMs: number): Promise<readonly LeftRunning[]>;
}

/** Whether the call ends with this answer, whatever the policy says about waiting and reconciling. */
function isFinal({ answer }: AnsweredClaim): boolean {
  return answer.status === "new" || answer.status === "completed";
}

/** The shortest pause between two claims of a caller that waits. */
const WAIT_AGAIN_MS = 5;

export function createExecutor(ports: Ports): Executor {
  const { timer, emit } = ports;
  const waiting = createWaiters(ports, ports.random);
  const running = createRunningAttempts(ports);
  let calls = 0;
  let onIdle = () => {};
  let closing: Promise<readonly LeftRunning[]> | undefined;

  function execute<T>(call: Call, work: ExecutedWork<T>): Promise<RunResult<T>> {
    const waitUntil = call.waitUntil ?? ports.waitUntil;
    if (waitUntil === undefined) return executeNow(call, work);
    const result = executeNow({ ...call, waitUntil }, work);
    carry(waitUntil, result);
    return result;
  }

  async function executeNow<T>(call: Call, work: ExecutedWork<T>): Promise<RunResult<T>> {
    calls++;
    try {
      const taken = isLeaving(call) ? undefined : claimDirectly(ports, call);
      // Always awaited: not even work whose claim was granted at once begins before `run` has returned.
      const claim = await (taken !== undefined && isFinal(taken) ? taken : claimUntilAnswered(call, taken));
      const result = conclude(call, work, claim);
      return withCallDetails(call.identity, result instanceof Promise ? await result : result, running.has);
    } finally {
      calls--;
      if (calls === 0) onIdle();
    }
  }

  /** What the answer to the claim means for the call. */
  function conclude<T>(
    call: Call,
    work: ExecutedWork<T>,
    claim: AnsweredClaim | undefined,
  ): RunResult<T> | Promise<RunResult<T>> {
    if (claim === undefined) return refused(closed(), { identity: call.identity });
    const { round, answer } = claim;
    if (answer.status === "new" && isLeaving(call)) {
      // The caller left, or the guard closed, after the claim was granted: nothing will run under it.
      abandonUnrun(ports, call, round);
      return refused(closed(), { identity: call.identity });
    }
    if (answer.status === "new" && timer.now() >= leaseEnd(round.sentAt, call.policy.leaseMs)) {
      abandonUnrun(ports, call, round);
      reportClaim(emit, call.identity, { status: "too-late" });
      return refused(tooLate(), { identity: call.identity });
    }
    if (answer.status === "hold-over") {
      emit?.({ ...about(call.identity), kind: "lapsed" });
      return refused(holdOver(), { identity: call.identity });
    }
    reportClaim(emit, call.identity, answer);
    switch (answer.status) {
      case "new":
        return attempt(call, work, round, answer);
      case "completed":
        return answerCompleted(ports, call, answer.outcome);
      case "unavailable":
        if (mayProceed(call, answer)) return proceed(call, work, round);
        return refused(answer.error, { identity: call.identity, waitedMs: answer.waitedMs });
      case "too-late":
        return refused(tooLate(), { identity: call.identity });
      case "token-spent":
        return refused(tokenSpent(), { identity: call.identity });
      default:
        return answer;
    }
  }

  /** No work may start any more: the guard is closing, or the caller has cancelled. */
  function isLeaving(call: Call): boolean {
    return closing !== undefined || call.signal?.aborted === true;
  }

  /**
   * Claims until the answer is final, and waits or reconciles in between if the policy says so. `first` is a claim that was
   * answered already. Undefined if the guard closes.
   */
  function claimUntilAnswered(call: Call, first: AnsweredClaim | undefined): ReturnType<typeof claimAndWait> {
    const seat = createSeat(call);
    return seat === undefined
      ? claimAndWait(call, first)
      : claimAndWait(call, first, seat).finally(seat.leave);
  }

  async function claimAndWait(
    call: Call,
    first: AnsweredClaim | undefined,
    seat?: Seat,
  ): Promise<AnsweredClaim | undefined> {
    const { identity, policy } = call;
    const startedAt = timer.now();
    let isWaiter = false;
    let isReconciled = false;
    let taken = first;
    let claim: AnsweredClaim | undefined;
    while (!isLeaving(call)) {
      claim = taken ?? claimDirectly(ports, call) ?? (await claimRound(ports, call));
      taken = undefined;
      const { answer } = claim;
      const leftMs = policy.waitMs - (timer.now() - startedAt);
      if (
        answer.status === "pending" &&
        policy.onPending === "wait" &&
        leftMs > 0 &&
        seat?.take() !== false
      ) {
        await waiting.wait({
          id: identity.id,
          leaseLeftMs: answer.leaseLeftMs,
          longestMs: leftMs,
          leastMs: isWaiter ? WAIT_AGAIN_MS : 0,
          storeTimeoutMs: policy.storeTimeoutMs,
          signal: call.signal,
        });
        isWaiter = true;
      } else if (answer.status === "unknown" && (await isHoldOver(ports, call))) {
        claim = { round: claim.round, answer: { status: "hold-over" } };
        break;
      } else if (answer.status === "unknown" && policy.reconcile !== undefined && !isReconciled) {
        emit?.({ ...about(identity), kind: "lapsed" });
        isReconciled = true;
        const unanswered = await reconcileLapsed(ports, running, call, answer.fence);
        // The call has waited for the store once, so it reports that. A call that may proceed claims the key itself first.
        if (unanswered !== undefined && policy.onUnavailable !== "proceed") return unanswered;
      } else if (!(answer.status === "too-late" && isWaiter && leftMs > 0)) break;
      // A caller that waits, and whose claim was answered too late, claims again with a fresh token until its time is up.
      claim = undefined;
    }
    if (isWaiter) emit?.({ ...about(identity), kind: "waited", waitedMs: timer.now() - startedAt });
    return claim;
  }

  /** Runs the work under its claim. */
  function attempt<T>(
    call: Call,
    work: ExecutedWork<T>,
    round: Round,
    answer: ClaimAnswer & { status: "new" },
  ): Promise<RunResult<T>> {
    const { fence, number, steps } = answer;
    const startedAt = round.sentAt;
    const isInTransaction = typeof work !== "function";
    const settlement = { call, round, fence, isUnclaimed: false, startedAt, isInTransaction, steps };
    return finish(call, work, settlement, number);
  }

  /** Runs the work without a claim (`onUnavailable: "proceed"`): another process may be running it too. */
  function proceed<T>(call: Call, work: ExecutedWork<T>, round: Round): Promise<RunResult<T>> {
    emit?.({ ...about(call.identity), kind: "proceeded" });
    // If the unanswered claim was granted after all, it belongs to this run: a late grant needs no answer yet.
    return finish(call, work, { call, round, fence: 0, isUnclaimed: true, startedAt: timer.now() }, 0);
  }

  async function finish<T>(
    call: Call,
    work: ExecutedWork<T>,
    settlement: Settlement,
    number: number,
  ): Promise<RunResult<T>> {
    const begun = running.begin(settlement, number);
    const { handed, lease } = begun;
    const limits = (keepsValues = false): KeepLimits => ({
      maxOutcomeBytes: callOutcomeLimit(ports, call),
      origin: ports.origin?.(),
      keepsValues,
    });
    if (typeof work !== "function") {
      const end = () => begun.end();
      return finishInTransaction(ports, work, settlement, { handed, lease, end, limits });
    }
    let ending: Ending;
    try {
      const value = await work(handed);
      // Encoding the value never throws: a value that cannot be stored has an ending too.
      ending = endingFromReturn(value, limits(directStore(ports.store)?.complete !== undefined), call);
    } catch (thrown) {
      ending = endingFromThrow(thrown, call, handed, lease, limits());
    }
    begun.end();
    const stuck = stuckSteps(handed);
    if (stuck !== undefined) {
      await settleAbandon(ports, settlement, { kind: "abandon", as: "unknown", thrown: stuck });
      return { status: "unknown", fence: settlement.fence, reason: stuck };
    }
    if (ending.kind === "complete" && ending.unreplayable !== undefined)
      warnUnreplayable(call, ending.unreplayable);
    if (ending.kind === "complete") {
      const direct = completeDirectly(ports, settlement, ending);
      return toResult(ending, direct ?? (await settleCompletion(ports, settlement, ending)), settlement);
    }
    const isReleased = await settleAbandon(ports, settlement, ending);
    if (ending.returned === undefined) throw ending.thrown;
    return { status: "ran", value: ending.returned.value as T, recorded: isReleased === true };
  }

  async function drain(drainMs: number): Promise<readonly LeftRunning[]> {
    waiting.wakeAll();
    const settled = new Promise<void>((resolve) => {
      onIdle = resolve;
      if (calls === 0) resolve();
    }).then(() => ports.background.idle());
    await within(timer, drainMs, settled);
    const left = running.leave();
    ports.background.stop();
    return left;
  }

  return {
    execute,
    isClosed: () => closing !== undefined,
    close(drainMs) {
      // Set before anything is awaited: from here on no claim starts work.
      closing ??= Promise.resolve().then(() => drain(drainMs));
      return closing;
    },
  };
}
