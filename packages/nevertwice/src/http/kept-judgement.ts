/** Whether a stored response may be replayed, what a retry gets if not, and how large it may be. */
import { type ErrorCode, NevertwiceError } from "../core/errors.ts";
import type { ReplayFault } from "../core/replay-fault.ts";
import { RefusalWithStatus } from "./admission.ts";
import { type KeptResponse, readKept } from "./replay.ts";

/** With `expired: "refuse"`, a response is still replayed this long after its time: the clocks of two machines differ. */
const CLOCK_SKEW_MS = 60_000;

const REFUSALS: Readonly<
  Record<Exclude<ReplayFault, "not-kept">, readonly [code: ErrorCode, message: string]>
> = {
  unreadable: ["not-kept", "the request was carried out before, and is not repeated."],
  expired: ["expired", "this key was used before, and its response is no longer kept."],
};

/** Operators and other programs write to the same records, so a stored value is checked. */
export function judgeKept(value: unknown, now: number): ReplayFault | undefined {
  const kept = readKept(value);
  if (kept === undefined) return "unreadable";
  const [, , body, answersUntil] = kept;
  if (answersUntil !== undefined && now >= answersUntil + CLOCK_SKEW_MS) return "expired";
  return body === null ? "not-kept" : undefined;
}

export function toFaultError(fault: keyof typeof REFUSALS): NevertwiceError {
  return new NevertwiceError(...REFUSALS[fault]);
}

/**
 * The refusal of a retry whose response was stored without its body. A client takes a success with an empty body for the
 * whole answer. A failure keeps its status: the retry of a declined payment must not be told that the payment was made.
 */
export function toUnkeptRefusal([status]: KeptResponse): RefusalWithStatus {
  const error = new NevertwiceError(
    "already-done",
    `the request was answered with ${status} before, and that answer was not kept.`,
  );
  return new RefusalWithStatus(error, status >= 400 ? status : undefined);
}

/** Room for status and headers of a stored response. With more of them, only they are stored. */
const HEAD_BYTES = 65_536;

/** `maxOutcomeBytes` counts the body of a response. A body that is not text takes a third more where it is stored. */
export function encodedLimit(maxBodyBytes: number): number {
  return Math.ceil(maxBodyBytes / 3) * 4 + HEAD_BYTES;
}
