/** What passes between the store and its worker thread. */
import type { Answer, Reply } from "./calls.ts";
import { type Failure, fromFailure, toFailure } from "./copied-errors.ts";

/** What the store's worker is told besides the calls that it runs. */
export type ToWorker =
  | readonly [kind: "watch", ids: readonly string[]]
  | readonly [kind: "unwatch", id: string];

/** What it tells without being asked: records that somebody waits for are no longer pending. */
export type FromWorker = readonly [kind: "wake", ids: readonly string[]];

/** The reply, its errors taken apart. Few replies have any, so the others are handed on as they are. */
export function withFailures(reply: Reply): Reply {
  return reply.answers.some(isFailed) ? mapFailed(reply, toFailure) : reply;
}

export function withErrors(reply: Reply): Reply {
  return reply.answers.some(isFailed)
    ? mapFailed(reply, (failure) => fromFailure(failure as Failure))
    : reply;
}

export function isFailed(answer: Answer | undefined): answer is readonly ["failed", unknown] {
  return typeof answer === "object" && answer[0] === "failed";
}

function mapFailed({ answers, outcomes }: Reply, change: (error: unknown) => unknown): Reply {
  return {
    answers: answers.map((answer) => (isFailed(answer) ? (["failed", change(answer[1])] as const) : answer)),
    outcomes,
  };
}
