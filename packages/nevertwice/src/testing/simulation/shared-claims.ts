/**
 * The claims of one process on their way to its connection, as stores with group commit send them: while earlier claims are
 * being sent, later ones wait, and those that are alike share one.
 */
import type { ClaimAnswer, ClaimRequest, Store } from "../../core/store.ts";
import { createBatch } from "../../stores/batch.ts";
import { CLAIM_SHARING } from "../../stores/claim-sharing.ts";
import type { JudgedClaims } from "./judged-claims.ts";
import type { Process, World } from "./world.ts";

export interface SharedClaimsOptions {
  /** The process that claims. */
  readonly name: string;
  readonly network: Store;
  readonly process: Process;
  readonly world: World;
  readonly judgedClaims: JudgedClaims;
  /** How long it takes to send a group now. */
  readonly groupMs: () => number;
}

export function sharedClaims(options: SharedClaimsOptions): Store {
  const { name, network, process, world, judgedClaims, groupMs } = options;
  // A claim is not sent after its caller has left. What is sent may be for several callers, so no signal of one ends it.
  const sendOne = async ({ signal, ...request }: ClaimRequest): Promise<ClaimAnswer> => {
    if (signal?.aborted) throw new Error("the caller left before its claim was sent");
    return network.claim(request);
  };
  const batch = createBatch<ClaimRequest, ClaimAnswer>({
    async send(requests) {
      const answers = requests.map(sendOne);
      for (const answer of answers) answer.catch(() => {});
      await new Promise<void>((sent) => void process.timer.after(groupMs(), sent));
      return answers;
    },
    alone: sendOne,
    sharing: CLAIM_SHARING,
    maxCalls: 2,
    stuckMs: Number.POSITIVE_INFINITY,
  });
  return {
    ...network,
    usesSignal: network.usesSignal || "aborted",
    async claim(request) {
      const since = world.now();
      const answer = await batch.run(request);
      judgedClaims.answered(name, request, answer, since);
      return answer;
    },
  };
}
