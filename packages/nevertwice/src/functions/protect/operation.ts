/** One operation: the guard outside, then the fallback, then the policy, then the work; and what became of it. */
import { systemTimer } from "../../core/clock.ts";
import type { Engine } from "../../core/engine.ts";
import { isNevertwiceError, NevertwiceError } from "../../core/errors.ts";
import type { RunRequest } from "../../core/request.ts";
import { type RunResult, toError } from "../../core/result.ts";
import { type AnyWork, type Course, createCourse, type Failure, type Invoke } from "./course.ts";
import { type DeadLetter, deliver, type Letters, letterOf } from "./dead-letter.ts";

interface Measures {
  /** Invocations of the work in this call; 0 for a duplicate. */
  readonly attempts: number;
  readonly durationMs: number;
}

/** What the work or the policy threw in the end. */
interface Failed extends Measures {
  readonly error: unknown;
  /** The error is one that an earlier call remembered. */
  readonly isReplayed: boolean;
  /** The dead letter, if they were asked for. */
  readonly entry?: DeadLetter;
  /** Whether `deadLetters` took it. */
  readonly isEntryKept?: boolean;
}

export type RefusedStatus = Exclude<RunResult<unknown>["status"], "ran" | "replayed">;

/** What became of a protected call: `T` is what the work returns, `F` what a fallback answers. */
export type Protected<T, F = never> =
  | (Measures & {
      readonly outcome: "ran";
      readonly status: "ran";
      readonly value: T;
      /** Whether the store confirmed the outcome in time; if not, the guard goes on trying. */
      readonly recorded: boolean;
      readonly isFallback: false;
    })
  | (Measures & {
      readonly outcome: "replayed";
      readonly status: "replayed";
      readonly value: T;
      readonly isFallback: false;
    })
  /** A fallback answered, the option or one inside the policy. Nothing is kept of its answer: the next call runs the work. */
  | (Failed & {
      readonly outcome: "fallback";
      readonly status?: undefined;
      readonly value: F;
      readonly isFallback: true;
    })
  | (Failed & { readonly outcome: "failed"; readonly status?: undefined; readonly isFallback: false })
  /** The guard said no, and `error` is what `protect` throws for it. */
  | (Measures & {
      readonly outcome: "refused";
      readonly status: RefusedStatus;
      readonly error: NevertwiceError;
      /** On `pending`. */
      readonly leaseLeftMs?: number;
      readonly isFallback: false;
    });

export interface Operation {
  readonly request: RunRequest;
  readonly policy: { execute(invoke: Invoke): unknown } | undefined;
  readonly work: AnyWork;
  readonly fallback: ((error: unknown) => unknown) | undefined;
  /** Undefined if nobody wants any. */
  readonly letters: Letters | undefined;
}

/** Rejects only for a request that is itself wrong, and with the reason of the caller's signal. */
export async function perform(
  guard: Pick<Engine, "tryRun">,
  operation: Operation,
): Promise<Protected<unknown, unknown>> {
  const { request, policy, work } = operation;
  if (typeof guard?.tryRun !== "function")
    throw new NevertwiceError("options-invalid", "the guard is missing: protect(guard, options, work).");
  const startedAt = systemTimer.now();
  const course = createCourse((invoke) => (policy === undefined ? invoke() : policy.execute(invoke)), work);
  const measures = () => ({ attempts: course.attempts(), durationMs: systemTimer.now() - startedAt });
  const ended = await Promise.race([
    guard.tryRun(request, course.lead).then(
      (result) => ({ result }),
      (thrown: unknown) => ({ thrown }),
    ),
    course.givenUp.then((givenUp) => ({ givenUp })),
  ]);
  if ("result" in ended) return { ...answerTo(ended.result), ...measures() };
  const failure = "givenUp" in ended ? ended.givenUp : failureBehind(ended.thrown, operation, course);
  const answer = failure.isRefusal
    ? refusal("lease-lost", failure.error as NevertwiceError)
    : await answerFor(failure, operation, course);
  return { ...answer, ...measures() };
}

/** A union without the members that every one of its variants has. */
type Unmeasured<Variant> = Variant extends unknown ? Omit<Variant, keyof Measures> : never;
type Told = Unmeasured<Protected<unknown, unknown>>;

/** What the guard said. */
function answerTo(result: RunResult<unknown>): Told {
  switch (result.status) {
    case "ran": {
      const { value, recorded } = result;
      return { outcome: "ran", status: "ran", value, recorded, isFallback: false };
    }
    case "replayed":
      return { outcome: "replayed", status: "replayed", value: result.value, isFallback: false };
    case "pending":
      return { ...refusal("pending", toError(result)), leaseLeftMs: result.leaseLeftMs };
    default:
      return refusal(result.status, toError(result));
  }
}

function refusal(status: RefusedStatus, error: NevertwiceError) {
  return { outcome: "refused", status, error, isFallback: false } as const;
}

interface Fault extends Failure {
  readonly isReplayed?: boolean;
}

/** What the guard threw: what the policy or the work threw, or the error that an earlier call remembered. */
function failureBehind(thrown: unknown, operation: Operation, course: Course): Fault {
  const failure = course.failure();
  // What the first caller gets is what a replay gives, if there is one.
  if (failure !== undefined) return course.isBlamed() ? { ...failure, error: thrown } : failure;
  const { signal } = operation.request;
  if (signal?.aborted && Object.is(thrown, signal.reason)) {
    // The work goes on without its caller; if it fails, there is still a letter.
    void course.concluded.then((late) => late && letterFor(late, operation, course));
    throw thrown;
  }
  // A remembered error is plain data; one of our own says that the request is wrong.
  if (isNevertwiceError(thrown)) throw thrown;
  return { error: thrown, own: undefined, isRefusal: false, isReplayed: true };
}

async function answerFor(failure: Fault, operation: Operation, course: Course): Promise<Told> {
  const { fallback } = operation;
  const { error, own, isReplayed = false } = failure;
  const ask = fallback === undefined || own !== undefined ? undefined : async () => fallback(error);
  const [letter, fallen] = await Promise.all([
    letterFor(failure, operation, course),
    ask?.().then(
      (value) => ({ value }),
      (thrown: unknown) => ({ thrown }),
    ) ?? own,
  ]);
  if (fallen === undefined) return { outcome: "failed", error, isReplayed, ...letter, isFallback: false };
  if ("thrown" in fallen)
    return { outcome: "failed", error: fallen.thrown, isReplayed, ...letter, isFallback: false };
  return { outcome: "fallback", value: fallen.value, error, isReplayed, ...letter, isFallback: true };
}

/** A failure has one letter: none is written for a duplicate that is told of it, nor for a claim that was lost. */
async function letterFor(
  { error, isReplayed, isRefusal }: Fault,
  { request, letters }: Operation,
  course: Course,
): Promise<Pick<Failed, "entry" | "isEntryKept">> {
  if (letters === undefined || isReplayed || isRefusal) return {};
  const entry = letterOf(request, letters, error, course.attempts());
  if (letters.send === undefined) return { entry };
  return { entry, isEntryKept: await deliver(letters.send, entry) };
}
