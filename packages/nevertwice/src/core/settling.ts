/**
 * Telling the store how an attempt ended. The caller waits for the first answer only; what was not answered goes on in
 * the background until the store says true or false.
 */
import type { Ending } from "./attempt.ts";
import { type Bound, bounded } from "./calls.ts";
import { persistAbandon, type Round, sendAbandon, sendClaim } from "./claiming.ts";
import { fingerprintsDiffer } from "./fingerprint.ts";
import { about } from "./observer.ts";
import type { Ports } from "./ports.ts";
import type { Call } from "./request.ts";

/** Where the record stands once the store has answered. */
export type Verdict =
  | { readonly status: "recorded" }
  /** Another attempt's outcome of the same request answers for this key. */
  | { readonly status: "superseded"; readonly outcome: Uint8Array }
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

export async function settleCompletion(
  ports: Ports,
  settlement: Settlement,
  ending: Ending & { kind: "complete" },
): Promise<Verdict> {
  const { call, round, fence } = settlement;
  const ranMs = ports.timer.now() - settlement.startedAt;
  const event = about(call.identity);

  const conclude = settlement.isUnclaimed
    ? concluderWithClaim(ports, settlement, ending.bytes)
    : concluder(ports, settlement, ending.bytes);
  const told = (verdict: Verdict): Verdict => {
    round.onLateNew = () =>
      void ports.background.persist(call.policy.storeTimeoutMs, concluder(ports, settlement, ending.bytes));
    if (verdict.status === "recorded") {
      ports.emit({ ...event, kind: "completed", fence, ranMs });
      if (ending.notKept !== undefined)
        ports.emit({ ...event, kind: "not-kept", fence, detail: ending.notKept });
    } else if (
      verdict.status === "forgotten" ||
      verdict.status === "overtaken" ||
      verdict.status === "superseded"
    ) {
      ports.emit({
        ...event,
        kind: "lease-lost",
        fence,
        reason: verdict.status === "forgotten" ? "forgotten" : "overtaken",
      });
    }
    return verdict;
  };
  return firstAnswer(ports, call, conclude, told, { status: "unanswered" });
}

/** Whether the claim was ours to give up; undefined while the store has not answered. */
export async function settleAbandon(
  ports: Ports,
  settlement: Settlement,
  ending: Ending & { kind: "abandon" },
): Promise<boolean | undefined> {
  const { call, round, fence } = settlement;
  const event = about(call.identity);
  const told = (isOurs: boolean | undefined): boolean | undefined => {
    round.onLateNew = () => void persistAbandon(ports, call, round.token, ending.as);
    if (isOurs) ports.emit({ ...event, kind: "abandoned", fence, as: ending.as });
    else if (!settlement.isUnclaimed)
      ports.emit({ ...event, kind: "lease-lost", fence, reason: "overtaken" });
    return isOurs;
  };
  return firstAnswer(
    ports,
    call,
    (bound) => sendAbandon(ports, call, round.token, ending.as, bound),
    told,
    undefined,
  );
}

/** The first try's answer if it comes while the caller is still willing to wait, else `unanswered` and the background. */
async function firstAnswer<T>(
  ports: Ports,
  call: Call,
  send: (bound: Bound) => Promise<T>,
  told: (answer: T) => T,
  unanswered: T,
): Promise<T> {
  const { completeWaitMs, storeTimeoutMs } = call.policy;
  if (completeWaitMs > 0) {
    try {
      return told(await bounded(ports.timer, Math.min(completeWaitMs, storeTimeoutMs), send));
    } catch (cause) {
      ports.emit({ ...about(call.identity), kind: "unavailable", during: "complete", cause });
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
  outcome: Uint8Array,
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
      get signal() {
        return bound.signal;
      },
    });
    if (isCompleted) return { status: "recorded" };
    const record = await store.read(identity.id, bound);
    if (record === undefined) return { status: "forgotten" };
    if (record.state !== "completed") return { status: "overtaken" };
    if (record.token === round.token) return { status: "recorded" };
    if (fingerprintsDiffer(record.fingerprint, fingerprint)) return { status: "overtaken" };
    return { status: "superseded", outcome: record.outcome as Uint8Array };
  };
}

/** Work that proceeded without a claim makes it now; anything but a first claim may mean that somebody else ran too. */
function concluderWithClaim(
  ports: Ports,
  settlement: Settlement,
  outcome: Uint8Array,
): (bound: Bound) => Promise<Verdict> {
  const { call, round } = settlement;
  const complete = concluder(ports, settlement, outcome);
  let isSuspected = false;
  const suspect = (reason: string) => {
    if (!isSuspected) ports.emit({ ...about(call.identity), kind: "possible-duplicate", reason });
    isSuspected = true;
  };
  return async (bound) => {
    const answer = await sendClaim(ports, call, round.token, undefined, bound);
    if (answer.status !== "new") {
      suspect(`the key was ${answer.status}`);
      return { status: "overtaken" };
    }
    if (answer.number !== 1) suspect(`it was attempt ${answer.number}`);
    return complete(bound);
  };
}
