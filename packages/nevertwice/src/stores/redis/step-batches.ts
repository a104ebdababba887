/**
 * Sends calls of one step that arrive together as one script: on a cluster those for the same server (redis/node-groups.ts). At
 * the edge each call is sent alone, since requests may not wait for each other there.
 * Node's own time decides how many calls a process can make, so a call has one promise, which the reply to its group settles,
 * and a script has few arguments: clients take time for each of them.
 */
import { isNevertwiceError } from "../../core/errors.ts";
import { type CallBatch, type CallBatchOptions, createBatch } from "../batch.ts";
import type { LuaScript } from "../redis-lua.ts";
import { isWriteRefused } from "./errors.ts";
import type { NodeGroup, NodeGroups, RunOnRecords } from "./node-groups.ts";

/** How many calls share a script. Redis serves no other client meanwhile, for less than half a millisecond. */
const MAX_CALLS = 32;
const MAX_BYTES = 1_048_576;
const MAX_FLIGHTS = 2;
/** At a distance of 80 ms, for some thousand calls in a second. */
const FAR = { maxCalls: MAX_CALLS, maxFlights: 16 };

/** A step that a script takes on one record for each call. */
export interface ScriptStep<Call, Answer> {
  readonly script: LuaScript;
  /** The arguments of the script, for all its calls. */
  toArguments(calls: readonly Call[]): readonly string[];
  readonly grouping: Grouping<Call, Answer>;
  /** Makes a call's answer from the script's reply to it. Throws if the reply means an error. */
  toAnswer(call: Call, reply: unknown): Answer;
}

export interface StepBatchesOptions {
  /** Whether calls that arrive together share a script. */
  readonly isGrouped: boolean;
  readonly isSharded?: boolean | undefined;
  /** Given on a cluster. */
  readonly nodeGroups?: NodeGroups | undefined;
  /** Declares the keys of the records. On a cluster, for one record only. */
  readonly run: RunOnRecords;
}

/** An answer may be a promise, which settles only its own call. */
type Answers<Answer> = readonly (Answer | PromiseLike<Answer>)[];

/** Sends the calls, whose scripts are run with `run`. */
type SendAll<Call, Answer> = (calls: readonly Call[], run: RunOnRecords) => Promise<Answers<Answer>>;

/** How the calls of a step are grouped, on a cluster as elsewhere. */
export type Grouping<Call, Answer> = Pick<CallBatchOptions<Call, Answer>, "sizeOf" | "turnOf" | "sharing">;

export interface GroupingOptions<Call, Answer> extends Grouping<Call, Answer> {
  idOf(call: Call): string;
  /** Whether calls may share a script on a cluster, where they may be repeated alone. */
  readonly isApart: boolean;
}

export interface StepBatches {
  ofStep<Call extends { readonly id: string }, Answer>(
    step: ScriptStep<Call, Answer>,
  ): CallBatch<Call, Answer>;
  of<Call, Answer>(
    sendAll: SendAll<Call, Answer>,
    options: GroupingOptions<Call, Answer>,
  ): CallBatch<Call, Answer>;
}

const LIMITS = { maxCalls: MAX_CALLS, maxBytes: MAX_BYTES, maxFlights: MAX_FLIGHTS, far: FAR };

export function createStepBatches({
  isGrouped,
  isSharded,
  nodeGroups,
  run,
}: StepBatchesOptions): StepBatches {
  const of: StepBatches["of"] = <Call, Answer>(
    sendAll: SendAll<Call, Answer>,
    { idOf, isApart, ...grouping }: GroupingOptions<Call, Answer>,
  ) => {
    const send = async (calls: readonly Call[]): Promise<Answers<Answer>> => {
      try {
        return await sendAll(calls, run);
      } catch (error) {
        // An unreachable Redis fails all calls. Any other error may concern one call: send them one by one. A Redis that
        // refuses writes still answers the calls that write nothing.
        if (isNevertwiceError(error) && error.code !== "store-unsafe" && !isWriteRefused(error))
          return calls.map(() => Promise.reject(error));
        throw error;
      }
    };
    const alone = async (call: Call): Promise<Answer> => (await send([call]))[0] as Answer;
    if (!isGrouped) return { run: alone };
    if (nodeGroups === undefined) return createBatch({ ...grouping, send, alone, ...LIMITS });
    const sendEach = async (calls: readonly Call[]): Promise<Answers<Answer>> => {
      const answers = calls.map(alone);
      await Promise.allSettled(answers);
      return answers;
    };
    return batchPerGroup({
      groupOf: (call) => nodeGroups.find(idOf(call)),
      alone,
      createBatch: (group) =>
        createBatch({
          ...grouping,
          send: (calls) =>
            isApart && calls.length > 1 && group.isOpen() ? sendAll(calls, group.run) : sendEach(calls),
          alone,
          ...LIMITS,
        }),
    });
  };

  return {
    of,
    ofStep<Call extends { readonly id: string }, Answer>(step: ScriptStep<Call, Answer>) {
      const { script, toArguments, toAnswer, grouping } = step;
      const { sharded = script } = isSharded ? script : {};
      const options = { ...grouping, idOf: ({ id }: Call) => id, isApart: script.apart !== undefined };
      return of(async (calls, runOn) => {
        const ids = calls.map(({ id }) => id);
        const replies = (await runOn(sharded, ids, toArguments(calls))) as readonly unknown[];
        // A list that is shorter than the calls is the one reply to all of them.
        const isOneForAll = replies.length < calls.length;
        return calls.map((call, index) => settledAnswer(toAnswer, call, replies[isOneForAll ? 0 : index]));
      }, options);
    },
  };
}

interface GroupBatchesOptions<Call, Answer> {
  groupOf(call: Call): NodeGroup | undefined;
  alone(call: Call): Promise<Answer>;
  createBatch(group: NodeGroup): CallBatch<Call, Answer>;
}

/** A batch for each server of a cluster: one that answers slowly delays only its own calls. */
function batchPerGroup<Call, Answer>(options: GroupBatchesOptions<Call, Answer>): CallBatch<Call, Answer> {
  const batches = new WeakMap<NodeGroup, CallBatch<Call, Answer>>();
  return {
    run(call) {
      const group = options.groupOf(call);
      if (group === undefined) return options.alone(call);
      const batch = batches.get(group) ?? options.createBatch(group);
      batches.set(group, batch);
      return batch.run(call);
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
