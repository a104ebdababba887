/** The errors that `attempt.step` throws. */
import { NevertwiceError } from "./errors.ts";
import { type Identity, toErrorSubject } from "./identity.ts";

export type StepErrorCode = "options-invalid" | "lease-lost" | "unknown" | "not-kept" | "unavailable";

/** Errors of steps that a retry of the work cannot cure. */
const failures = new WeakSet<object>();

/** Whether `thrown` says that a finished step cannot be used: releasing the key would only repeat the error. */
export function isStepFailure(thrown: unknown): boolean {
  return typeof thrown === "object" && thrown !== null && failures.has(thrown);
}

export function stepFailure(
  identity: Identity,
  code: "unknown" | "not-kept",
  message: string,
  cause: unknown,
): NevertwiceError {
  const error = stepError(identity, code, message, cause);
  failures.add(error);
  return error;
}

export function stepError(
  identity: Identity,
  code: StepErrorCode,
  message: string,
  cause: unknown,
): NevertwiceError {
  const subject = toErrorSubject(identity);
  return new NevertwiceError(code, message, cause === undefined ? subject : { ...subject, cause });
}

/** The message of an error, for the message of another one. */
export function reasonIn(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
