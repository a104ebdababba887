/** Runs work under a claim on behalf of a message: the claim of a node's key, or a settlement. */
import type { Work } from "../core/attempt.ts";
import { isNevertwiceError } from "../core/errors.ts";
import type { RunRequest } from "../core/request.ts";
import type { RunResult } from "../core/result.ts";
import { isClaimInUse, type Message, whileClaiming } from "./message.ts";
import type { NetworkContext } from "./network-context.ts";
import { claimName } from "./settlement.ts";

/** The guard rejects a claim that is pending. */
type ClaimContext = Pick<NetworkContext, "guard" | "timer">;

/** The record of the key says that its work failed, and this delivery did not run it. The cause is the recorded error. */
export class FailedBefore extends Error {}

/**
 * A message from outside does not wait for a pending claim: its sender sends it again. Three kinds of message do wait: one
 * that a node forwarded, one whose caller waits for a reply, and one whose own delivery holds the claim. `free` is called
 * before the wait, so that the node takes other messages meanwhile. Throws what the work throws, or `FailedBefore`.
 */
export async function runClaimed<T>(
  { guard, timer }: ClaimContext,
  message: Message,
  free: () => void,
  request: RunRequest,
  work: Work<T>,
): Promise<RunResult<T>> {
  const claim = claimName(request);
  const isOwnClaim = isClaimInUse(message, claim);
  return whileClaiming(message, claim, async () => {
    const result = await tryRun<T>(guard, request, work);
    const { waiter, isForwarded } = message;
    const mayWait = waiter !== undefined || isForwarded || isOwnClaim;
    if (result.status !== "pending" || !mayWait) return result;
    free();
    const leftMs = waiter && Math.max(0, Math.ceil(waiter.untilMs - timer.now()));
    return tryRun<T>(guard, { ...request, onPending: "wait", waitMs: leftMs ?? guard.policy.waitMs }, work);
  });
}

/** The same without waiting for a pending claim. */
export function runClaimedNow<T>(
  { guard }: ClaimContext,
  message: Message,
  request: RunRequest,
  work: Work<T>,
): Promise<RunResult<T>> {
  return whileClaiming(message, claimName(request), () => tryRun<T>(guard, request, work));
}

async function tryRun<T>(
  guard: ClaimContext["guard"],
  request: RunRequest,
  work: Work<T>,
): Promise<RunResult<T>> {
  let thrown: { readonly error: unknown } | undefined;
  const observed: Work<T> = async (attempt) => {
    try {
      return await work(attempt);
    } catch (error) {
      thrown = { error };
      throw error;
    }
  };
  try {
    return await guard.tryRun<T>(request, observed);
  } catch (error) {
    if (isNevertwiceError(error) || (thrown !== undefined && thrown.error === error)) throw error;
    throw new FailedBefore("an earlier failure is recorded", { cause: error });
  }
}
