/** Direct answers of the store under test: the seed draws which claims and completions get one, and which go over the network. */
import type { Clock } from "../../core/clock.ts";
import { type DirectStore, directStore } from "../../core/direct-store.ts";
import { type KeptOutcome, outcomeText } from "../../core/outcome.ts";
import type { ClaimAnswer, Store } from "../../core/store.ts";
import type { Random } from "../random.ts";
import type { Referee } from "./referee.ts";

/** How many steps the store has applied that the referee has not seen yet. One count for all processes. */
export interface UnseenSteps {
  steps: number;
}

export interface DirectAnswersOptions {
  /** The process that asks. */
  readonly name: string;
  readonly store: Store;
  readonly clock: Clock;
  readonly referee: Referee;
  readonly random: Random;
  /** The share of claims and completions that are answered directly. */
  readonly share: number;
  readonly unseen: UnseenSteps;
}

/** Undefined if the store under test has none, or if the schedule has none. */
export function drawDirectAnswers(options: DirectAnswersOptions): DirectStore | undefined {
  const { name, store, clock, referee, random, share, unseen } = options;
  const direct = directStore(store);
  if (direct === undefined || share === 0) return undefined;
  const { complete } = direct;
  // The referee sees a direct answer at once, so it must have seen every earlier step.
  const isDrawn = () => random.chance(share) && unseen.steps === 0;
  return {
    claim(request) {
      if (!isDrawn()) return undefined;
      const now = clock.now();
      const answer = direct.claim(request);
      if (answer === undefined) return undefined;
      const seen = withText(answer);
      referee.count("claim directly");
      referee.claimed(name, request, seen, now);
      referee.delivered("claim", request.token, seen);
      return answer;
    },
    complete:
      complete &&
      ((request) => {
        if (!isDrawn()) return false;
        const now = clock.now();
        const answer = complete(request);
        referee.count("complete directly");
        referee.completed({ ...request, outcome: outcomeText(request.outcome) }, answer, now);
        referee.delivered("complete", request.token, answer);
        return answer;
      }),
  };
}

function withText(answer: ClaimAnswer<KeptOutcome>): ClaimAnswer {
  return answer.status === "completed" ? { ...answer, outcome: outcomeText(answer.outcome) } : answer;
}
