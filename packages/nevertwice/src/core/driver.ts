/**
 * One call from its first claim to its answer: claim, then run and settle, replay, wait, reconcile, proceed or refuse.
 * The store says who owns what; the policy says what to do about it; this file owns the control flow.
 */
import {
  type Attempt,
  createAttempt,
  type Ending,
  endingOfDecision,
  endingOfThrow,
  endingOfValue,
  type Keeping,
  type Work,
} from "./attempt.ts";
import { abandonUnrun, claimRound, mayProceed, type Round, type RoundAnswer, sendRenew } from "./claiming.ts";
import { Lease } from "./lease.ts";
import { about, harmless } from "./observer.ts";
import { decodeOutcome } from "./outcome.ts";
import type { Policy } from "./policy.ts";
import { outcomeLimit, type Ports } from "./ports.ts";
import type { Call } from "./request.ts";
import { closed, type RunResult, refused, replay, toResult } from "./result.ts";
import { type Settlement, settleAbandon, settleCompletion } from "./settling.ts";
import type { ClaimAnswer } from "./store.ts";
import { createWaiting } from "./waiting.ts";

/** Work that outlived the guard: its key lapses. */
export interface LeftRunning {
  readonly operation: string;
  readonly keyHash: string;
  readonly fence: number;
}

export interface Driver {
  execute<T>(call: Call, work: Work<T>): Promise<RunResult<T>>;
  isClosed(): boolean;
  /** Takes no new claims, waits for running work, then fires its signals and leaves it to lapse. */
  close(drainMs: number): Promise<readonly LeftRunning[]>;
}

/** A waiter that was woken for nothing asks again after this. */
const WAIT_AGAIN_MS = 5;

interface Running {
  readonly call: Call;
  readonly fence: number;
  readonly lease: Lease;
}

export function createDriver(ports: Ports): Driver {
  const { timer, emit } = ports;
  const waiting = createWaiting(ports, ports.random);
  const running = new Set<Running>();
  let calls = 0;
  let onIdle = () => {};
  let closing: Promise<readonly LeftRunning[]> | undefined;

  async function execute<T>(call: Call, work: Work<T>): Promise<RunResult<T>> {
    calls++;
    try {
      return await drive(call, work);
    } finally {
      calls--;
      if (calls === 0) onIdle();
    }
  }

  async function drive<T>(call: Call, work: Work<T>): Promise<RunResult<T>> {
    const { identity } = call;
    const claim = await claimUntilAnswered(call);
    if (claim === undefined) return refused(closed());
    const { round, answer } = claim;
    switch (answer.status) {
      case "new":
        if (!isLeaving(call)) return attempt(call, work, round, answer);
        abandonUnrun(ports, call, round);
        return refused(closed());
      case "completed":
        return answerDuplicate(call, answer.outcome);
      case "conflict":
        emit?.({ ...about(identity), kind: "conflict", state: answer.state });
        return answer;
      case "unknown":
        emit?.({ ...about(identity), kind: "lapsed" });
        return answer;
      case "unavailable":
        emit?.({ ...about(identity), kind: "unavailable", during: "claim", cause: answer.error });
        return mayProceed(call, answer) ? proceed(call, work, round) : refused(answer.error);
      case "too-late":
        return refused(new Error("the claim was answered after its lease had ended"));
      case "pending":
        emit?.({ ...about(identity), kind: "pending", leaseLeftMs: answer.leaseLeftMs });
        return answer;
    }
  }

  function answerDuplicate<T>({ identity, policy }: Call, text: string): RunResult<T> {
    const isRefused = policy.onCompleted === "reject";
    if (isRefused && emit === undefined) return { status: "already-done" };
    const outcome = decodeOutcome(text);
    emit?.({ ...about(identity), kind: "replayed", refused: isRefused, origin: outcome.origin });
    return isRefused ? { status: "already-done" } : replay(outcome);
  }

  /** Nobody is left to work for: the guard closes, or the caller has gone. */
  function isLeaving(call: Call): boolean {
    return closing !== undefined || call.signal?.aborted === true;
  }

  /** Claims until the answer is one for the caller, waiting and reconciling in between as its policy says. */
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
        await reconcile(call, policy.reconcile, answer.fence);
      } else if (!(answer.status === "too-late" && isWaiter && leftMs > 0)) break;
      // A waiter whose claim came too late, and whose time is not up, goes on with a fresh token.
      claim = undefined;
    }
    if (isWaiter) emit?.({ ...about(identity), kind: "waited", waitedMs: timer.now() - startedAt });
    return claim;
  }

  /** Runs the work under its claim. */
  function attempt<T>(
    call: Call,
    work: Work<T>,
    round: Round,
    answer: ClaimAnswer & { status: "new" },
  ): Promise<RunResult<T>> {
    const { fence, number, tookOver } = answer;
    if (tookOver) emit?.({ ...about(call.identity), kind: "lapsed" });
    emit?.({ ...about(call.identity), kind: tookOver ? "taken-over" : "claimed", fence, number });
    return finish(call, work, { call, round, fence, isUnclaimed: false, startedAt: round.sentAt }, number);
  }

  /** Runs the work although nobody knows whether another does: the policy asked for that. */
  function proceed<T>(call: Call, work: Work<T>, round: Round): Promise<RunResult<T>> {
    emit?.({ ...about(call.identity), kind: "proceeded" });
    // The claim we gave up on is ours all the same if it was made: nothing is said about a late `new`.
    return finish(call, work, { call, round, fence: 0, isUnclaimed: true, startedAt: timer.now() }, 0);
  }

  async function finish<T>(
    call: Call,
    work: Work<T>,
    settlement: Settlement,
    number: number,
  ): Promise<RunResult<T>> {
    const { handed, lease, end } = begin(settlement, number);
    const keeping = (): Keeping => ({
      maxOutcomeBytes: outcomeLimit(ports, call.policy),
      origin: ports.origin?.(),
    });
    let ending: Ending;
    try {
      // Keeping the value never throws: what cannot be kept is an ending too.
      ending = endingOfValue(await work(handed), keeping(), call.shorten);
    } catch (thrown) {
      ending = endingOfThrow(thrown, call, handed, lease, keeping());
    }
    end();
    if (ending.kind === "complete")
      return toResult(ending, await settleCompletion(ports, settlement, ending), settlement);
    await settleAbandon(ports, settlement, ending);
    throw ending.thrown;
  }

  /** Lets the policy's `reconcile` look at a held claim, under a claim of its own: a stale decision loses. */
  async function reconcile(
    call: Call,
    ask: NonNullable<Policy["reconcile"]>,
    lapsedFence: number,
  ): Promise<void> {
    const { round, answer } = await claimRound(ports, call, lapsedFence);
    if (answer.status !== "new") return;
    const settlement: Settlement = {
      call,
      round,
      fence: answer.fence,
      isUnclaimed: false,
      startedAt: round.sentAt,
    };
    const { handed, end } = begin(settlement, answer.number);
    const { fence, number, signal, deriveKey } = handed;
    let ending: Ending;
    try {
      const decision = await ask({ parts: call.identity.parts, fence, number, signal, deriveKey });
      ending = endingOfDecision(decision, outcomeLimit(ports, call.policy));
    } catch {
      // Whoever looked found nothing out: it stays unknown, and the caller is told so.
      ending = endingOfDecision({ status: "unknown" }, 0);
    }
    end();
    if (ending.kind === "complete") await settleCompletion(ports, settlement, ending);
    else await settleAbandon(ports, settlement, ending);
  }

  /** Starts an attempt and its lease; `end` is for when its work has come back. */
  function begin(settlement: Settlement, number: number): { handed: Attempt; lease: Lease; end: () => void } {
    const { call, round, fence, isUnclaimed } = settlement;
    const { leaseMs, maxRunMs } = call.policy;
    const lease = new Lease({
      timer,
      leaseMs,
      maxRunMs,
      sentAt: isUnclaimed ? undefined : round.sentAt,
      renew: () => renewed(call, sendRenew(ports, call, round)),
      onLost: (reason) => emit?.({ ...about(call.identity), kind: "lease-lost", fence, reason }),
    });
    const entry: Running = { call, fence, lease };
    running.add(entry);
    const end = () => {
      lease.stop();
      running.delete(entry);
    };
    return { handed: createAttempt(call, lease, fence, number), lease, end };
  }

  /** Whoever asked to be told of renewals is. */
  async function renewed({ onRenewed }: Call, sent: Promise<boolean>): Promise<boolean> {
    const isRenewed = await sent;
    if (isRenewed && onRenewed !== undefined) harmless(onRenewed);
    return isRenewed;
  }

  async function drain(drainMs: number): Promise<readonly LeftRunning[]> {
    waiting.wakeAll();
    const settled = new Promise<void>((resolve) => {
      onIdle = resolve;
      if (calls === 0) resolve();
    }).then(() => ports.background.idle());
    await new Promise<void>((resolve) => {
      const cancel = timer.after(drainMs, resolve);
      void settled.then(() => {
        cancel();
        resolve();
      });
    });
    const left = [...running].map(({ call, fence }) => ({ ...about(call.identity), fence }));
    for (const { lease } of running) lease.lose("guard-closed");
    ports.background.stop();
    return left;
  }

  return {
    execute,
    isClosed: () => closing !== undefined,
    close(drainMs) {
      // Said before anything is awaited: from here on no claim starts work.
      closing ??= Promise.resolve().then(() => drain(drainMs));
      return closing;
    },
  };
}
