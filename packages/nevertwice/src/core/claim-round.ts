/**
 * One round of claiming: a claim with one token, sent until the store answers or the time is up. A lost or late answer
 * never loses the claim behind it. The store recognises the same token, and round.ts handles a grant that comes late.
 */

import { directStore } from "./direct-store.ts";
import { NevertwiceError } from "./errors.ts";
import { leaseEnd } from "./lease.ts";
import type { KeptOutcome } from "./outcome.ts";
import type { Ports } from "./ports.ts";
import type { Call } from "./request.ts";
import { Round } from "./round.ts";
import type { AbandonAs, ClaimAnswer, ClaimRequest, StoreRecord } from "./store.ts";
import { callWithin, callWithRetries, type Deadline, isRefusal } from "./store-call.ts";

export type RoundAnswer<Outcome = string> =
  | ClaimAnswer<Outcome>
  /** `isRefused`: the store answered, and refused the claim. */
  | {
      readonly status: "unavailable";
      readonly error: unknown;
      readonly isRefused: boolean;
      readonly waitedMs: number;
    }
  /** The claim was granted, but its lease had ended when the answer arrived. */
  | { readonly status: "too-late" }
  /** The caller's token gave its claim up earlier. The store never grants that token another claim. */
  | { readonly status: "token-spent" };

/** An answered claim, and the round that it was sent in. */
export interface AnsweredClaim {
  readonly round: Round;
  /** `hold-over`: the outcome is unknown, and the time for a decision has passed. */
  readonly answer: RoundAnswer<KeptOutcome> | { readonly status: "hold-over" };
}

/**
 * A round whose claim the store answers at once. Nothing of it can arrive late, so it needs no time limit and no repeat.
 * Undefined if the store cannot answer directly, or if the claim needs more than its answer: a caller's own token may be
 * spent, which only a read can tell.
 */
export function claimDirectly(ports: Ports, call: Call): AnsweredClaim | undefined {
  const direct = directStore(ports.store);
  if (direct === undefined || call.token !== undefined) return undefined;
  if (ports.background.isFull() || ports.requirement?.isMet === false) return undefined;
  const round = newRound(ports, call, undefined);
  round.sentAt = ports.timer.now();
  try {
    const answer = direct.claim(claimRequest(call, round.token, undefined, undefined));
    return answer && { round, answer };
  } catch {
    return undefined;
  }
}

export async function claimRound(
  ports: Ports,
  call: Call,
  takeover?: number,
): Promise<{ round: Round; answer: RoundAnswer }> {
  const { timer, background } = ports;
  const { leaseMs, storeTimeoutMs } = call.policy;
  const round = newRound(ports, call, takeover);
  if (background.isFull()) return { round, answer: OVERDUE };
  const send = (deadline: Deadline) => sendClaim(ports, call, round.token, takeover, deadline);
  const onLate = (late: ClaimAnswer) => late.status === "new" && round.grantLate();
  const result = await callWithRetries(ports, storeTimeoutMs, send, onLate);
  round.mayBeGrantedLate = result.isAmbiguous;
  let answer: RoundAnswer;
  if (result.isAnswered) {
    answer = result.answer;
    round.sentAt = result.sentAt;
  } else {
    const { error, waitedMs } = result;
    answer = { status: "unavailable", error, isRefused: isRefusal(error), waitedMs };
  }
  if (answer.status === "new") {
    if (timer.now() < leaseEnd(round.sentAt, leaseMs)) return { round, answer };
    answer = { status: "too-late" };
  }
  if (round.isCallers && answer.status === "pending" && answer.leaseLeftMs <= 0)
    return { round, answer: await detectSpentToken(ports, call, round, answer) };
  const isUnanswered = answer.status === "unavailable" && result.isAmbiguous;
  if (mayProceed(call, answer, takeover)) return { round, answer };
  // A late grant may have arrived already: an earlier try was granted after the last one was refused.
  abandonUnrun(ports, call, round, isUnanswered || answer.status === "too-late");
  return { round, answer };
}

/** A decision about a lapsed claim uses a fresh token, since it gives the claim up if there is no decision. */
function newRound(ports: Ports, call: Call, takeover: number | undefined): Round {
  const brought = takeover === undefined ? call.token : undefined;
  return new Round(brought ?? ports.newToken(), brought !== undefined);
}

/**
 * The store answers `pending` with no time left to a token that gave its claim up. That answer never changes, so the
 * caller must learn to stop retrying. For a moment the store may answer the same about a claim of another token.
 */
async function detectSpentToken(
  ports: Ports,
  call: Call,
  { token }: Round,
  answer: RoundAnswer,
): Promise<RoundAnswer> {
  const startedAt = ports.timer.now();
  try {
    const record = await readRecord(ports, call);
    const isOver = record?.state === "released" || record?.state === "lapsed";
    if (record?.token === token && isOver) return { status: "token-spent" };
    // Another caller has claimed the key in the meantime.
    return record?.state === "pending" ? { status: "pending", leaseLeftMs: record.leaseLeftMs } : answer;
  } catch (error) {
    const waitedMs = Math.round(ports.timer.now() - startedAt);
    return { status: "unavailable", error, isRefused: isRefusal(error), waitedMs };
  }
}

export function readRecord(ports: Ports, { identity, policy }: Call): Promise<StoreRecord | undefined> {
  return callWithin(ports, policy.storeTimeoutMs, (deadline) => ports.store.read(identity.id, deadline));
}

export function tokenSpent(): NevertwiceError {
  return new NevertwiceError(
    "token-spent",
    "this token gave its claim up and cannot claim this key again; claim with a fresh token.",
  );
}

/** Whether the caller runs the work without an answer, and so keeps a claim that it may have been granted. */
export function mayProceed(call: Call, answer: RoundAnswer<KeptOutcome>, takeover?: number): boolean {
  const isUnreachable = answer.status === "unavailable" && !answer.isRefused;
  return isUnreachable && call.policy.onUnavailable === "proceed" && takeover === undefined;
}

const OVERDUE = {
  status: "unavailable",
  error: new Error("it has not answered for a long time, and too many outcomes wait to be recorded"),
  isRefused: true,
  waitedMs: 0,
} as const;

export function sendClaim(
  { store, requirement }: Ports,
  call: Call,
  token: string,
  takeover: number | undefined,
  { signal }: Deadline,
): Promise<ClaimAnswer> {
  const request = claimRequest(call, token, takeover, signal);
  return requirement?.isMet === false
    ? requirement.meet().then(() => store.claim(request))
    : store.claim(request);
}

function claimRequest(
  { identity, fingerprint, policy, mayBeLost }: Call,
  token: string,
  takeover: number | undefined,
  signal: AbortSignal | undefined,
): ClaimRequest {
  const request = {
    id: identity.id,
    parts: identity.parts,
    fingerprint,
    token,
    leaseMs: policy.leaseMs,
    retentionMs: policy.retentionMs,
    hold: policy.onLapsed === "hold",
    takeover,
    signal,
  };
  return mayBeLost ? { ...request, mayBeLost } : request;
}

/**
 * Gives back a claim whose work never started. The store may have granted it without this process knowing. Only a token
 * that was made for this round is given back: a caller that brought its own may hold the claim again in the meantime.
 * With `isDue` false, the claim is given back only if a late grant arrives.
 *
 *   claim(T): no answer ── 503 ── claim(T) again ── granted ── works ───────────
 *                     └── abandon(T), in the background ──▶ the key is free ── granted to another caller
 */
export function abandonUnrun(ports: Ports, call: Call, round: Round, isDue = true): void {
  if (round.isCallers) return;
  round.answerLateGrants(() => void persistAbandon(ports, call, round.token, "unrun"), isDue);
}

function persistAbandon(
  ports: Ports,
  call: Call,
  token: string,
  as: AbandonAs,
): Promise<boolean | undefined> {
  return ports.background.persist(
    call.policy.storeTimeoutMs,
    (deadline) => sendAbandon(ports, call, token, as, deadline),
    call.waitUntil,
  );
}

export function sendAbandon(
  ports: Ports,
  call: Call,
  token: string,
  as: AbandonAs,
  deadline: Deadline,
): Promise<boolean> {
  return ports.store.abandon({
    id: call.identity.id,
    token,
    as,
    signal: deadline.signal,
  });
}

export function sendRenew(
  ports: Ports,
  { identity, policy }: Call,
  { token }: Round,
  leaseMs: number,
): Promise<boolean> {
  return callWithin(ports, policy.storeTimeoutMs, ({ signal }) =>
    ports.store.renew({ id: identity.id, token, leaseMs, signal }),
  );
}
