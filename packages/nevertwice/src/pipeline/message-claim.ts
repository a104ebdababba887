/** Runs work under a claim on behalf of a message: the claim of a node's key, or a settlement. */
import type { Work } from "../core/attempt.ts";
import { isNevertwiceError } from "../core/errors.ts";
import type { RunRequest } from "../core/request.ts";
import type { RunResult } from "../core/result.ts";
import type { ClaimName } from "./claims-in-use.ts";
import { beginClaim, endClaim, isClaimInUse, type Message } from "./message.ts";
import type { NetworkContext } from "./network-context.ts";

/** The guard rejects a claim that is pending. */
type ClaimContext = Pick<NetworkContext, "guard" | "timer">;

export type NamedRequest = RunRequest & ClaimName;

/** The record of the key says that its work failed, and this delivery did not run it. The cause is the recorded error. */
export class FailedBefore extends Error {}

export interface ClaimedWork<T> {
  readonly run: Work<T>;
  /** What `run` threw. It tells an error of this run from one that is recorded for the key. */
  readonly thrown: { readonly error: unknown } | undefined;
}

/**
 * A message from outside does not wait for a pending claim: its sender sends it again. Three kinds of message do wait: one
 * that a node forwarded, one whose caller waits for a reply, and one whose own delivery holds the claim. `free` is called
 * before the wait, so that the node takes other messages meanwhile. Throws what the work throws, or `FailedBefore`.
 */
export async function runClaimed<T>(
  { guard, timer }: ClaimContext,
  message: Message,
  free: () => void,
  request: NamedRequest,
  work: ClaimedWork<T>,
): Promise<RunResult<T>> {
  const isOwnClaim = isClaimInUse(message, request);
  beginClaim(message, request);
  try {
    const result = await guard.tryRun<T>(request, work.run);
    const { waiter, isForwarded } = message;
    const mayWait = waiter !== undefined || isForwarded || isOwnClaim;
    if (result.status !== "pending" || !mayWait) return result;
    free();
    const leftMs = waiter && Math.max(0, Math.ceil(waiter.untilMs - timer.now()));
    const waiting = { ...request, onPending: "wait", waitMs: leftMs ?? guard.policy.waitMs } as const;
    return await guard.tryRun<T>(waiting, work.run);
  } catch (error) {
    throw toThrown(error, work);
  } finally {
    endClaim(message, request);
  }
}

/** The same without waiting for a pending claim. */
export async function runClaimedNow<T>(
  { guard }: ClaimContext,
  message: Message,
  request: NamedRequest,
  work: ClaimedWork<T>,
): Promise<RunResult<T>> {
  beginClaim(message, request);
  try {
    return await guard.tryRun<T>(request, work.run);
  } catch (error) {
    throw toThrown(error, work);
  } finally {
    endClaim(message, request);
  }
}

function toThrown(error: unknown, { thrown }: ClaimedWork<unknown>): unknown {
  if (isNevertwiceError(error) || (thrown !== undefined && thrown.error === error)) return error;
  return new FailedBefore("an earlier failure is recorded", { cause: error });
}
