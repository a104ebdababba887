/** One protected operation: the guard is outermost, then the fallback, then the policy, then the work. Also its result. */
import { systemTimer } from "../../core/clock.ts";
import type { Engine } from "../../core/engine.ts";
import { isNevertwiceError, type NevertwiceError } from "../../core/errors.ts";
import { notifyObservers } from "../../core/notify.ts";
import type { RunRequest } from "../../core/request.ts";
import { type RunResult, toError } from "../../core/result.ts";
import { createDeadLetter, type DeadLetter, type DeadLetterSource, deliver } from "./dead-letter.ts";
import {
  type AnyWork,
  createPolicyRun,
  type Invoke,
  type PolicyFailure,
  type PolicyRun,
} from "./policy-run.ts";

interface Measures {
  /** Invocations of the work in this call; 0 for a duplicate. */
  readonly attempts: number;
  readonly durationMs: number;
}

/** What the work or the policy threw in the end. */
interface FailedCall extends Measures {
  readonly error: unknown;
  /** The error was remembered from an earlier call. */
  readonly isReplayed: boolean;
  /** The dead letter, if `deadLetters` is given or the call is a replay. */
  readonly entry?: DeadLetter;
  /** Whether `deadLetters` accepted it. */
  readonly isEntryKept?: boolean;
}

/** Why the guard refused a call, as the status of its `RunResult`. */
export type RefusedStatus = Exclude<RunResult<unknown>["status"], "ran" | "replayed">;

/** The result of a protected call: `T` is what the work returns, `F` what a fallback returns. */
export type Protected<T, F = never> =
  | (Measures & {
      /**
       * How the call ended. `ran` and `replayed` are successes; `failed` means that the work or its policy
       * threw.
       */
      readonly outcome: "ran";
      /** The status of the guard's result; undefined if the work failed. */
      readonly status: "ran";
      /** What the caller gets. */
      readonly value: T;
      /** Whether the store confirmed the outcome in time. If not, the guard keeps trying in the background. */
      readonly recorded: boolean;
      /** Whether a fallback made the value. */
      readonly isFallback: false;
    })
  | (Measures & {
      readonly outcome: "replayed";
      readonly status: "replayed";
      readonly value: T;
      readonly isFallback: false;
    })
  /** A fallback answered: the option, or one inside the policy. Its answer is not stored, so the next call runs the work. */
  | (FailedCall & {
      readonly outcome: "fallback";
      readonly status?: undefined;
      readonly value: F;
      readonly isFallback: true;
    })
  | (FailedCall & { readonly outcome: "failed"; readonly status?: undefined; readonly isFallback: false })
  /** The guard refused the call, and `error` is what `protect` throws. */
  | (Measures & {
      readonly outcome: "refused";
      readonly status: RefusedStatus;
      /** The error that `protect` throws. */
      readonly error: NevertwiceError;
      /** On `pending`. */
      readonly leaseLeftMs?: number;
      readonly isFallback: false;
    });

export interface ProtectedOperation {
  readonly request: RunRequest;
  readonly policy: { execute(invoke: Invoke): unknown } | undefined;
  readonly work: AnyWork;
  readonly fallback: ((error: unknown) => unknown) | undefined;
  /** Undefined if no dead letters are needed. */
  readonly letters: DeadLetterSource | undefined;
}

/** An operation, and the guard whose observers are notified. */
interface GuardedOperation extends ProtectedOperation {
  readonly guard: object;
}

/** Rejects only for an invalid request, and with the reason of the caller's signal. */
export async function perform(
  guard: Pick<Engine, "tryRun">,
  given: ProtectedOperation,
): Promise<Protected<unknown, unknown>> {
  const operation: GuardedOperation = { ...given, guard };
  const { request, policy, work } = operation;
  const startedAt = systemTimer.now();
  const policyRun = createPolicyRun(
    (invoke) => (policy === undefined ? invoke() : policy.execute(invoke)),
    work,
  );
  const measures = () => ({ attempts: policyRun.attempts(), durationMs: systemTimer.now() - startedAt });
  const ended = await Promise.race([
    guard.tryRun(request, policyRun.run).then(
      (result) => ({ result }),
      (thrown: unknown) => ({ thrown }),
    ),
    policyRun.givenUp.then((givenUp) => ({ givenUp })),
  ]);
  if ("result" in ended) return { ...toProtected(ended.result), ...measures() };
  const failure = "givenUp" in ended ? ended.givenUp : failureFrom(ended.thrown, operation, policyRun);
  const answer = failure.isRefusal
    ? refusal("lease-lost", failure.error as NevertwiceError)
    : await resolveFailure(failure, operation, policyRun);
  return { ...answer, ...measures() };
}

/** Each variant of a union without the measures. */
type Unmeasured<Variant> = Variant extends unknown ? Omit<Variant, keyof Measures> : never;
type UnmeasuredResult = Unmeasured<Protected<unknown, unknown>>;

/** Converts the result of the guard. */
function toProtected(result: RunResult<unknown>): UnmeasuredResult {
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

interface CallFailure extends PolicyFailure {
  readonly isReplayed?: boolean;
}

/** The failure behind what the guard threw: from the policy, from the work, or remembered from an earlier call. */
function failureFrom(thrown: unknown, operation: GuardedOperation, policyRun: PolicyRun): CallFailure {
  const failure = policyRun.failure();
  // The first caller gets the same error as a replay, if it was remembered.
  if (failure !== undefined) return policyRun.isBlamed() ? { ...failure, error: thrown } : failure;
  const { signal } = operation.request;
  if (signal?.aborted && Object.is(thrown, signal.reason)) {
    // The work continues without its caller. If it fails, a dead letter is still sent.
    void policyRun.concluded.then((late) => late && sendLetter(late, operation, policyRun));
    throw thrown;
  }
  // A remembered error is plain data. An error of the library says that the request is invalid.
  if (isNevertwiceError(thrown)) throw thrown;
  return { error: thrown, own: undefined, isRefusal: false, isReplayed: true };
}

async function resolveFailure(
  failure: CallFailure,
  operation: GuardedOperation,
  policyRun: PolicyRun,
): Promise<UnmeasuredResult> {
  const { fallback } = operation;
  const { error, own, isReplayed = false } = failure;
  const ask = fallback === undefined || own !== undefined ? undefined : async () => fallback(error);
  const [letter, fallen] = await Promise.all([
    sendLetter(failure, operation, policyRun),
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

/** Sends one dead letter per failure: none for a duplicate that gets the remembered error, and none for a lost claim. */
async function sendLetter(
  { error, isReplayed, isRefusal }: CallFailure,
  { request, letters, guard }: GuardedOperation,
  policyRun: PolicyRun,
): Promise<Pick<FailedCall, "entry" | "isEntryKept">> {
  if (letters === undefined || isReplayed || isRefusal) return {};
  const entry = createDeadLetter(request, letters, error, policyRun.attempts());
  if (letters.send === undefined) return { entry };
  const lost = await deliver(letters.send, entry);
  if (lost !== undefined) {
    const { operation, domain, scope, key } = request;
    const event = { kind: "dead-letter-lost", id: entry.id, ...lost } as const;
    notifyObservers(guard, { operation, domain, scope, key }, event);
  }
  return { entry, isEntryKept: lost === undefined };
}
