/**
 * Sagas: several effects that cannot share a transaction, of which each has an undo. A saga is one record with one life, and
 * its steps are the kept steps of that record. `saga-attempt.ts` owns what happens under the claim.
 */
import { requireRequest } from "../core/argument-checks.ts";
import { type BackoffOptions, toBackoff } from "../core/backoff.ts";
import type { Engine } from "../core/engine.ts";
import { NevertwiceError } from "../core/errors.ts";
import type { PolicyOptions } from "../core/policy.ts";
import type { ReplayFault } from "../core/replay-fault.ts";
import type { Call, KeepOptions, RunRequest } from "../core/request.ts";
import type { RunResult } from "../core/result.ts";
import { type SagaDoor, sagaDoor } from "../core/saga-door.ts";
import { SagaAttempt, SagaPaused, type SagaPlan } from "./saga-attempt.ts";
import { SagaLog } from "./saga-log.ts";
import { readEnd, type SagaEnd, type SagaResult } from "./saga-result.ts";
import { type AnyStep, checkSteps, type SagaStep } from "./saga-step.ts";

/** Options of a request that a saga decides itself. */
const DECIDED_HERE = [
  "onCompleted",
  "onFailure",
  "onUnavailable",
  "shorten",
  "encode",
  "decode",
] as const satisfies readonly (keyof PolicyOptions | keyof KeepOptions<unknown, unknown>)[];

/** A request to a guard, with the retries of a saga. A saga always replays its end, and never runs without its claim. */
export interface SagaRequest extends Omit<RunRequest, (typeof DECIDED_HERE)[number]> {
  /** Retries of a step that throws, before the saga is undone. Default `{ max: 0 }`. */
  readonly retry?: BackoffOptions | undefined;
  /** Retries of an undo that throws, before the saga is parked. Default `{ max: 3 }`. */
  readonly undoRetry?: BackoffOptions | undefined;
}

export const SAGA_DEFAULTS = { retry: { max: 0 }, undoRetry: { max: 3 } } as const;

/**
 * Runs the steps in order. If one throws, the saga is undone: the decision is kept, and then `undo` of that step and of every
 * finished one is called, the last one first. Call it again after a crash or an answer that is not an end: it goes on where
 * it was. Every expected end is a value. Rejects with `options-invalid` and the like for an invalid request, and with the
 * reason of `request.signal`, which ends only the caller's wait.
 * @throws `options-invalid`
 * @example
 * ```ts
 * import { createGuard } from "nevertwice";
 * import { saga } from "nevertwice/saga";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * const guard = createGuard({ store: memoryStore() });
 * const result = await saga<{ flight: string; hotel: string }>(guard, { operation: "trip", key: "trip-7" }, [
 *   { name: "flight", run: () => "flight 9", undo: ({ outcome }) => console.log(`cancel ${outcome}`) },
 *   { name: "hotel", run: () => "room 307", undo: ({ outcome }) => console.log(`cancel ${outcome}`) },
 * ]);
 * if (result.status === "done") console.log(result.outcomes.flight, result.outcomes.hotel);
 * ```
 */
export async function saga<Outcomes extends object = Record<string, unknown>>(
  guard: Pick<Engine, "tryRun">,
  request: SagaRequest,
  steps: readonly {
    [Name in keyof Outcomes & string]: SagaStep<Outcomes, Name>;
  }[keyof Outcomes & string][],
): Promise<SagaResult<Outcomes>> {
  const door = sagaDoor(guard, "saga(guard, { operation, key }, steps)");
  const { call, plan } = prepare(door, request, steps as readonly AnyStep[]);
  return (await execute(door, call, plan)) as SagaResult<Outcomes>;
}

async function execute(door: SagaDoor, call: Call, plan: SagaPlan): Promise<SagaResult> {
  let failure: { readonly thrown: unknown } | undefined;
  try {
    const result = await door.execute<SagaEnd>(call, async (attempt) => {
      try {
        return await new SagaAttempt(plan, attempt).run();
      } catch (thrown) {
        failure = { thrown };
        throw thrown;
      }
    });
    return await toSagaResult(door, call, result);
  } catch (thrown) {
    if (thrown instanceof SagaPaused) return toPaused(door, call, thrown);
    const isOurs = failure !== undefined && thrown === failure.thrown;
    if (isOurs || call.signal?.aborted) throw thrown;
    // An operator decided that the saga failed.
    return { status: "undone", error: thrown };
  }
}

function prepare(
  door: SagaDoor,
  request: SagaRequest,
  steps: readonly AnyStep[],
): { readonly call: Call; readonly plan: SagaPlan } {
  requireRequest(request);
  const { retry = {}, undoRetry = {}, ...rest } = request;
  for (const name of DECIDED_HERE)
    if ((rest as RunRequest)[name] !== undefined)
      throw new NevertwiceError(
        "options-invalid",
        `${name} is not an option of a saga: a saga decides it itself.`,
      );
  const prepared = door.prepare(rest);
  const { maxSteps } = prepared.policy;
  checkSteps(steps, maxSteps);
  const policy = {
    ...prepared.policy,
    onCompleted: "replay",
    onUnavailable: "refuse",
    // Nothing was done if a step was refused as misuse. A paused saga lapses.
    onFailure: (thrown: unknown) => (thrown instanceof SagaPaused ? "unknown" : "release"),
  } as const;
  const plan = {
    steps: [...steps],
    retry: toBackoff({ ...SAGA_DEFAULTS.retry, ...retry }),
    undoRetry: toBackoff({ ...SAGA_DEFAULTS.undoRetry, ...undoRetry }),
    maxSteps,
    signal: prepared.signal,
    door,
  };
  return { call: { ...prepared, policy, shorten: shortenEnd, judgeReplay: judgeEnd }, plan };
}

function judgeEnd(value: unknown): ReplayFault | undefined {
  return readEnd(value).status === "not-kept" ? "unreadable" : undefined;
}

/** An error may be too large for the record. Duplicates must still learn that the saga was undone. */
function shortenEnd(end: unknown): unknown {
  const { status, step } = end as Extract<SagaEnd, { readonly status: "undone" }>;
  return status === "undone" ? { status, step } : end;
}

async function toSagaResult(door: SagaDoor, call: Call, result: RunResult<SagaEnd>): Promise<SagaResult> {
  switch (result.status) {
    case "ran":
    case "replayed":
      return readEnd(result.value);
    case "unknown":
      return (await readParked(door, call, result.fence)) ?? result;
    case "lease-lost":
      return { status: "lease-lost" };
    case "already-done":
      return { status: "not-kept", reason: "unreadable" };
    default:
      return result;
  }
}

/** The held record of a saga whose undo kept failing; undefined for any other record. */
async function readParked(door: SagaDoor, call: Call, fence: number): Promise<SagaResult | undefined> {
  // A store that does not answer leaves it at `unknown`, which is true too.
  const record = await door.read(call).catch(() => undefined);
  if (record?.fence !== fence || !record.hold || record.steps === undefined) return undefined;
  const { parked, undone } = new SagaLog().read(record.steps);
  if (parked === undefined || undone.has(parked.step)) return undefined;
  return { status: "parked", fence, ...parked };
}

/** The attempt has ended and its record has lapsed. If an undo kept failing, the record is held: a retry would only fail again. */
async function toPaused(door: SagaDoor, call: Call, { why, fence }: SagaPaused): Promise<SagaResult> {
  if (why.status === "lease-lost") return why;
  if (why.status === "unknown") return { ...why, fence };
  const { step, error } = why;
  const heldFence = await door.hold(call, fence);
  // Another attempt goes on, or the store does not answer: the next one tries the undo again.
  if (heldFence === undefined) return { status: "unknown", fence, error };
  return { status: "parked", fence: heldFence, step, error };
}
