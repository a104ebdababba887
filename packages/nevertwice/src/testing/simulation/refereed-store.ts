/** Next to the store: the referee sees each step as it is applied. */
import type { Clock } from "../../core/clock.ts";
import type { Store } from "../../core/store.ts";
import type { UnseenSteps } from "./direct-answers.ts";
import type { JudgedClaims } from "./judged-claims.ts";
import type { Referee } from "./referee.ts";
import type { World } from "./world.ts";

export interface RefereedStoreOptions {
  /** The process that calls the store. */
  readonly name: string;
  readonly store: Store;
  readonly world: World;
  readonly clock: Clock;
  readonly referee: Referee;
  readonly judgedClaims: JudgedClaims;
  readonly unseen: UnseenSteps;
}

export function refereedStore(options: RefereedStoreOptions): Store {
  const { name, store, world, clock, referee, judgedClaims, unseen } = options;
  /** The store has applied a step when the referee sees its answer a moment later. Until then no direct answer is given. */
  async function seen<T>(step: () => Promise<T>, see: (answer: T, now: number) => void): Promise<T> {
    const now = clock.now();
    unseen.steps++;
    try {
      const answer = await step();
      see(answer, now);
      return answer;
    } finally {
      unseen.steps--;
    }
  }
  const { keepStep } = store;
  return {
    ...store,
    claim: (request) =>
      seen(
        () => store.claim(request),
        (answer, now) => {
          referee.claimed(name, request, answer, now);
          judgedClaims.add({ at: world.now(), owner: name, request, answer });
        },
      ),
    complete: (request) =>
      seen(
        () => store.complete(request),
        (answer, now) => referee.completed(request, answer, now),
      ),
    abandon: (request) =>
      seen(
        () => store.abandon(request),
        (answer, now) => referee.abandoned(request, answer, now),
      ),
    renew: (request) =>
      seen(
        () => store.renew(request),
        (answer, now) => referee.renewed(request, answer, now),
      ),
    ...(keepStep && {
      keepStep: (request) =>
        seen(
          () => keepStep(request),
          (answer, now) => referee.stepKept(request, answer, now),
        ),
    }),
  };
}
