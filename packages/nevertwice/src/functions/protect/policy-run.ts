/**
 * Runs one operation through its policy, under its claim. The policy may call the work as often as it likes, and every
 * invocation is tracked: the key is completed with what the work returned, or given up when no invocation runs any more.
 *
 *   claim ── invocation 1 ──────────────────────────────────▶ returns ── complete
 *               └─ the policy's timeout ── the caller is answered
 */
import { type Attempt, restartSteps } from "../../core/attempt.ts";
import { isNevertwiceError, NevertwiceError } from "../../core/errors.ts";

/** Calls the work with what the policy passes to it. */
export type Invoke = (execution?: unknown) => Promise<unknown>;

export type AnyWork = (attempt: Attempt, execution: unknown) => unknown;

/** Why the caller does not get what the work returned. */
export interface PolicyFailure {
  /** What the policy threw in the end; if a fallback inside the policy answered, the error behind that answer. */
  readonly error: unknown;
  /** The answer of a fallback inside the policy. */
  readonly own: { readonly value: unknown } | undefined;
  /** The claim was lost, so the policy was not allowed to run the work again. */
  readonly isRefusal: boolean;
}

export interface PolicyRun {
  /** The work for the guard to run. */
  run(attempt: Attempt): Promise<unknown>;
  /** Invocations of the work so far. */
  attempts(): number;
  /** Set once the policy has failed. */
  failure(): PolicyFailure | undefined;
  /** Whether the key was given up with the same error that the caller gets. */
  isBlamed(): boolean;
  /** Resolves if the policy has failed while the work still runs: the caller must not wait for the work. */
  readonly givenUp: Promise<PolicyFailure>;
  /** Resolves when the policy has ended. */
  readonly concluded: Promise<PolicyFailure | undefined>;
}

type InvocationEnd =
  /** `isMissed`: the policy had given this invocation up, so it may not know that it returned. */
  | { readonly kind: "returned"; readonly value: unknown; readonly isMissed: boolean }
  | { readonly kind: "threw"; readonly thrown: unknown }
  | { readonly kind: "not-done"; readonly thrown: unknown };

type PolicyAnswer = { readonly value: unknown } | { readonly thrown: unknown };

export function createPolicyRun(execute: (invoke: Invoke) => unknown, work: AnyWork): PolicyRun {
  const ends: InvocationEnd[] = [];
  const notDone = new WeakSet<object>();
  const refusals = new WeakSet<object>();
  const { promise: givenUp, resolve: giveUp } = deferred<PolicyFailure>();
  const { promise: concluded, resolve: conclude } = deferred<PolicyFailure | undefined>();
  const idle = deferred<void>();
  let attempts = 0;
  let running = 0;
  let isOver = false;
  let failure: PolicyFailure | undefined;
  let isBlamed = false;

  async function invocation(attempt: Attempt, execution: unknown): Promise<unknown> {
    if (isOver || attempt.signal.aborted) throw refused();
    attempts++;
    running++;
    try {
      const value = await work(invocationAttempt(attempt, execution), execution);
      ends.push({ kind: "returned", value, isMissed: isOver || running > 1 || hasAborted(execution) });
      return value;
    } catch (thrown) {
      const isNotDone = isObject(thrown) && notDone.has(thrown);
      // The policy sees the cause, as if the work had thrown it.
      const cause = isNotDone ? ((thrown as Error).cause ?? thrown) : thrown;
      ends.push({ kind: isNotDone ? "not-done" : "threw", thrown: cause });
      throw cause;
    } finally {
      running--;
      if (isOver && running === 0) idle.resolve();
    }
  }

  function refused(): NevertwiceError {
    const error = new NevertwiceError(
      "lease-lost",
      isOver
        ? "the policy called the work after its call had ended; it was not run."
        : "the claim was lost, so the policy may not run the work again.",
    );
    refusals.add(error);
    return error;
  }

  /** The attempt object for one invocation. */
  function invocationAttempt(attempt: Attempt, execution: unknown): Attempt {
    let signal: AbortSignal | undefined;
    const noteRefusal = (error: unknown) => {
      if (isNevertwiceError(error, "lease-lost")) refusals.add(error);
    };
    restartSteps(attempt);
    return {
      fence: attempt.fence,
      number: attempt.number,
      get signal() {
        signal ??= invocationSignal(attempt, execution);
        return signal;
      },
      renew: () => attempt.renew(),
      deriveKey(name) {
        try {
          return attempt.deriveKey(name);
        } catch (error) {
          noteRefusal(error);
          throw error;
        }
      },
      step: ((...args: Parameters<Attempt["step"]>) => {
        const outcome = attempt.step(...args);
        outcome.catch(noteRefusal);
        return outcome;
      }) as Attempt["step"],
      enqueue: (topic, body, options) => attempt.enqueue(topic, body, options),
      keepFor: (ms) => attempt.keepFor(ms),
      notDone(cause) {
        const error = attempt.notDone(cause);
        notDone.add(error);
        return error;
      },
    };
  }

  /** What the work returned, if the policy answered with it, or if the policy had given that invocation up. */
  function returned(answer: PolicyAnswer): { readonly value: unknown } | undefined {
    const values = ends.filter((end) => end.kind === "returned");
    if ("value" in answer && values.some(({ value }) => Object.is(value, answer.value))) return answer;
    return values.findLast(({ isMissed }) => isMissed);
  }

  function toFailure(answer: PolicyAnswer): PolicyFailure {
    if ("value" in answer) {
      const last = ends.findLast((end) => end.kind !== "returned");
      const error = last === undefined ? answeredAlone(attempts, ends.length) : last.thrown;
      return { error, own: answer, isRefusal: false };
    }
    const { thrown } = answer;
    return { error: thrown, own: undefined, isRefusal: isObject(thrown) && refusals.has(thrown) };
  }

  /** The error that `onFailure` judges. An invocation that may have had an effect counts, whatever happened after it. */
  function blame(attempt: Attempt, { error }: PolicyFailure): unknown {
    const suspect = ends.findLast((end) => end.kind === "threw");
    const mayBeDone = suspect !== undefined || ends.some((end) => end.kind === "returned");
    const blamed = suspect === undefined ? error : suspect.thrown;
    isBlamed = Object.is(blamed, error);
    return mayBeDone ? blamed : attempt.notDone(error);
  }

  return {
    async run(attempt) {
      const answer = await runPolicy(execute, (execution) => {
        const invoked = invocation(attempt, execution);
        // The policy may drop this promise, and its rejection must not become an unhandled one.
        invoked.catch(() => {});
        return invoked;
      });
      isOver = true;
      const early = returned(answer);
      failure = early === undefined ? toFailure(answer) : undefined;
      conclude(failure);
      if (failure === undefined) return early?.value;
      if (running > 0) {
        giveUp(failure);
        await idle.promise;
        const late = returned(answer);
        if (late !== undefined) return late.value;
      }
      throw blame(attempt, failure);
    },
    attempts: () => attempts,
    failure: () => failure,
    isBlamed: () => isBlamed,
    givenUp,
    concluded,
  };
}

async function runPolicy(execute: (invoke: Invoke) => unknown, invoke: Invoke): Promise<PolicyAnswer> {
  try {
    return { value: await execute(invoke) };
  } catch (thrown) {
    return { thrown };
  }
}

function answeredAlone(begun: number, ended: number): Error {
  if (begun === 0) return new Error("the policy answered without running the work");
  if (ended === 0) return new Error("the policy answered while the work still ran");
  return new Error("the policy did not take what the work returned");
}

/** Fires when the claim is lost, or when the policy cancels this invocation. */
function invocationSignal(attempt: Attempt, execution: unknown): AbortSignal {
  const own = policySignal(execution);
  return own === undefined ? attempt.signal : AbortSignal.any([attempt.signal, own]);
}

function hasAborted(execution: unknown): boolean {
  return policySignal(execution)?.aborted === true;
}

function policySignal(execution: unknown): AbortSignal | undefined {
  const signal = isObject(execution) && "signal" in execution ? execution.signal : undefined;
  return signal instanceof AbortSignal ? signal : undefined;
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

function deferred<T>(): { readonly promise: Promise<T>; readonly resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
