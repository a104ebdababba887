/**
 * The log of a saga: the kept steps of its record, in order. A saga that succeeds has only its steps. One that fails has the
 * decision after them, and then what is undone:
 *
 *   reserve · charge · saga: undo from ship · saga: undid ship · saga: parked 1: charge · saga: undid charge · saga: undid reserve
 *
 * Everything that matters is in the names, so the log is complete even if there is no room left for an outcome.
 */
import { NevertwiceError } from "../core/errors.ts";
import type { FinishedStep } from "../core/kept-steps.ts";
import { decodeOutcome, encodeOutcome, type NotKeptReason } from "../core/outcome.ts";

/** Users' steps cannot have such a name. */
export const RESERVED_PREFIX = "saga: ";

const PREFIXES = {
  /** The step threw, so it may have happened, and it is undone too. */
  from: `${RESERVED_PREFIX}undo from `,
  /** The step did nothing. */
  before: `${RESERVED_PREFIX}undo before `,
  undid: `${RESERVED_PREFIX}undid `,
} as const;

const PARKED = /^saga: parked (\d+): (.*)$/s;

/** As long as any prefix can be. */
export const LONGEST_PREFIX = `${RESERVED_PREFIX}parked 999999: `;

export const undoneEntry = (step: string): string => PREFIXES.undid + step;
export const parkedEntry = (step: string, count: number): string =>
  `${RESERVED_PREFIX}parked ${count}: ${step}`;
export const decisionEntry = (step: string, mayHaveHappened: boolean): string =>
  (mayHaveHappened ? PREFIXES.from : PREFIXES.before) + step;

/** The decision to undo. It is in the log before anything is undone. */
export interface UndoDecision {
  readonly step: string;
  readonly mayHaveHappened: boolean;
  readonly error: unknown;
}

export class SagaLog {
  /** The finished steps in order. The outcome of one that is in `lost` is undefined. */
  readonly outcomes = new Map<string, unknown>();
  readonly undone = new Set<string>();
  /** The first finished step without an outcome, and why. */
  lost: { readonly step: string; readonly reason: NotKeptReason } | undefined;
  decision: UndoDecision | undefined;
  /** The last undo that kept failing. */
  parked: { readonly step: string; readonly error: unknown } | undefined;
  parkedCount = 0;
  size = 0;

  /** Reads what was added since the last call. */
  read(kept: readonly FinishedStep[]): this {
    for (const step of kept.slice(this.size)) this.#add(step);
    this.size = kept.length;
    return this;
  }

  #add({ name, outcome }: FinishedStep): void {
    const decoded = decodeOutcome(outcome);
    const value = decoded.kind === "value" ? decoded.value : undefined;
    const error = decoded.kind === "value" ? decoded.value : lostError();
    const [, count, parkedStep] = PARKED.exec(name) ?? [];
    if (name.startsWith(PREFIXES.undid)) this.undone.add(name.slice(PREFIXES.undid.length));
    else if (name.startsWith(PREFIXES.from)) this.#decide(PREFIXES.from, name, error);
    else if (name.startsWith(PREFIXES.before)) this.#decide(PREFIXES.before, name, error);
    else if (parkedStep !== undefined) {
      this.parked = { step: parkedStep, error };
      this.parkedCount = Number(count);
    } else {
      this.outcomes.set(name, value);
      const reason = decoded.kind === "not-kept" ? decoded.reason : "unreadable";
      if (decoded.kind !== "value") this.lost ??= { step: name, reason };
    }
  }

  #decide(prefix: string, name: string, error: unknown): void {
    // The first decision stands.
    this.decision ??= {
      step: name.slice(prefix.length),
      mayHaveHappened: prefix === PREFIXES.from,
      error,
    };
  }

  /** The steps to undo, the last one first. */
  toUndo({ step, mayHaveHappened }: UndoDecision): readonly string[] {
    const finished = [...this.outcomes.keys()].reverse();
    const isInFlight = mayHaveHappened && !this.outcomes.has(step);
    return isInFlight ? [step, ...finished] : finished;
  }
}

function lostError(): NevertwiceError {
  return new NevertwiceError("not-kept", "the error was not kept: the steps have reached maxOutcomeBytes.");
}

/** What a log keeps of an error. The error of a decision is in the outcome of the saga once more. */
const MAX_ERROR_BYTES = 4_096;
const MAX_MESSAGE_CHARACTERS = 1_000;

/** The error as it can be kept: without a cause that is too large, or as its message alone. */
export function toKeepable(error: unknown): unknown {
  const encoded = encodeOutcome("thrown", error, MAX_ERROR_BYTES);
  return encoded.kept ? encoded.content : new Error(messageIn(error).slice(0, MAX_MESSAGE_CHARACTERS));
}

function messageIn(error: unknown): string {
  if (error instanceof Error) return String(error.message);
  return typeof error === "object" ? "the step threw an object" : `the step threw ${String(error)}`;
}
