/** How a call ended, in the few words that a metric or a span has for it. */
import { isNativeError } from "node:util/types";
import { isNevertwiceError } from "../core/errors.ts";
import { OTHER } from "./labels.ts";

export interface Ending {
  /** `tryRun`'s status; `failed` if the work threw; `abandoned` if it ended well with nothing to keep. */
  readonly status: string;
  /** The class of the error that the work threw, or the code of the one that `run` throws. */
  readonly errorType?: string | undefined;
  /** Something is wrong here. A duplicate that is refused or handed the original's error is in order. */
  readonly isFailure: boolean;
  readonly isRecorded?: boolean | undefined;
}

const FAILURES: readonly string[] = ["unavailable", "lease-lost"];

export function endingOfResult(result: {
  readonly status: string;
  readonly error?: unknown;
  readonly recorded?: boolean;
}): Ending {
  const { status, error, recorded } = result;
  if (status === "ran" || status === "replayed") return { status, isFailure: false, isRecorded: recorded };
  const errorType = isNevertwiceError(error) ? error.code : status;
  return { status, errorType, isFailure: FAILURES.includes(status) };
}

/** `label` keeps the names of errors few. */
export function endingOfThrow(thrown: unknown, isReplay: boolean, label: (name: string) => string): Ending {
  if (isReplay) return { status: "replayed", isFailure: false };
  // So the surfaces say that there is nothing to keep: an answer of 429, a lock that is free again.
  if (typeof thrown === "object" && thrown !== null && !isError(thrown))
    return { status: "abandoned", isFailure: false };
  return { status: "failed", errorType: label(errorTypeOf(thrown)), isFailure: true };
}

/** From any realm. */
function isError(thrown: unknown): thrown is Error {
  return thrown instanceof Error || isNativeError(thrown);
}

/** A name of a class, not a sentence: the message may say what must not leave the process. */
const NAME = /^[\w$.]{1,64}$/;

function errorTypeOf(thrown: unknown): string {
  if (isNevertwiceError(thrown)) return thrown.code;
  const name = isError(thrown) ? thrown.name : undefined;
  return typeof name === "string" && NAME.test(name) ? name : OTHER;
}
