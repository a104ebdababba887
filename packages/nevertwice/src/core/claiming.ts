/**
 * One round of claiming: one token, sent until it is answered or given up. An answer that is lost or late never loses
 * the claim behind it: the same token is recognised, and a `new` that arrives after the round is told how it stands.
 */
import { type Bound, bounded, isRefusal, pauseMs, TimedOut } from "./calls.ts";
import { leaseEnd } from "./lease.ts";
import type { Ports } from "./ports.ts";
import type { Call } from "./request.ts";
import type { AbandonAs, ClaimAnswer } from "./store.ts";

/** A quick failure is tried three times in all; a timeout counts for two, since it cost the caller its patience. */
const MAX_TRIES = 3;
const TIMEOUT_TRIES = 2;

export interface Round {
  readonly token: string;
  /** When the answered claim was sent, on the timer. */
  sentAt: number;
  /** A `new` for this token arrived after the try that asked for it was given up. */
  isGrantedLate: boolean;
  /** What to do then: tell the store again how the attempt stands. Nothing while it runs or is being told. */
  onLateNew: (() => void) | undefined;
}

export type RoundAnswer =
  | ClaimAnswer
  /** `isRefused`: the store answered, and the answer was no. */
  | { readonly status: "unavailable"; readonly error: unknown; readonly isRefused: boolean }
  /** Granted, but the lease was over when the grant arrived. */
  | { readonly status: "too-late" };

export async function claimRound(
  ports: Ports,
  call: Call,
  takeover?: number,
): Promise<{ round: Round; answer: RoundAnswer }> {
  const { timer, background } = ports;
  const { leaseMs, storeTimeoutMs } = call.policy;
  const round: Round = { token: ports.newToken(), sentAt: 0, isGrantedLate: false, onLateNew: undefined };
  if (background.isFull()) return { round, answer: OVERDUE };
  const send = (bound: Bound) => sendClaim(ports, call, round.token, takeover, bound);
  const onLate = (late: ClaimAnswer) => late.status === "new" && grantedLate(round);
  let answer: RoundAnswer = OVERDUE;
  let isAmbiguous = false;
  for (let tries = 0; tries < MAX_TRIES; ) {
    if (tries > 0)
      await new Promise<void>((resolve) => void timer.after(pauseMs(tries, ports.random), resolve));
    try {
      round.sentAt = timer.now();
      answer = await bounded(ports, storeTimeoutMs, send, onLate);
      break;
    } catch (error) {
      answer = { status: "unavailable", error, isRefused: isRefusal(error) };
      if (answer.isRefused) break;
      isAmbiguous = true;
      tries += error instanceof TimedOut ? TIMEOUT_TRIES : 1;
    }
  }
  if (answer.status === "new") {
    if (timer.now() < leaseEnd(round.sentAt, leaseMs)) return { round, answer };
    answer = { status: "too-late" };
  }
  const isUnanswered = answer.status === "unavailable" && isAmbiguous;
  if (mayProceed(call, answer, takeover)) return { round, answer };
  round.onLateNew = () => abandonUnrun(ports, call, round);
  // Or an earlier try was granted after the last one was refused, and its answer overtook that one's.
  if (isUnanswered || answer.status === "too-late" || round.isGrantedLate) abandonUnrun(ports, call, round);
  return { round, answer };
}

/** Whether whoever claims goes on without an answer, and so keeps what it may have been granted. */
export function mayProceed(call: Call, answer: RoundAnswer, takeover?: number): boolean {
  const isUnreachable = answer.status === "unavailable" && !answer.isRefused;
  return isUnreachable && call.policy.onUnavailable === "proceed" && takeover === undefined;
}

const OVERDUE = {
  status: "unavailable",
  error: new Error("it has not answered for long, and too much waits to be told to it"),
  isRefused: true,
} as const;

export function sendClaim(
  { store, requirement }: Ports,
  { identity, fingerprint, policy }: Call,
  token: string,
  takeover: number | undefined,
  { signal }: Bound,
): Promise<ClaimAnswer> {
  const send = () =>
    store.claim({
      id: identity.id,
      parts: identity.parts,
      fingerprint,
      token,
      leaseMs: policy.leaseMs,
      retentionMs: policy.retentionMs,
      hold: policy.onLapsed === "hold",
      takeover,
      signal,
    });
  return requirement?.isMet === false ? requirement.meet().then(send) : send();
}

export function grantedLate(round: Round): void {
  round.isGrantedLate = true;
  round.onLateNew?.();
}

/** Gives back a claim whose work never started, or may have been made without our knowing. */
export function abandonUnrun(ports: Ports, call: Call, round: Round): void {
  round.onLateNew = () => abandonUnrun(ports, call, round);
  void persistAbandon(ports, call, round.token, "unrun");
}

function persistAbandon(
  ports: Ports,
  call: Call,
  token: string,
  as: AbandonAs,
): Promise<boolean | undefined> {
  return ports.background.persist(call.policy.storeTimeoutMs, (bound) =>
    sendAbandon(ports, call, token, as, bound),
  );
}

export function sendAbandon(
  ports: Ports,
  call: Call,
  token: string,
  as: AbandonAs,
  bound: Bound,
): Promise<boolean> {
  return ports.store.abandon({
    id: call.identity.id,
    token,
    as,
    signal: bound.signal,
  });
}

export function sendRenew(ports: Ports, call: Call, round: Round): Promise<boolean> {
  const { leaseMs, storeTimeoutMs } = call.policy;
  return bounded(ports, storeTimeoutMs, (bound) =>
    ports.store.renew({
      id: call.identity.id,
      token: round.token,
      leaseMs,
      signal: bound.signal,
    }),
  );
}
