/** Calls to the store with one time limit. A call that is not answered is repeated, which is safe since it carries its token. */

import type { Ports } from "../core/ports.ts";
import { unavailable } from "../core/result.ts";
import { callWithRetries, type Deadline } from "../core/store-call.ts";

export type AskStore = <T>(send: (deadline: Deadline) => Promise<T>) => Promise<T>;

/** Throws `unavailable` after `timeoutMs` at the latest, or the error with which the store refused. */
export function createAskStore(ports: Ports, timeoutMs: number): AskStore {
  return async (send) => {
    const result = await callWithRetries(ports, timeoutMs, send);
    if (result.isAnswered) return result.answer;
    throw unavailable(result.error, { waitedMs: result.waitedMs, advice: "Try again with the same token." });
  };
}
