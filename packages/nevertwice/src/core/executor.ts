/**
 * Executes one call from its first claim to its result: it claims, and then runs the work and records its outcome, replays,
 * waits, reconciles, proceeds without a claim, or refuses. The store says who owns the key, and the policy says what to do
 * about it. This file owns the control flow.
 */
import {
  type Ending,
  endingFromDecision,
  endingFromThrow,
  endingFromValue,
  type KeepLimits,
  stuckSteps,
  type Work,
} from "./attempt.ts";
import { within } from "./background.ts";
import {
  abandonUnrun,
  claimRound,
  mayProceed,
  type RoundAnswer,
  readRecord,
  tokenSpent,
} from "./claim-round.ts";
import { about } from "./observer.ts";
import { decodeOutcome } from "./outcome.ts";
import type { Policy } from "./policy.ts";
import { outcomeLimit, type Ports } from "./ports.ts";
import { reportClaim, reportReplay, tooLate } from "./report.ts";
import type { Call } from "./request.ts";
import { closed, type RunResult, refused, replay, toResult, withCallDetails } from "./result.ts";
import type { Round, Settlement } from "./round.ts";
import { createRunningAttempts, type LeftRunning } from "./running-attempts.ts";
import { settleAbandon, settleCompletion } from "./settlement.ts";
import type { ClaimAnswer } from "./store.ts";
import { finishInTransaction } from "./transaction.ts";
import type { TransactionRunner } from "./transaction-port.ts";
import { createWaiters } from "./waiters.ts";
import { warnOnce } from "./warning.ts";

/** The work, or the runner that runs it in a transaction. */
export type ExecutedWork<T> = Work<T> | TransactionRunner;

export interface Executor {
  execute<T>(call: Call, work: ExecutedWork<T>): Promise<RunResult<T>>;
  isClosed(): boolean;
  /** Takes no new claims and waits for running work. After `drainMs` it fires the signals of what still runs, and leaves it to lapse. */
  close(drainMs: number): Promise<readonly LeftRunning[]>;
}

/** Warns at the first completion. Otherwise only the first duplicate would show the problem. */
function warnUnreplayable({ identity }: Call, why: string): void {
  const { operation } = identity.parts;
  warnOnce(
    "NEVERTWICE_NOT_KEPT",
    `operation ${JSON.stringify(operation)}: the value that its work returned cannot be replayed: ${why}. Duplicates are refused with "not-kept". Return plain data, or give encode and decode (docs/options.md).`,
    operation,
  );
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

  async function execute<T>(call: Call, work: ExecutedWork<T>): Promise<RunResult<T>> {
    calls++;
    try {
      return withCallDetails(call.identity, await drive(call, work), running.has);
    } finally {
      calls--;
      if (calls === 0) onIdle();
    }
  }

  async function drive<T>(call: Call, work: ExecutedWork<T>): Promise<RunResult<T>> {
    const claim = await claimUntilAnswered(call);
    if (claim === undefined) return refused(closed(), { identity: call.identity });
    const { round, answer } = claim;
    const isUnwanted = answer.status === "new" && isLeaving(call);
    if (!isUnwanted) reportClaim(emit, call.identity, answer);
    switch (answer.status) {
      case "new":
        if (!isUnwanted) return attempt(call, work, round, answer);
        abandonUnrun(ports, call, round);
        return refused(closed(), { identity: call.identity });
      case "completed":
        return answerCompleted(call, answer.outcome);
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

  /** If the caller brought its own token and that token completed the record, the call answers `ran` again. */
  async function answerCompleted<T>(call: Call, text: string): Promise<RunResult<T>> {
    if (call.token === undefined) return answerDuplicate(call, text);
    try {
      const { token } = (await readRecord(ports, call)) ?? {};
      if (token !== call.token) return answerDuplicate(call, text);
    } catch (error) {
      return refused(error, { identity: call.identity });
    }
    const outcome = decodeOutcome(text);
    reportReplay(emit, call.identity, outcome, false);
    return {
      status: "ran",
      value: (outcome.kind === "value" ? outcome.value : undefined) as T,
      recorded: true,
    };
  }

  function answerDuplicate<T>({ identity, policy, decode }: Call, text: string): RunResult<T> {
    const isRefused = policy.onCompleted === "reject";
    if (isRefused && emit === undefined) return { status: "already-done" };
    const outcome = decodeOutcome(text);
    reportReplay(emit, identity, outcome, isRefused);
    return isRefused ? { status: "already-done" } : replay(outcome, decode);
  }

  /** No work may start any more: the guard is closing, or the caller has cancelled. */
  function isLeaving(call: Call): boolean {
    return closing !== undefined || call.signal?.aborted === true;
  }

  /** Claims until the answer is final, and waits or reconciles in between if the policy says so. Undefined if the guard closes. */
  async function claimUntilAnswered(call: Call): Promise<{ round: Round; answer: RoundAnswer } | undefined> {
    const { identity, policy } = call;
    const startedAt = timer.now();
    let isWaiter = false;
    let isReconciled = false;
    let claim: { round: Round; answer: RoundAnswer } | undefined;
    while (!isLeaving(call)) {
      claim = await claimRound(ports, call);
      const { answer } = claim;
      const leftMs = policy.waitMs - (timer.now() - startedAt);
      if (answer.status === "pending" && policy.onPending === "wait" && leftMs > 0) {
        await waiting.wait({
          id: identity.id,
          leaseLeftMs: answer.leaseLeftMs,
          longestMs: leftMs,
          leastMs: isWaiter ? WAIT_AGAIN_MS : 0,
          storeTimeoutMs: policy.storeTimeoutMs,
          signal: call.signal,
        });
        isWaiter = true;
      } else if (answer.status === "unknown" && policy.reconcile !== undefined && !isReconciled) {
        emit?.({ ...about(identity), kind: "lapsed" });
        isReconciled = true;
        const unanswered = await reconcile(call, policy.reconcile, answer.fence);
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
    const { handed, lease, end } = running.begin(settlement, number);
    const limits = (): KeepLimits => ({
      maxOutcomeBytes: outcomeLimit(ports, call.policy),
      origin: ports.origin?.(),
    });
    if (typeof work !== "function")
      return finishInTransaction(ports, work, settlement, { handed, lease, end, limits });
    let ending: Ending;
    try {
      // Encoding the value never throws: a value that cannot be stored has an ending too.
      ending = endingFromValue(await work(handed), limits(), call);
    } catch (thrown) {
      ending = endingFromThrow(thrown, call, handed, lease, limits());
    }
    end();
    const stuck = stuckSteps(handed);
    if (stuck !== undefined) {
      await settleAbandon(ports, settlement, { kind: "abandon", as: "unknown", thrown: stuck });
      return { status: "unknown", fence: settlement.fence, reason: stuck };
    }
    if (ending.kind === "complete" && ending.unreplayable !== undefined)
      warnUnreplayable(call, ending.unreplayable);
    if (ending.kind === "complete")
      return toResult(ending, await settleCompletion(ports, settlement, ending), settlement);
    await settleAbandon(ports, settlement, ending);
    throw ending.thrown;
  }

  /**
   * Calls the policy's `reconcile` for a held claim. It runs under a new claim, so a stale decision loses. Returns that
   * claim if the store did not answer it.
   */
  async function reconcile(
    call: Call,
    decide: NonNullable<Policy["reconcile"]>,
    lapsedFence: number,
  ): Promise<{ round: Round; answer: RoundAnswer } | undefined> {
    const claim = await claimRound(ports, call, lapsedFence);
    const { round, answer } = claim;
    if (answer.status === "unavailable") return claim;
    if (answer.status !== "new") return undefined;
    const settlement: Settlement = {
      call,
      round,
      fence: answer.fence,
      isUnclaimed: false,
      startedAt: round.sentAt,
    };
    const { handed, end } = running.begin(settlement, answer.number);
    const { fence, number, signal, deriveKey } = handed;
    let ending: Ending;
    try {
      const decision = await decide({ parts: call.identity.parts, fence, number, signal, deriveKey });
      ending = endingFromDecision(decision, outcomeLimit(ports, call.policy));
    } catch {
      // `reconcile` found nothing out, so the outcome stays unknown.
      ending = endingFromDecision({ status: "unknown" }, 0);
    }
    end();
    if (ending.kind === "complete") await settleCompletion(ports, settlement, ending);
    else await settleAbandon(ports, settlement, ending);
    return undefined;
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
