/** The ways in which a message can end in a node. Each function reports the event and returns the outcome. */
import { isNevertwiceError } from "../core/errors.ts";
import type { RunResult } from "../core/result.ts";
import { failureReason } from "./failure-reason.ts";
import { FailedBefore } from "./message-claim.ts";
import { DUPLICATE, type Failure, type MessageOutcome, toOutcome } from "./message-outcome.ts";
import type { NetworkContext } from "./network-context.ts";
import type { NodeOutcome } from "./node-outcome.ts";
import type { EventPlace } from "./pipeline-event.ts";
import { TriesFailed } from "./tries.ts";

export type NodeFailure = Omit<Failure, "network" | "node">;

export interface DispatchProblem {
  readonly reason: string;
  readonly error: unknown;
  /** The out-port, if it is one port's problem. */
  readonly port?: string;
  /** Default: `reject`. */
  readonly verdict?: Failure["verdict"];
}

export interface MessageEndings {
  failed(place: EventPlace, failure: NodeFailure): MessageOutcome;
  /** What the node, its claim or a settlement threw. */
  threw(place: EventPlace, error: unknown): MessageOutcome;
  duplicate(place: EventPlace, reply?: NodeOutcome["reply"]): MessageOutcome;
  /** The node is completed, but what it emitted cannot be sent. The node does not run again. */
  dispatchFailed(place: EventPlace, problem: DispatchProblem): MessageOutcome;
  /** Nothing was done: another attempt holds the key, or the store could not say. The sender sends the message again. */
  sendAgain(place: EventPlace, result: RunResult<unknown>): MessageOutcome;
}

export function createMessageEndings(
  { network, report }: Pick<NetworkContext, "network" | "report">,
  node: string,
): MessageEndings {
  const ended = (failure: NodeFailure) => toOutcome({ network, node, ...failure });

  function failed(place: EventPlace, failure: NodeFailure): MessageOutcome {
    report?.({ ...place, ...failure, kind: "failed" });
    return ended(failure);
  }

  return {
    failed,
    threw(place, error) {
      if (error instanceof TriesFailed) return failed(place, error.failure);
      // An operator or another program recorded the failure: it is final until an operator reopens the key.
      if (error instanceof FailedBefore)
        return failed(place, {
          verdict: "reject",
          phase: "claim",
          attempt: 0,
          reason: "failed-before",
          error: error.cause,
        });
      // The guard refused the request, for example because the key is too long.
      if (isNevertwiceError(error)) return failed(place, invalidMessage(error.code, error));
      const reason = failureReason(error);
      return failed(place, { verdict: "later", phase: "execute", attempt: 0, reason, error });
    },
    duplicate(place, reply) {
      report?.({ ...place, kind: "duplicate" });
      return reply === undefined ? DUPLICATE : { ...DUPLICATE, reply };
    },
    dispatchFailed(place, { verdict = "reject", port, reason, error }) {
      report?.({ ...place, kind: "dispatch-failed", ...(port === undefined ? {} : { port }), reason, error });
      return ended({ verdict, phase: "dispatch", attempt: 0, reason, error });
    },
    sendAgain(place, result) {
      const error = "error" in result ? result.error : undefined;
      const reason = result.status;
      report?.({ ...place, kind: "later", reason, error });
      const afterMs = result.status === "pending" ? { afterMs: result.leaseLeftMs } : undefined;
      return ended({ verdict: "later", phase: "claim", attempt: 0, reason, ...afterMs, error });
    },
  };
}

/** A message that no further delivery can make valid. */
export function invalidMessage(reason: string, error: unknown): NodeFailure {
  return { verdict: "reject", phase: "validate", attempt: 0, reason, error };
}
