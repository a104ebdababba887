/** How a call ended, as metrics and spans report it. */
import { isNativeError } from "node:util/types";
import { isNevertwiceError } from "../core/errors.ts";
import { OTHER } from "./labels.ts";

export interface CallEnding {
  /** The status of `tryRun`; `failed` if the work threw; `abandoned` if it ended well with nothing to store. */
  readonly status: string;
  /** The class of the error that the work threw, or the code of the error that `run` throws. */
  readonly errorType?: string | undefined;
  /** Whether the call counts as failed. A duplicate that is refused, or that gets the error of the original, does not. */
  readonly isFailure: boolean;
  readonly isRecorded?: boolean | undefined;
}

const FAILURES: readonly string[] = ["unavailable", "lease-lost"];

export function endingFromResult(result: {
  readonly status: string;
  readonly error?: unknown;
  readonly recorded?: boolean;
}): CallEnding {
  const { status, error, recorded } = result;
  if (status === "ran" || status === "replayed") return { status, isFailure: false, isRecorded: recorded };
  const errorType = isNevertwiceError(error) ? error.code : status;
  return { status, errorType, isFailure: FAILURES.includes(status) };
}

/** `label` limits the number of different error names. */
export function endingFromThrow(
  thrown: unknown,
  isReplay: boolean,
  label: (name: string) => string,
): CallEnding {
  if (isReplay) return { status: "replayed", isFailure: false };
  // Surfaces throw an object that is no error if there is nothing to store: a 429 response, a released lock.
  if (typeof thrown === "object" && thrown !== null && !isError(thrown))
    return { status: "abandoned", isFailure: false };
  return { status: "failed", errorType: label(errorTypeFrom(thrown)), isFailure: true };
}

/** Also true for errors of another realm. */
function isError(thrown: unknown): thrown is Error {
  return thrown instanceof Error || isNativeError(thrown);
}

/** The name of a class. Anything else, such as a sentence, might contain data that must not leave the process. */
const NAME = /^[\w$.]{1,64}$/;

function errorTypeFrom(thrown: unknown): string {
  if (isNevertwiceError(thrown)) return thrown.code;
  const name = isError(thrown) ? thrown.name : undefined;
  return typeof name === "string" && NAME.test(name) ? name : OTHER;
}
