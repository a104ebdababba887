/**
 * One attempt at a saga, under its claim. It reads the log, takes the next step forward or backward, and repeats:
 *
 *   forward     reserve ── kept ── charge ── kept ── ship ──╳ threw
 *                                                     │
 *   decision                                   undo from ship ── kept: from here on only backward
 *                                                     │
 *   backward    undone ◀── undo reserve ◀── undo charge ◀── undo ship
 *
 * The log is all that it goes by, so an attempt after a crash does the same as the one that crashed would have done.
 */
import { type Attempt, takeKeptSteps } from "../core/attempt.ts";
import { type Backoff, backoffMs, pause } from "../core/backoff.ts";
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import type { SagaDoor } from "../core/saga-door.ts";
import { isInterruption } from "./interruption.ts";
import {
  decisionEntry,
  parkedEntry,
  SagaLog,
  toKeepable,
  type UndoDecision,
  undoneEntry,
} from "./saga-log.ts";
import type { SagaEnd } from "./saga-result.ts";
import type { AnyStep, RunContext } from "./saga-step.ts";

/** Why an attempt ended without the end of the saga. */
type Pause =
  | { readonly status: "lease-lost" }
  | { readonly status: "unknown"; readonly error?: unknown; readonly reason?: string }
  | { readonly status: "parked"; readonly step: string; readonly error: unknown };

/** Thrown by the work of a saga, so that its record lapses: a later attempt goes on. */
export class SagaPaused extends Error {
  readonly why: Pause;
  readonly fence: number;

  constructor(why: Pause, fence: number) {
    super(`the saga is paused: ${why.status}`);
    this.why = why;
    this.fence = fence;
  }
}

/** What every attempt at one saga uses. */
export interface SagaPlan {
  readonly steps: readonly AnyStep[];
  readonly retry: Backoff;
  readonly undoRetry: Backoff;
  readonly maxSteps: number;
  /** The signal of the caller: work that throws after it fired was cut off. */
  readonly signal: AbortSignal | undefined;
  readonly door: Pick<SagaDoor, "timer" | "random">;
}

/** What a step or an undo threw. */
interface StepThrow {
  readonly error: unknown;
}

export class SagaAttempt {
  readonly #plan: SagaPlan;
  readonly #attempt: Attempt;
  readonly #log = new SagaLog();
  /** How many steps were finished when this attempt began. */
  readonly #resumedAt: number;

  constructor(plan: SagaPlan, attempt: Attempt) {
    this.#plan = plan;
    this.#attempt = attempt;
    this.#resumedAt = this.#readLog().outcomes.size;
  }

  async run(): Promise<SagaEnd> {
    const { decision, lost } = this.#log;
    // Another process may be able to read it: with the key that it is sealed with, or with a later version.
    if (lost?.reason === "unreadable") throw this.#unreadable(lost.step);
    return decision === undefined ? this.#forward() : this.#backward(decision);
  }

  async #forward(): Promise<SagaEnd> {
    const { steps } = this.#plan;
    const finished = [...this.#log.outcomes.keys()];
    const strange = finished.findIndex((name, index) => name !== steps[index]?.name);
    if (strange !== -1) throw this.#misfit(finished[strange] as string);
    for (const [index, step] of steps.entries()) {
      if (index >= this.#resumedAt) {
        const decision = await this.#runStep(step, index);
        if (decision !== undefined) return this.#backward(decision);
      }
      // A later step, and an attempt after a crash, would need the outcome. To undo is the one end that never does.
      if (this.#log.lost?.step === step.name)
        return this.#backward(await this.#decide(step, notKeepable(step), true));
    }
    return { status: "done", outcomes: this.#decodeOutcomes() };
  }

  /** Returns the decision to undo, if the step failed. */
  async #runStep(step: AnyStep, index: number): Promise<UndoDecision | undefined> {
    // An earlier attempt may have begun the step at which this one resumes, and no later step.
    let mayHaveHappened = this.#attempt.number > 1 && index === this.#resumedAt;
    const failure = await this.#try(step.name, this.#plan.retry, async () => {
      const saidNotDone = new WeakMap<object, unknown>();
      try {
        return await step.run(this.#runContext(step, saidNotDone));
      } catch (thrown) {
        const isNotDone = typeof thrown === "object" && thrown !== null && saidNotDone.has(thrown);
        if (!isNotDone) mayHaveHappened = true;
        throw isNotDone ? (saidNotDone.get(thrown) ?? thrown) : thrown;
      }
    });
    return failure && this.#decide(step, failure.error, mayHaveHappened);
  }

  /** Once the decision is kept, no attempt goes forward again. */
  async #decide(step: AnyStep, error: unknown, mayHaveHappened: boolean): Promise<UndoDecision> {
    await this.#keep(decisionEntry(step.name, mayHaveHappened), () => toKeepable(error));
    return this.#log.decision as UndoDecision;
  }

  async #backward(decision: UndoDecision): Promise<SagaEnd> {
    const { steps, undoRetry } = this.#plan;
    const byName = new Map(steps.map((step) => [step.name as string, step]));
    const names = this.#log.toUndo(decision);
    for (const name of [...names, ...this.#log.undone]) if (!byName.has(name)) throw this.#misfit(name);
    for (const name of names) {
      const step = byName.get(name) as AnyStep;
      if (step.undo === undefined || this.#log.undone.has(name)) continue;
      const failure = await this.#try(undoneEntry(name), undoRetry, async () => {
        // The value of an undo is not kept: nothing reads it.
        await step.undo?.({
          ...this.#context("undo", step),
          outcome: this.#decodeOutcomes()[name],
          error: decision.error,
        });
      });
      if (failure !== undefined) throw await this.#park(step, failure.error);
    }
    return { status: "undone", step: decision.step, error: decision.error };
  }

  /** Notes why the undo is parked. If there is no room for another note, the earlier ones remain. */
  async #park(step: AnyStep, error: unknown): Promise<SagaPaused> {
    const { parkedCount, size, undone } = this.#log;
    const undos = this.#plan.steps.filter(({ undo }) => undo !== undefined).length;
    if (size + undos - undone.size < this.#plan.maxSteps)
      await this.#keep(parkedEntry(step.name, parkedCount + 1), () => toKeepable(error));
    return this.#paused({ status: "parked", step: step.name, error: toKeepable(error) });
  }

  /**
   * Tries until it succeeds and is kept, or the retries are used up. Returns the last error. Throws if that error says
   * nothing about the step, because the attempt was cut off.
   */
  async #try(entry: string, backoff: Backoff, work: () => Promise<unknown>): Promise<StepThrow | undefined> {
    for (let tries = 1; ; tries++) {
      const failure = await this.#tryOnce(entry, work);
      if (failure === undefined) return undefined;
      if (this.#attempt.signal.aborted) throw this.#paused({ status: "lease-lost" });
      if (tries > backoff.max) {
        const { error } = failure;
        const isCutOff = this.#plan.signal?.aborted || isInterruption(error);
        if (isCutOff) throw this.#paused({ status: "unknown", error });
        return failure;
      }
      const { timer, random } = this.#plan.door;
      await pause(timer, backoffMs(backoff, tries, random()), this.#attempt.signal);
    }
  }

  /** Returns what `work` threw. */
  async #tryOnce(entry: string, work: () => Promise<unknown>): Promise<StepThrow | undefined> {
    let failure: StepThrow | undefined;
    const noted = async () => {
      try {
        return await work();
      } catch (error) {
        failure = { error };
        throw error;
      }
    };
    try {
      await this.#keep(entry, noted);
    } catch (thrown) {
      if (failure === undefined) throw thrown;
    }
    return failure;
  }

  /** Adds an entry to the log. Throws what `work` threw, or that the claim is lost. */
  async #keep(entry: string, work: () => unknown): Promise<void> {
    try {
      await this.#attempt.step(entry, work);
    } catch (error) {
      throw isNevertwiceError(error, "lease-lost") ? this.#paused({ status: "lease-lost" }) : error;
    }
    this.#readLog();
  }

  #readLog(): SagaLog {
    return this.#log.read(takeKeptSteps(this.#attempt));
  }

  /** Decoded again for each step, so that no step can change what another one gets. */
  #decodeOutcomes(): Record<string, unknown> {
    const { outcomes } = new SagaLog().read(takeKeptSteps(this.#attempt));
    return Object.fromEntries(outcomes);
  }

  #runContext(step: AnyStep, saidNotDone: WeakMap<object, unknown>): RunContext {
    return {
      ...this.#context("run", step),
      notDone(cause) {
        const error = new Error("the step did nothing", { cause });
        saidNotDone.set(error, cause);
        return error;
      },
    };
  }

  #context(direction: "run" | "undo", { name: step }: AnyStep): Omit<RunContext, "notDone"> {
    const { fence, number, signal, deriveKey } = this.#attempt;
    return {
      fence,
      number,
      signal,
      outcomes: this.#decodeOutcomes(),
      // JSON keeps the three apart whatever characters they have.
      deriveKey: (name = "") => deriveKey(JSON.stringify(["saga", direction, step, name])),
    };
  }

  /** The record is about another list of steps: nothing may be run or undone by this one. */
  #misfit(name: string): SagaPaused {
    const reason = `an earlier attempt finished the step ${JSON.stringify(name)}, which this list of steps does not have at that place. Check what was done, then resolve or forget the key.`;
    return this.#paused({ status: "unknown", reason });
  }

  #unreadable(name: string): SagaPaused {
    const reason = `the outcome of step ${JSON.stringify(name)} cannot be read by this process: its sealing key is missing, or another version of nevertwice wrote it.`;
    return this.#paused({ status: "unknown", reason });
  }

  #paused(why: Pause): SagaPaused {
    return new SagaPaused(why, this.#attempt.fence);
  }
}

function notKeepable({ name }: AnyStep): NevertwiceError {
  return new NevertwiceError(
    "not-kept",
    `step ${JSON.stringify(name)} returned a value that cannot be kept, so a later attempt could not go on. Return plain data, within maxOutcomeBytes for all steps together.`,
  );
}
