/**
 * Ends the hope for a decision: a key that was held for longer than `holdForMs` is refused for good. Its record stays, held,
 * so that its work never runs again, and an operator can still decide it.
 *
 * The age is measured by this process's clock and not by the store's. A clock that is wrong changes which refusal a caller
 * gets, and nothing else.
 */
import { readRecord } from "./claim-round.ts";
import { systemClock } from "./clock.ts";
import { NevertwiceError } from "./errors.ts";
import type { Ports } from "./ports.ts";
import type { Call } from "./request.ts";

/** Call it for a claim that was answered `unknown`. If the record cannot be read, the caller gets that answer. */
export async function isHoldOver(ports: Ports, call: Call): Promise<boolean> {
  const { holdForMs } = call.policy;
  if (holdForMs === undefined) return false;
  const { clock = systemClock } = ports;
  try {
    const record = await readRecord(ports, call);
    return record?.state === "lapsed" && record.hold && clock.now() - record.claimedAt >= holdForMs;
  } catch {
    return false;
  }
}

export function holdOver(): NevertwiceError {
  return new NevertwiceError(
    "expired",
    "the outcome of an earlier attempt is unknown and was not decided in time. Check whether its effect happened, and use a new key for new work.",
  );
}
