/** Which claims are sent as one, and what the store would answer each of them. */
import { pendingAnswer } from "../core/record.ts";
import type { ClaimAnswer, ClaimRequest } from "../core/store.ts";
import type { SharingRules } from "./call-sharing.ts";

function hasLeft({ signal }: ClaimRequest): boolean {
  return signal?.aborted === true;
}

/**
 * The second of two claims would find what the first one left. An outcome and a conflict do not depend on the token. After
 * `new`, another token finds the claim of the first. `pending` and `unknown` do depend on it: the caller may itself own
 * the record, by a claim whose answer was lost, so its own claim must be sent.
 */
export const CLAIM_SHARING: SharingRules<ClaimRequest, ClaimAnswer> = {
  // A decision about a lapsed claim is made by one caller.
  idOf: ({ id, takeover }) => (takeover === undefined ? id : undefined),
  isAlike: (a, b) =>
    a.fingerprint === b.fingerprint &&
    a.hold === b.hold &&
    a.leaseMs === b.leaseMs &&
    a.retentionMs === b.retentionMs &&
    a.mayBeLost === b.mayBeLost,
  answerTo(request, sent, answer) {
    if (answer.status === "completed" || answer.status === "conflict") return answer;
    // The same claim, sent once more because its answer was late.
    if (request.token === sent.token) return answer;
    return answer.status === "new" ? pendingAnswer(sent.leaseMs, 0) : undefined;
  },
  hasLeft,
  sentFor(request, all) {
    const signal = {
      get aborted() {
        return all.every(hasLeft);
      },
    };
    return { ...request, signal: signal as Pick<AbortSignal, "aborted"> as AbortSignal };
  },
};
