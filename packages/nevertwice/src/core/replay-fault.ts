/**
 * Why a duplicate does not get the outcome that is stored for its key, so that observers are told what it got. A door that
 * stores values of its own form judges them itself.
 */
import { harmless } from "./observer.ts";
import type { Outcome } from "./outcome.ts";

/**
 * `not-kept`: the work is done, but what it returned was not stored. `unreadable`: what is stored is not what this door or
 * `decode` can read. `expired`: the door no longer replays it.
 */
export type ReplayFault = "not-kept" | "unreadable" | "expired";

/** Undefined if the duplicate gets the stored value. */
export type JudgeReplay = (value: unknown) => ReplayFault | undefined;

/** `shown` is the outcome after `decode`. */
export function replayFault(shown: Outcome, judge: JudgeReplay | undefined): ReplayFault | undefined {
  if (shown.kind === "thrown") return undefined;
  if (shown.kind === "not-kept") return shown.reason === "unreadable" ? "unreadable" : "not-kept";
  return judge && (harmless(() => judge(shown.value)) as ReplayFault | undefined);
}
