/**
 * Telling the store how an attempt ended. The caller waits for the first answer only; what was not answered goes on in
 * the background until the store says true or false.
 */
import type { Ending } from "./attempt.ts";
import { type Bound, bounded } from "./calls.ts";
import { grantedLate, type Round, sendAbandon, sendClaim } from "./claiming.ts";
import { isNevertwiceError } from "./errors.ts";
import { fingerprintsDiffer } from "./fingerprint.ts";
import { about } from "./observer.ts";
import type { Ports } from "./ports.ts";
import type { Call } from "./request.ts";

/** Where the record stands once the store has answered. */
export type Verdict =
  | { readonly status: "recorded" }
  /** Another attempt's outcome of the same request answers for this key. */
  | { readonly status: "superseded"; readonly outcome: string }
  /** The store has no record: it lost it, or its time was up. */
  | { readonly status: "forgotten" }
  /** Another attempt held the key when we asked. */
  | { readonly status: "overtaken" }
  /** The store has not answered yet; the background goes on. */
  | { readonly status: "unanswered" };

export interface Settlement {
  readonly call: Call;
  readonly round: Round;
  readonly fence: number;
  /** The work ran without a claim (`onUnavailable: "proceed"`), which is made now. */
  readonly isUnclaimed: boolean;
  readonly startedAt: number;
}

export function settleCompletion(
  ports: Ports,
  settlement: Settlement,
  ending: Ending & { kind: "complete" },
): Promise<Verdict> {
  const { call, fence } = settlement;
  const ranMs = ports.timer.now() - settlement.startedAt;
  const complete = concluder(ports, settlement, ending.outcome);
  const conclude = settlement.isUnclaimed ? claimThen(ports, settlement, complete) : complete;
  return settle(ports, settlement, conclude, complete, UNANSWERED, ({ status }) => {
    if (status === "recorded") {
      ports.emit?.({ ...about(call.identity), kind: "completed", fence, ranMs });
      if (ending.notKept !== undefined)
        ports.emit?.({ ...about(call.identity), kind: "not-kept", fence, detail: ending.notKept });
    } else {
      const reason = status === "forgotten" ? "forgotten" : "overtaken";
      ports.emit?.({ ...about(call.identity), kind: "lease-lost", fence, reason });
    }
  });
}

const UNANSWERED: Verdict = { status: "unanswered" };

/** Whether the claim was ours to give up; undefined while the store has not answered. */
export function settleAbandon(
  ports: Ports,
  settlement: Settlement,
  { as }: Ending & { kind: "abandon" },
): Promise<boolean | undefined> {
  const { call, round, fence, isUnclaimed } = settlement;
  const abandon = (bound: Bound): Promise<boolean | undefined> =>
    sendAbandon(ports, call, round.token, as, bound);
  return settle(ports, settlement, abandon, abandon, undefined, (isOurs) => {
    if (isOurs) ports.emit?.({ ...about(call.identity), kind: "abandoned", fence, as });
    else if (!isUnclaimed)
      ports.emit?.({ ...about(call.identity), kind: "lease-lost", fence, reason: "overtaken" });
  });
}

/**
 * Sends until it is answered; answers the caller after the first try. A `new` that arrives meanwhile may have been
 * granted after what we said, or before: so `again` says it once more.
 *
 *   claim sent ── timed out ── proceeds ── ended ── abandon: false ──────────────▶ ── again: true
 *        └─────────────────────── delayed ───────────────────────▶ granted ── late `new`
 */
async function settle<T>(
  ports: Ports,
  { call, round }: Settlement,
  send: (bound: Bound) => Promise<T>,
  again: (bound: Bound) => Promise<unknown>,
  unanswered: T,
  report: (answer: T) => void,
): Promise<T> {
  const { completeWaitMs, storeTimeoutMs } = call.policy;
  // What was granted before this is what is settled now; what is granted from here on, nobody has been told about.
  round.isGrantedLate = false;
  const told = (answer: T): T => {
    round.onLateNew = () => void ports.background.persist(storeTimeoutMs, again);
    if (round.isGrantedLate) round.onLateNew();
    report(answer);
    return answer;
  };
  if (completeWaitMs > 0) {
    try {
      return told(await bounded(ports, Math.min(completeWaitMs, storeTimeoutMs), send));
    } catch (cause) {
      ports.emit?.({ ...about(call.identity), kind: "unavailable", during: "complete", cause });
    }
  }
  // Undefined only at shutdown: then nobody was told anything.
  void ports.background.persist(storeTimeoutMs, send).then((answer) => answer !== undefined && told(answer));
  return unanswered;
}

/** Completes; if that is refused, reads what answers for the key instead. It never claims again. */
function concluder(
  ports: Ports,
  { call, round, startedAt }: Settlement,
  outcome: string,
): (bound: Bound) => Promise<Verdict> {
  const { identity, fingerprint, policy } = call;
  const { store, timer } = ports;
  return async (bound) => {
    const spentMs = policy.retentionFrom === "claim" ? Math.floor(timer.now() - startedAt) : 0;
    const isCompleted = await store.complete({
      id: identity.id,
      token: round.token,
      outcome,
      retentionMs: Math.max(1, policy.retentionMs - spentMs),
      signal: bound.signal,
    });
    if (isCompleted) return { status: "recorded" };
    const record = await store.read(identity.id, bound);
    if (record === undefined) return { status: "forgotten" };
    if (record.state !== "completed") return { status: "overtaken" };
    if (record.token === round.token) return { status: "recorded" };
    if (fingerprintsDiffer(record.fingerprint, fingerprint)) return { status: "overtaken" };
    return { status: "superseded", outcome: record.outcome as string };
  };
}

/** Work that proceeded without a claim makes it now; anything but a first claim may mean that somebody else ran too. */
function claimThen(
  ports: Ports,
  { call, round }: Settlement,
  complete: (bound: Bound) => Promise<Verdict>,
): (bound: Bound) => Promise<Verdict> {
  let isSuspected = false;
  const suspect = (reason: string) => {
    if (!isSuspected) ports.emit?.({ ...about(call.identity), kind: "possible-duplicate", reason });
    isSuspected = true;
  };
  return async (bound) => {
    const answer = await sendClaim(ports, call, round.token, undefined, bound).catch(completedIfSealed);
    if (answer.status === "new" && answer.number !== 1) suspect(`it was attempt ${answer.number}`);
    if (answer.status === "new" && bound.isOver) {
      grantedLate(round);
      return UNANSWERED;
    }
    // What is completed may be our own, from a try whose answer was lost: completing tells.
    const isOpen = answer.status === "new" || answer.status === "completed";
    const verdict: Verdict = isOpen ? await complete(bound) : { status: "overtaken" };
    if (verdict.status !== "recorded") suspect(`the key was ${answer.status}`);
    return verdict;
  };
}

/** An outcome that does not open is kept all the same: the key is completed, by us or by another, and completing tells. */
function completedIfSealed(error: unknown): { readonly status: "completed" } {
  if (isNevertwiceError(error, "sealing-failed")) return { status: "completed" };
  throw error;
}
