/**
 * The state machine of one record, as pure functions over what a store keeps: every cell of the contract's table. A
 * store that can read, decide and write in one atomic step calls these functions. A store that decides in SQL or Lua
 * mirrors them, and the cases of `nevertwice/testing` check that it does.
 */
import { fingerprintsDiffer } from "./fingerprint.ts";
import { endedHistory, nextHistory, renewedHistory } from "./kept-history.ts";
import { addedStep, carriedSteps, hasSteps, stepsIn } from "./kept-steps.ts";
import { FORGOTTEN } from "./outcome.ts";
import type {
  AbandonAs,
  ClaimAnswer,
  ClaimRequest,
  CompleteRequest,
  ForgetRequest,
  KeepStepRequest,
  Parts,
  RecordState,
} from "./store.ts";

/** A record as a store keeps it, its outcome as text unless said otherwise. Times are those of the store's clock. */
export interface Kept<Outcome = string> {
  readonly id: string;
  readonly parts: Parts | undefined;
  readonly fingerprint: string | undefined;
  readonly state: "pending" | "completed" | "released";
  readonly token: string;
  /** The token gave its claim up: it can no longer claim or renew, and a pending record counts as lapsed whatever the clock says. */
  readonly spent: boolean;
  readonly fence: number;
  readonly number: number;
  readonly hold: boolean;
  /** The present claim took over a lapsed record. */
  readonly tookOver: boolean;
  readonly claimedAt: number;
  /** The last lease written, by claim or renew. */
  readonly leaseMs: number;
  readonly leaseEndsAt: number;
  readonly retentionMs: number;
  readonly keptUntil: number;
  readonly completedAt: number | undefined;
  readonly outcome: Outcome | undefined;
  /** The finished steps, and what is remembered of the attempts, as text (kept-steps.ts, kept-history.ts). */
  readonly steps?: string | undefined;
  readonly history?: string | undefined;
}

/** How much later than one lease a deadline may be before it proves that the clock went back. */
export const CLOCK_BACK_MARGIN_MS = 1_000;

/** Expired means `now >= deadline`, here and nowhere else. */
function isOver(deadline: number, now: number): boolean {
  return now >= deadline;
}

/** Whether the retention has ended, purged or not. A held pending record never expires: it waits for a decision. */
export function isExpired(record: Kept<unknown>, now: number): boolean {
  if (record.state === "pending" && record.hold) return false;
  return isOver(record.keptUntil, now);
}

export function stateOf(record: Kept<unknown>, now: number): RecordState {
  if (record.state !== "pending") return record.state;
  return record.spent || isOver(record.leaseEndsAt, now) ? "lapsed" : "pending";
}

/** Whether the record waits for a decision, which nothing but an operator or `reconcile` makes. */
export function isUndecided(record: Kept<unknown>, now: number): boolean {
  return record.hold && stateOf(record, now) === "lapsed";
}

/** When a lapsed record lapsed. */
export function lapsedAt(record: Kept<unknown>, now: number): number {
  return Math.min(record.leaseEndsAt, now);
}

/** The answer of a claim, and the record to write if it changes. */
interface ClaimStep<Outcome> {
  readonly answer: ClaimAnswer<Outcome>;
  readonly write?: Kept<Outcome>;
}

/** The answer to a claim of a key that another attempt holds. `elapsedMs`: how long that attempt has run, if it is known. */
export function pendingAnswer(
  leaseLeftMs: number,
  elapsedMs: number | undefined,
): ClaimAnswer<never> & { readonly status: "pending" } {
  return elapsedMs === undefined
    ? { status: "pending", leaseLeftMs }
    : // A clock that went back counts as no time.
      { status: "pending", leaseLeftMs, elapsedMs: Math.max(0, elapsedMs) };
}

/** What `claim` answers, and the record to write if it changes. `nextFence` is called only for a new attempt. */
export function claimRecord<Outcome = string>(
  found: Kept<Outcome> | undefined,
  request: ClaimRequest,
  now: number,
  nextFence: (after: number) => number,
): ClaimStep<Outcome> {
  const record = found !== undefined && !isExpired(found, now) ? found : undefined;
  if (record === undefined) {
    if (request.takeover !== undefined) return { answer: { status: "pending", leaseLeftMs: 0 } };
    return granted(newAttempt(undefined, request, now, nextFence(found?.fence ?? 0)));
  }
  const state = stateOf(record, now);
  // The next attempt would skip the finished steps of a released key, so it must be about the same request.
  const isCompared = state !== "released" || hasSteps(record);
  if (isCompared && fingerprintsDiffer(record.fingerprint, request.fingerprint)) {
    return { answer: { status: "conflict", state } };
  }
  if (state === "completed") return { answer: { status: "completed", outcome: record.outcome as Outcome } };
  if (record.token === request.token) {
    // own-claim-recognised: a repeat after a lost reply owns what it owned; after it gave up, it owns nothing.
    if (record.spent) return { answer: { status: "pending", leaseLeftMs: 0 } };
    return granted(withLease({ ...record, hold: record.hold || request.hold }, request.leaseMs, now));
  }
  if (state === "pending") return claimedByAnother(record, now);
  if (state === "released") {
    if (request.takeover !== undefined) return { answer: { status: "pending", leaseLeftMs: 0 } };
    return granted(newAttempt(record, request, now, nextFence(record.fence)));
  }
  const mayTakeOver =
    request.takeover === undefined ? !record.hold && !request.hold : request.takeover === record.fence;
  if (!mayTakeOver) return { answer: { status: "unknown", fence: record.fence } };
  return granted(newAttempt(record, request, now, nextFence(record.fence)));
}

function granted<Outcome>(record: Kept<Outcome>): ClaimStep<Outcome> {
  const { fence, number, tookOver } = record;
  const answer = { status: "new", fence, number, tookOver } as const;
  if (!hasSteps(record)) return { answer, write: record };
  return { answer: { ...answer, steps: stepsIn(record.id, record) }, write: record };
}

/** A pending deadline too far away means the clock went back: it is written down to one lease, never handed over. */
function claimedByAnother<Outcome>(record: Kept<Outcome>, now: number): ClaimStep<Outcome> {
  const leaseLeftMs = record.leaseEndsAt - now;
  const elapsedMs = now - record.claimedAt;
  if (leaseLeftMs <= record.leaseMs + CLOCK_BACK_MARGIN_MS)
    return { answer: pendingAnswer(leaseLeftMs, elapsedMs) };
  return {
    answer: pendingAnswer(record.leaseMs, elapsedMs),
    write: withLease(record, record.leaseMs, now),
  };
}

function newAttempt<Outcome>(
  before: Kept<Outcome> | undefined,
  request: ClaimRequest,
  now: number,
  fence: number,
): Kept<Outcome> {
  const lapsed = before?.state === "pending" ? before : undefined;
  const steps = before && carriedSteps(before, request.token);
  const continued = steps === undefined ? lapsed : before;
  const leaseEndsAt = now + request.leaseMs;
  return {
    id: request.id,
    parts: request.parts,
    // An attempt that continues the same work keeps its fingerprint. A released key without steps starts anew.
    fingerprint: request.fingerprint ?? continued?.fingerprint,
    state: "pending",
    token: request.token,
    spent: false,
    fence,
    number: (before?.number ?? 0) + 1,
    hold: request.hold || (lapsed?.hold ?? false),
    tookOver: lapsed !== undefined,
    claimedAt: now,
    leaseMs: request.leaseMs,
    leaseEndsAt,
    retentionMs: request.retentionMs,
    keptUntil: leaseEndsAt + request.retentionMs,
    completedAt: undefined,
    outcome: undefined,
    steps,
    history: before && nextHistory(before, request.token),
  };
}

function withLease<Outcome>(record: Kept<Outcome>, leaseMs: number, now: number): Kept<Outcome> {
  const leaseEndsAt = now + leaseMs;
  return { ...record, leaseMs, leaseEndsAt, keptUntil: leaseEndsAt + record.retentionMs };
}

/** The record that `token` owns and has not finished with, if it does. */
function owned<Outcome>(
  found: Kept<Outcome> | undefined,
  token: string,
  now: number,
): Kept<Outcome> | undefined {
  // stale-token-refused: every step after the claim passes through here.
  return found !== undefined && found.token === token && !isExpired(found, now) ? found : undefined;
}

/** The answer of a step that is true or false, and the record to write if it changes. */
export interface Step<Outcome = string> {
  readonly answer: boolean;
  readonly write?: Kept<Outcome>;
}

export function completeRecord<Outcome = string>(
  found: Kept<Outcome> | undefined,
  request: CompleteRequest<Outcome>,
  now: number,
): Step<Outcome> {
  const record = owned(found, request.token, now);
  if (record === undefined || record.state === "released") return { answer: false };
  if (record.state === "completed") return { answer: true };
  const keptUntil = now + request.retentionMs;
  const { outcome, retentionMs } = request;
  return {
    answer: true,
    // The outcome replaces the steps: no attempt follows that could skip them.
    write: {
      ...record,
      state: "completed",
      completedAt: now,
      outcome,
      retentionMs,
      keptUntil,
      steps: undefined,
    },
  };
}

export function abandonRecord<Outcome = string>(
  found: Kept<Outcome> | undefined,
  token: string,
  as: AbandonAs,
  now: number,
): Step<Outcome> {
  const record = owned(found, token, now);
  if (record === undefined || record.state === "completed") return { answer: false };
  if (record.spent) return { answer: true };
  const history = endedHistory(record, as, now);
  if (as === "released" || (as === "unrun" && !record.tookOver))
    return { answer: true, write: { ...record, state: "released", spent: true, history } };
  // The lease ends now, which says when the record lapsed. How long it is kept does not change.
  return {
    answer: true,
    write: { ...record, state: "pending", spent: true, leaseEndsAt: lapsedAt(record, now), history },
  };
}

export function renewRecord<Outcome = string>(
  found: Kept<Outcome> | undefined,
  token: string,
  leaseMs: number,
  now: number,
): Step<Outcome> {
  const record = owned(found, token, now);
  if (record === undefined || record.state !== "pending" || record.spent) return { answer: false };
  const write = { ...withLease(record, leaseMs, now), history: renewedHistory(record, now) };
  return { answer: true, write };
}

/** Keeps a finished step. Its owner may do that after its lease has ended, as long as no other attempt took over. */
export function keepStepRecord<Outcome = string>(
  found: Kept<Outcome> | undefined,
  request: KeepStepRequest,
  now: number,
): Step<Outcome> {
  const record = owned(found, request.token, now);
  if (record === undefined || record.state !== "pending" || record.spent) return { answer: false };
  const steps = addedStep(record, request, now);
  return steps === undefined ? { answer: true } : { answer: true, write: { ...record, steps } };
}

/** A true answer without `write` means that the record is removed. */
export function forgetRecord<Outcome = string>(
  found: Kept<Outcome> | undefined,
  { fence, reopen = false }: Pick<ForgetRequest, "fence" | "reopen">,
  now: number,
): Step<Outcome | string> {
  if (found === undefined || isExpired(found, now) || found.fence !== fence) return { answer: false };
  const state = stateOf(found, now);
  if (state === "pending") return { answer: false };
  if (state !== "completed") return { answer: true };
  if (reopen) return { answer: true, write: reopened(found) };
  const blanked = { parts: undefined, fingerprint: undefined, outcome: FORGOTTEN, steps: undefined };
  return { answer: true, write: { ...found, ...blanked } };
}

/** Keeps the fence and the token: the next fence must be higher, and a late claim of this token must not be granted. */
function reopened<Outcome>(record: Kept<Outcome>): Kept<Outcome> {
  return {
    ...record,
    state: "released",
    spent: true,
    completedAt: undefined,
    outcome: undefined,
    steps: undefined,
    history: endedHistory(record, "completed", record.completedAt ?? 0),
  };
}
