/**
 * Tells the store how an attempt ended. The caller waits for the first try only. If the store does not answer it, a
 * background task repeats it until the store answers true or false.
 */

import { sendAbandon, sendClaim } from "./claim-round.ts";
import { directStore } from "./direct-store.ts";
import type { Ending } from "./ending.ts";
import { isNevertwiceError } from "./errors.ts";
import { fingerprintsDiffer } from "./fingerprint.ts";
import { about } from "./observer.ts";
import { type KeptOutcome, outcomeText } from "./outcome.ts";
import type { Ports } from "./ports.ts";
import { type GrantedAttempt, reportAbandon, reportCompletion } from "./report.ts";
import type { Settlement } from "./round.ts";
import { callWithin, type Deadline } from "./store-call.ts";

/** The state of the record after the store was told how the attempt ended. */
export type SettlementResult =
  | { readonly status: "recorded" }
  /** Another attempt of the same request completed the key, so its outcome is the one that counts. */
  | { readonly status: "superseded"; readonly outcome: string }
  /** The store has no record of the key: it lost the record, or its retention has ended. */
  | { readonly status: "forgotten" }
  /** Another attempt held the key when the store was asked. */
  | { readonly status: "overtaken" }
  /** The store has not answered yet. A background task keeps trying. */
  | { readonly status: "unanswered" };

export function settleCompletion(
  ports: Ports,
  settlement: Settlement,
  ending: Ending & { kind: "complete" },
): Promise<SettlementResult> {
  const ranMs = ports.timer.now() - settlement.startedAt;
  const complete = completer(ports, settlement, ending.outcome);
  const send = settlement.isUnclaimed ? claimThen(ports, settlement, complete) : complete;
  return settle(ports, settlement, send, complete, UNANSWERED, ({ status }) =>
    reportCompletion(ports.emit, grantedAttempt(settlement), { status, ranMs, notKept: ending.notKept }),
  );
}

/**
 * Completes the record at once if the store answers directly. Undefined if it does not, or if the record could not be
 * completed: then `settleCompletion` finds out why.
 */
export function completeDirectly(
  ports: Ports,
  settlement: Settlement,
  { outcome, notKept }: Ending & { kind: "complete" },
): SettlementResult | undefined {
  const { call, round, isUnclaimed, startedAt } = settlement;
  // A claim of this token that is granted after its completion must be answered: `settle` waits for it.
  if (isUnclaimed || round.mayBeGrantedLate || call.policy.completeWaitMs === 0) return undefined;
  const complete = directStore(ports.store)?.complete;
  if (complete === undefined) return undefined;
  const retentionMs = completedRetention(ports, settlement);
  try {
    if (!complete({ id: call.identity.id, token: round.token, outcome, retentionMs })) return undefined;
  } catch {
    return undefined;
  }
  if (ports.emit !== undefined) {
    const ranMs = ports.timer.now() - startedAt;
    reportCompletion(ports.emit, grantedAttempt(settlement), { status: "recorded", ranMs, notKept });
  }
  return RECORDED;
}

const RECORDED: SettlementResult = { status: "recorded" };

function grantedAttempt({ call, fence }: Settlement): GrantedAttempt {
  return { subject: call.identity, fence };
}

const UNANSWERED: SettlementResult = { status: "unanswered" };

/** True if this attempt still owned the claim; undefined if the store has not answered yet. */
export function settleAbandon(
  ports: Ports,
  settlement: Settlement,
  { as }: Ending & { kind: "abandon" },
): Promise<boolean | undefined> {
  const { call, round, isUnclaimed } = settlement;
  const abandon = (deadline: Deadline): Promise<boolean | undefined> =>
    sendAbandon(ports, call, round.token, as, deadline);
  return settle(ports, settlement, abandon, abandon, undefined, (isOurs) => {
    // Work that ran without a claim cannot lose one.
    if (isOurs || !isUnclaimed) reportAbandon(ports.emit, grantedAttempt(settlement), isOurs === true, as);
  });
}

/**
 * Sends until the store answers; the caller gets its result after the first try. A claim of this token that is granted
 * late may be granted before or after the store was told, so `again` tells the store once more (round.ts).
 */
async function settle<T>(
  ports: Ports,
  { call, round }: Settlement,
  send: (deadline: Deadline) => Promise<T>,
  again: (deadline: Deadline) => Promise<unknown>,
  unanswered: T,
  report: (answer: T) => void,
): Promise<T> {
  const { completeWaitMs, storeTimeoutMs } = call.policy;
  round.forgetLateGrants();
  const conclude = (answer: T): T => {
    round.answerLateGrants(() => void ports.background.persist(storeTimeoutMs, again, call.waitUntil));
    report(answer);
    return answer;
  };
  if (completeWaitMs > 0) {
    try {
      return conclude(await callWithin(ports, Math.min(completeWaitMs, storeTimeoutMs), send));
    } catch (cause) {
      ports.emit?.({ ...about(call.identity), kind: "unavailable", during: "complete", cause });
    }
  }
  // Undefined only at shutdown: then there is nothing to report.
  void ports.background
    .persist(storeTimeoutMs, send, call.waitUntil)
    .then((answer) => answer !== undefined && conclude(answer));
  return unanswered;
}

/** How long an outcome that is completed now is kept. */
export function completedRetention({ timer }: Ports, { call, startedAt, keepForMs }: Settlement): number {
  const { retentionFrom, retentionMs: usualMs } = call.policy;
  const retentionMs = keepForMs ?? usualMs;
  const spentMs = retentionFrom === "claim" ? Math.floor(timer.now() - startedAt) : 0;
  return Math.max(1, retentionMs - spentMs);
}

/** Completes the record. If the store refuses that, reads the record to see why. It never claims again. */
function completer(
  ports: Ports,
  settlement: Settlement,
  outcome: KeptOutcome,
): (deadline: Deadline) => Promise<SettlementResult> {
  const { call, round } = settlement;
  const { identity, fingerprint } = call;
  const { store } = ports;
  return async (deadline) => {
    const isCompleted = await store.complete({
      id: identity.id,
      token: round.token,
      outcome: outcomeText(outcome),
      retentionMs: completedRetention(ports, settlement),
      signal: deadline.signal,
    });
    if (isCompleted) return { status: "recorded" };
    const record = await store.read(identity.id, deadline);
    if (record === undefined) return { status: "forgotten" };
    if (record.state !== "completed") return { status: "overtaken" };
    if (record.token === round.token) return { status: "recorded" };
    if (fingerprintsDiffer(record.fingerprint, fingerprint)) return { status: "overtaken" };
    return { status: "superseded", outcome: record.outcome as string };
  };
}

/** Makes the claim of work that proceeded without one. If it is not the first claim, another process may have run the work too. */
function claimThen(
  ports: Ports,
  { call, round }: Settlement,
  complete: (deadline: Deadline) => Promise<SettlementResult>,
): (deadline: Deadline) => Promise<SettlementResult> {
  let isSuspected = false;
  const suspect = (reason: string) => {
    if (!isSuspected) ports.emit?.({ ...about(call.identity), kind: "possible-duplicate", reason });
    isSuspected = true;
  };
  return async (deadline) => {
    const answer = await sendClaim(ports, call, round.token, undefined, deadline).catch(completedIfSealed);
    if (answer.status === "new" && answer.number !== 1) suspect(`it was attempt ${answer.number}`);
    if (answer.status === "new" && deadline.isOver) {
      round.grantLate();
      return UNANSWERED;
    }
    // The record may have been completed by an earlier try of this attempt whose answer was lost: `complete` tells.
    const isOpen = answer.status === "new" || answer.status === "completed";
    const verdict: SettlementResult = isOpen ? await complete(deadline) : { status: "overtaken" };
    if (verdict.status !== "recorded") suspect(`the key was ${answer.status}`);
    return verdict;
  };
}

/** A sealed outcome that cannot be opened still means that the key is completed, by this attempt or another: `complete` tells. */
function completedIfSealed(error: unknown): { readonly status: "completed" } {
  if (isNevertwiceError(error, "sealing-failed")) return { status: "completed" };
  throw error;
}
