/** One step of a saga, as its author writes it. */
import { NevertwiceError } from "../core/errors.ts";
import { checkedPart, describeType } from "../core/identity.ts";
import { checkOptions, isFunction } from "../core/option-checks.ts";
import { LONGEST_PREFIX, RESERVED_PREFIX } from "./saga-log.ts";

/** What `run` and `undo` have in common. `Outcomes` has the name of each step and the type of its outcome. */
interface StepContext<Outcomes> {
  /** Grows with every attempt at this saga: pass it to systems that can refuse a lower one. */
  readonly fence: number;
  /** 1 for the first attempt at this saga, 2 if one earlier attempt was lost. */
  readonly number: number;
  /** Fires when the claim is lost: stop before the next effect. */
  readonly signal: AbortSignal;
  /** The outcomes of the steps that are finished. */
  readonly outcomes: Readonly<Partial<Outcomes>>;
  /**
   * A key for another system, the same on every attempt. Each step has its own keys, and its undo has others. `name` tells
   * several calls of one step apart. Throws `lease-lost` once the claim is lost.
   */
  deriveKey(name?: string): string;
}

/** What `run` of a step gets. */
export interface RunContext<Outcomes = Record<string, unknown>> extends StepContext<Outcomes> {
  /**
   * `throw context.notDone(cause)` says that the step did nothing, so only the steps before it are undone. If an earlier
   * try of the step ended without an answer, the step is undone all the same.
   */
  notDone(cause?: unknown): Error;
}

/** What `undo` of a step gets. */
export interface UndoContext<Outcomes = Record<string, unknown>, Outcome = unknown>
  extends StepContext<Outcomes> {
  /** What the step returned. Undefined if it threw, since it may have happened or not, or if its value could not be kept. */
  readonly outcome: Outcome | undefined;
  /** Why the saga is undone. */
  readonly error: unknown;
}

/** `undo` must tolerate that its step never happened. A step without `undo` has nothing to undo. */
export interface SagaStep<
  Outcomes = Record<string, unknown>,
  Name extends keyof Outcomes & string = keyof Outcomes & string,
> {
  /** Kept in the record: unique in the saga, and the same in every release while sagas of it are unfinished. */
  readonly name: Name;
  /** Does the step. What it returns is kept, and later steps get it. */
  run(context: RunContext<Outcomes>): Outcomes[Name] | PromiseLike<Outcomes[Name]>;
  /**
   * Undoes the step. It is called again until it succeeds or its retries are used up, so it must bear
   * repetition.
   */
  undo?(context: UndoContext<Outcomes, Outcomes[Name]>): unknown;
}

/** A step of any saga, as the library calls it. */
// biome-ignore lint/suspicious/noExplicitAny: contexts of all sagas are built by the same code.
export type AnyStep = SagaStep<any, any>;

const STEP_CHECKS = {
  name: (name: string, value: unknown) => {
    checkedPart(value, name, "options-invalid");
    // The record also has entries that consist of a prefix and the name.
    checkedPart(LONGEST_PREFIX + value, name, "options-invalid");
  },
  run: isFunction,
  undo: isFunction,
} as const;

/** Throws `options-invalid` for a list that is not a saga, or that may need more steps than a record may keep. */
export function checkSteps(steps: readonly AnyStep[], maxSteps: number): void {
  if (!Array.isArray(steps) || steps.length === 0)
    throw invalid(`the steps are ${describeType(steps)}; they must be an array with at least one step.`);
  const names = new Set<string>();
  for (const [index, step] of steps.entries()) {
    checkOptions(step, STEP_CHECKS);
    const { name, run } = step;
    STEP_CHECKS.name(`the name of step ${index + 1}`, name);
    isFunction(`the run of step ${JSON.stringify(name)}`, run);
    if (names.has(name)) throw invalid(`two steps are called ${JSON.stringify(name)}.`);
    if (name.startsWith(RESERVED_PREFIX))
      throw invalid(`step ${JSON.stringify(name)} begins with "${RESERVED_PREFIX}", which is reserved.`);
    names.add(name);
  }
  const most = mostEntries(steps);
  if (most > maxSteps)
    throw invalid(
      `this saga may keep ${most} steps: those that run, the decision to undo them, those that are undone, and one that is parked. maxSteps allows ${maxSteps}.`,
    );
}

function mostEntries(steps: readonly AnyStep[]): number {
  const undos = steps.filter(({ undo }) => undo !== undefined).length;
  return steps.length + undos + 2;
}

function invalid(message: string): NevertwiceError {
  return new NevertwiceError("options-invalid", message);
}
