/** What passes between the store and its worker thread. Errors are taken apart: copying one keeps little but its text. */
import { type ErrorCode, isNevertwiceError, NevertwiceError } from "../../core/errors.ts";
import type { Answer, Call, Reply } from "./calls.ts";
import type { FileSettings } from "./file.ts";
import type { Gate } from "./gate.ts";

/** What a worker is started with. */
export interface WorkerData {
  readonly settings: FileSettings;
  readonly gate: Gate;
}

/** Handled in the order in which they are sent. */
export type ToWorker =
  | readonly [kind: "run", calls: readonly Call[]]
  | readonly [kind: "watch", ids: readonly string[]]
  | readonly [kind: "unwatch", id: string]
  | readonly [kind: "close"];

/** One `done` or `failed` for each `run`, in their order. */
export type FromWorker =
  | readonly [kind: "done", reply: Reply]
  | readonly [kind: "failed", failure: Failure]
  | readonly [kind: "wake", ids: readonly string[]]
  | readonly [kind: "closed"];

export interface Failure {
  readonly message: string;
  readonly code: string | undefined;
  readonly errcode: number | undefined;
  readonly isOurs: boolean;
  readonly cause: Failure | undefined;
}

export function toFailure(error: unknown): Failure {
  const { message, code, errcode, cause } = error as Partial<Record<string, unknown>>;
  const isOurs = isNevertwiceError(error);
  return {
    // Ours begins with its code, which its constructor writes.
    message: isOurs ? error.message.slice(error.code.length + 2) : String(message ?? error),
    code: typeof code === "string" ? code : undefined,
    errcode: typeof errcode === "number" ? errcode : undefined,
    isOurs,
    cause: cause === undefined ? undefined : toFailure(cause),
  };
}

export function fromFailure({ message, code, errcode, isOurs, cause }: Failure): Error {
  const options = cause === undefined ? {} : { cause: fromFailure(cause) };
  if (isOurs) return new NevertwiceError(code as ErrorCode, message, options);
  return Object.assign(new Error(message, options), code && { code }, errcode && { errcode });
}

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
