/**
 * What the store under test answered, for judging the answers that it did not give itself: a claim that was not sent must
 * get what the store answered to a claim that was, as if it had been sent directly after that one.
 */
import type { ClaimAnswer, ClaimRequest } from "../../core/store.ts";
import type { Referee } from "./referee.ts";

interface JudgedClaim {
  readonly at: number;
  readonly owner: string;
  readonly request: ClaimRequest;
  readonly answer: ClaimAnswer;
}

export interface JudgedClaims {
  add(claim: JudgedClaim): void;
  /** An answer reached the caller of a claim that was made at `since`, in the same process. */
  answered(owner: string, request: ClaimRequest, answer: ClaimAnswer, since: number): void;
}

export function createJudgedClaims({ fail, count }: Pick<Referee, "fail" | "count">): JudgedClaims {
  const judged: JudgedClaim[] = [];

  return {
    add: (claim) => void judged.push(claim),
    answered(owner, request, answer, since) {
      const { id, token } = request;
      const candidates = judged.filter(
        (one) => one.owner === owner && one.request.id === id && one.at >= since,
      );
      // Also the same claim, sent once more.
      const isOwn = candidates.some((one) => one.request.token === token && one.answer === answer);
      if (isOwn) return;
      count(`claim shared ${answer.status}`);
      if (!candidates.some((one) => followsFrom(one, request, answer)))
        fail("I2", `a claim that was not sent was answered ${answer.status}, which no other claim entails`);
    },
  };
}

/** Whether the store would have given this answer if the claim had come directly after the one that it judged. */
function followsFrom(one: JudgedClaim, request: ClaimRequest, answer: ClaimAnswer): boolean {
  const found = one.answer;
  if (one.request.fingerprint !== request.fingerprint) return false;
  switch (answer.status) {
    case "completed":
      return found.status === "completed" && found.outcome === answer.outcome;
    case "conflict":
      return found.status === "conflict" && found.state === answer.state;
    case "pending":
      return found.status === "new" && answer.leaseLeftMs === one.request.leaseMs;
    default:
      return false;
  }
}
