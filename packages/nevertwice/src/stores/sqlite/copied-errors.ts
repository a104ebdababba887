/** Errors between threads, taken apart: copying one keeps little but its text. */
import { type ErrorCode, isNevertwiceError, NevertwiceError } from "../../core/errors.ts";

export interface Failure {
  readonly message: string;
  readonly code: string | undefined;
  readonly errcode: number | undefined;
  readonly isOurs: boolean;
  readonly cause: Failure | undefined;
}

export function toFailure(error: unknown): Failure {
  const { message, code, errcode, cause } = error as Partial<Record<string, unknown>>;
  const isOurs = isNevertwiceError(error);
  return {
    // Ours begins with its code, which its constructor writes.
    message: isOurs ? error.message.slice(error.code.length + 2) : String(message ?? error),
    code: typeof code === "string" ? code : undefined,
    errcode: typeof errcode === "number" ? errcode : undefined,
    isOurs,
    cause: cause === undefined ? undefined : toFailure(cause),
  };
}

export function fromFailure({ message, code, errcode, isOurs, cause }: Failure): Error {
  const options = cause === undefined ? {} : { cause: fromFailure(cause) };
  if (isOurs) return new NevertwiceError(code as ErrorCode, message, options);
  return Object.assign(new Error(message, options), code && { code }, errcode && { errcode });
}
