/**
 * Sends calls of one step that arrive together as one script, except on a cluster, where their keys are on different servers.
 * Node's own time decides how many calls a process can make, so a call has one promise, which the reply to its group settles,
 * and a script has few arguments: clients take time for each of them.
 */
import { isNevertwiceError } from "../../core/errors.ts";
import { type CallBatch, createBatch } from "../batch.ts";
import type { LuaScript } from "../redis-lua.ts";
import { type Evaluation, type RedisAdapter, runScript } from "./client.ts";
import { isWriteRefused } from "./errors.ts";

/** How many calls share a script. Redis serves no other client meanwhile, for less than half a millisecond. */
const MAX_CALLS = 32;
const MAX_BYTES = 1_048_576;
const MAX_FLIGHTS = 2;

/** A step that a script takes on one record for each call. */
export interface ScriptStep<Call, Answer> {
  readonly script: LuaScript;
  /** The arguments of the script, for all its calls. */
  toArguments(calls: readonly Call[]): readonly string[];
  /** About how many characters a call adds to its script. */
  sizeOf(call: Call): number;
  /** Makes a call's answer from the script's reply to it. Throws if the reply means an error. */
  toAnswer(call: Call, reply: unknown): Answer;
}

export interface StepBatchesOptions {
  readonly isCluster: boolean;
  readonly evaluate: RedisAdapter["evaluate"];
  readonly toKey: (id: string) => string;
}

/** An answer may be a promise, which settles only its own call. */
type Answers<Answer> = readonly (Answer | PromiseLike<Answer>)[];

export interface StepBatches {
  ofStep<Call extends { readonly id: string }, Answer>(
    step: ScriptStep<Call, Answer>,
  ): CallBatch<Call, Answer>;
  of<Call, Answer>(
    sendAll: (calls: readonly Call[]) => Promise<Answers<Answer>>,
    sizeOf?: (call: Call) => number,
  ): CallBatch<Call, Answer>;
}

export function createStepBatches({ isCluster, evaluate, toKey }: StepBatchesOptions): StepBatches {
  const of: StepBatches["of"] = <Call, Answer>(
    sendAll: (calls: readonly Call[]) => Promise<Answers<Answer>>,
    sizeOf?: (call: Call) => number,
  ) => {
    const send = async (calls: readonly Call[]): Promise<Answers<Answer>> => {
      try {
        return await sendAll(calls);
      } catch (error) {
        // An unreachable Redis fails all calls. Any other error may concern one call: send them one by one. A Redis that
        // refuses writes still answers the calls that write nothing.
        if (isNevertwiceError(error) && error.code !== "store-unsafe" && !isWriteRefused(error))
          return calls.map(() => Promise.reject(error));
        throw error;
      }
    };
    const alone = async (call: Call): Promise<Answer> => (await send([call]))[0] as Answer;
    if (isCluster) return { run: alone };
    return createBatch({
      send,
      alone,
      sizeOf,
      maxCalls: MAX_CALLS,
      maxBytes: MAX_BYTES,
      maxFlights: MAX_FLIGHTS,
    });
  };

  return {
    of,
    ofStep(step) {
      const { script, toArguments, toAnswer } = step;
      return of(async (calls) => {
        const evaluation: Evaluation = [script.sha, String(calls.length)];
        for (const { id } of calls) evaluation.push(toKey(id));
        evaluation.push(...toArguments(calls));
        const replies = (await runScript(evaluate, script, evaluation)) as readonly unknown[];
        // A list that is shorter than the calls is the one reply to all of them.
        const isOneForAll = replies.length < calls.length;
        return calls.map((call, index) => settledAnswer(toAnswer, call, replies[isOneForAll ? 0 : index]));
      }, step.sizeOf);
    },
  };
}

/** What `toAnswer` throws concerns this call only. */
function settledAnswer<Call, Answer>(
  toAnswer: (call: Call, reply: unknown) => Answer,
  call: Call,
  reply: unknown,
): Answer | Promise<Answer> {
  try {
    return toAnswer(call, reply);
  } catch (error) {
    return Promise.reject(error);
  }
}
