/**
 * Sends the events about claims and how they end. Guards report through these functions, and so does `nevertwice/claims`,
 * so that both are counted alike: each attempt starts once and ends at most once.
 */
import type { RoundAnswer } from "./claim-round.ts";
import { about, type EmitEvent, type EventDetails } from "./observer.ts";
import type { KeptOutcome, Outcome } from "./outcome.ts";
import type { ReplayFault } from "./replay-fault.ts";
import type { AbandonAs } from "./store.ts";

/** The identity of a claim, or as much of it as is known where only the id was given. */
type EventSubject = Parameters<typeof about>[0];

/** Reports every answer except `completed`, which `reportReplay` reports. */
export function reportClaim(
  emit: EmitEvent | undefined,
  subject: EventSubject,
  answer: RoundAnswer<KeptOutcome>,
): void {
  if (emit === undefined) return;
  const who = about(subject);
  for (const details of claimEvents(answer)) emit({ ...who, ...details });
}

function claimEvents(answer: RoundAnswer<KeptOutcome>): readonly EventDetails[] {
  switch (answer.status) {
    case "new": {
      const { fence, number, tookOver } = answer;
      if (!tookOver) return [{ kind: "claimed", fence, number }];
      return [{ kind: "lapsed" }, { kind: "taken-over", fence, number }];
    }
    case "conflict":
      return [{ kind: "conflict", state: answer.state }];
    case "unknown":
      return [{ kind: "lapsed" }];
    case "unavailable":
      return [{ kind: "unavailable", during: "claim", cause: answer.error }];
    case "too-late":
      return [{ kind: "unavailable", during: "claim", cause: tooLate() }];
    case "pending":
      return [{ kind: "pending", leaseLeftMs: answer.leaseLeftMs }];
    case "token-spent":
      return [{ kind: "token-spent" }];
    case "completed":
      return [];
  }
}

/** The reason why a granted claim is not used. */
export function tooLate(): Error {
  return new Error("the claim was answered after its lease had ended");
}

/** A duplicate met a completed record. `fault` says why it did not get the outcome. */
export function reportReplay(
  emit: EmitEvent | undefined,
  subject: EventSubject,
  { origin }: Outcome,
  fault: ReplayFault | "refused" | undefined,
): void {
  if (emit === undefined) return;
  const who = about(subject);
  if (fault === undefined || fault === "refused")
    emit({ ...who, kind: "replayed", refused: fault === "refused", origin });
  else emit({ ...who, kind: `replay-${fault}`, origin });
}

/** An attempt whose claim was granted. */
export interface GrantedAttempt {
  readonly subject: EventSubject;
  readonly fence: number;
}

export function reportCompletion(
  emit: EmitEvent | undefined,
  { subject, fence }: GrantedAttempt,
  end: {
    readonly status: "recorded" | "superseded" | "forgotten" | "overtaken" | "unanswered";
    readonly ranMs: number;
    readonly notKept: string | undefined;
  },
): void {
  if (emit === undefined) return;
  const who = about(subject);
  if (end.status !== "recorded") {
    const reason = end.status === "forgotten" ? "forgotten" : "overtaken";
    emit({ ...who, kind: "lease-lost", fence, reason });
    return;
  }
  emit({ ...who, kind: "completed", fence, ranMs: end.ranMs });
  if (end.notKept !== undefined) emit({ ...who, kind: "not-kept", fence, detail: end.notKept });
}

export function reportAbandon(
  emit: EmitEvent | undefined,
  attempt: GrantedAttempt,
  isOurs: boolean,
  as: AbandonAs,
): void {
  if (isOurs) emit?.({ ...about(attempt.subject), kind: "abandoned", fence: attempt.fence, as });
  else reportOvertaken(emit, attempt);
}

/** The store says that another attempt owns the claim. */
export function reportOvertaken(emit: EmitEvent | undefined, { subject, fence }: GrantedAttempt): void {
  emit?.({ ...about(subject), kind: "lease-lost", fence, reason: "overtaken" });
}

export function reportRenewal(
  emit: EmitEvent | undefined,
  { subject, fence }: GrantedAttempt,
  leaseMs: number,
): void {
  emit?.({ ...about(subject), kind: "renewed", fence, leaseMs });
}
