/** Calls the policy's `reconcile` for a held claim whose outcome is unknown. */

import { type AnsweredClaim, claimRound } from "./claim-round.ts";
import { type Ending, endingFromDecision } from "./ending.ts";
import { callOutcomeLimit, type Ports } from "./ports.ts";
import type { Call } from "./request.ts";
import type { Settlement } from "./round.ts";
import type { RunningAttempts } from "./running-attempts.ts";
import { settleAbandon, settleCompletion } from "./settlement.ts";

/**
 * It runs under a new claim, so a stale decision loses. Returns that claim if the store did not answer it.
 */
export async function reconcileLapsed(
  ports: Ports,
  running: RunningAttempts,
  call: Call,
  lapsedFence: number,
): Promise<AnsweredClaim | undefined> {
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
  const begun = running.begin(settlement, answer.number);
  const { fence, number, signal, deriveKey } = begun.handed;
  let ending: Ending;
  try {
    const lapsed = { parts: call.identity.parts, fence, number, signal, deriveKey };
    const decision = await call.policy.reconcile?.(lapsed);
    ending = endingFromDecision(decision ?? { status: "unknown" }, callOutcomeLimit(ports, call));
  } catch {
    // `reconcile` found nothing out, so the outcome stays unknown.
    ending = endingFromDecision({ status: "unknown" }, 0);
  }
  begun.end();
  if (ending.kind === "complete") await settleCompletion(ports, settlement, ending);
  else await settleAbandon(ports, settlement, ending);
  return undefined;
}
