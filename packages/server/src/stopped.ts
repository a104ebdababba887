/**
 * The answers that stopped a duplicate: the stored outcome, a refusal because the work is done, a refusal because it is
 * running, and a refusal because the request differs. A duplicate that waited gets one of them in the end, so no wait is counted.
 */
export const STOPPED = ["replay", "alreadyDone", "pending", "conflict"] as const;
