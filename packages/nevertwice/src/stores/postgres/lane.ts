/** One lane for one kind of step: calls that wait for it go together, and those that met others go again. */
import { NevertwiceError } from "../../core/errors.ts";
import { type Batch, createBatch } from "../batch.ts";
import type { Statement, Step } from "../postgres-sql.ts";
import type { Asking } from "./client.ts";
import { isCollision } from "./failure.ts";
import type { StepCalls } from "./steps.ts";

/** Enough to share a commit. More would make all callers wait for one another, and the server for them. */
const MAX_CALLS = 32;
const MAX_BYTES = 1_048_576;
/** While one commits, the next ones are on their way. */
const MAX_FLIGHTS = 3;
/** How often a call by itself is repeated that met others, before its caller is told. */
const ALONE_TRIES = 5;

interface LaneOptions<Call, Answer> extends StepCalls<Call, Answer> {
  readonly step: Step;
  /** Is told the ids of what was answered with true. */
  readonly settled?: (ids: readonly string[]) => void;
}

export function createLane<Call extends { readonly id: string }, Answer>(
  ask: Asking["ask"],
  options: LaneOptions<Call, Answer>,
): Batch<Call, Answer> {
  const { step, parametersOf, answersOf, sizeOf, idOf, settled } = options;

  async function send(
    statement: Statement,
    calls: readonly Call[],
  ): Promise<readonly (Answer | undefined)[]> {
    const answers = answersOf(calls, await ask(statement, parametersOf(calls)));
    settled?.(calls.flatMap(({ id }, index) => (answers[index] === true ? id : [])));
    return answers;
  }

  const alone = (call: Call) => persist(async () => (await send(step.alone, [call]))[0]);

  return createBatch({
    async send(calls) {
      const [only] = calls;
      return only !== undefined && calls.length === 1 ? [await alone(only)] : send(step.together, calls);
    },
    alone,
    idOf,
    sizeOf,
    maxCalls: MAX_CALLS,
    maxBytes: MAX_BYTES,
    maxFlights: MAX_FLIGHTS,
  });
}

/** One call until it is answered: what met others on its record is asked again, a few times. */
export async function persist<Answer>(asked: () => Promise<Answer | undefined>): Promise<Answer> {
  for (let tries = 1; ; tries++) {
    try {
      const answer = await asked();
      if (answer !== undefined) return answer;
    } catch (error) {
      if (!isCollision(error) || tries >= ALONE_TRIES) throw error;
    }
    // one-owner: a lost race is never answered as new.
    if (tries >= ALONE_TRIES)
      throw new NevertwiceError("unavailable", "Postgres: the record moved whenever it was looked at.");
  }
}
