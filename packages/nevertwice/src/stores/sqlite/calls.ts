/**
 * The messages between the store and the thread that runs its calls. Calls and answers are flat tuples, because messages
 * between threads are copied, and copying a tuple takes two thirds of the time of copying an object.
 */
import { pendingAnswer } from "../../core/record.ts";
import type {
  AbandonAs,
  ClaimAnswer,
  ClaimRequest,
  KeptStep,
  NamespacePage,
  OverdueReport,
  RecordState,
  StoreRecord,
  UndecidedReport,
} from "../../core/store.ts";
import type { ListFilter, ListPlace } from "../listing.ts";
import type { SqliteSettings } from "./durability.ts";
import { type CopiedError, copyError, restoreError } from "./errors.ts";
import type { ListPart } from "./list-page.ts";
import type { OpenedFile } from "./opened-file.ts";

export type ClaimCall = readonly [
  kind: "claim",
  id: string,
  token: string,
  leaseMs: number,
  retentionMs: number,
  hold: boolean,
  fingerprint: string | undefined,
  takeover: number | undefined,
  namespace: string,
  scope: string,
  operation: string,
  key: string,
];

/** Looks at so many rows after a place, for at most `wanted` records. */
export type ListCall = readonly [
  kind: "list",
  filter: ListFilter,
  wanted: number,
  after: ListPlace | undefined,
  rows: number,
];

export type StoreCall =
  | ClaimCall
  | ListCall
  | readonly [kind: "complete", id: string, token: string, outcome: string, retentionMs: number]
  | readonly [kind: "abandon", id: string, token: string, as: AbandonAs]
  | readonly [kind: "renew", id: string, token: string, leaseMs: number]
  | readonly [kind: "keep-step", id: string, token: string, name: string, outcome: string]
  | readonly [kind: "forget", id: string, fence: number, reopen: boolean]
  | readonly [kind: "read", id: string]
  | readonly [kind: "purge", limit: number]
  | readonly [kind: "undecided", namespace: string, limit: number]
  | readonly [kind: "overdue", limit: number]
  | readonly [kind: "namespaces", limit: number, after: string | undefined]
  | readonly [kind: "settings"];

export type CallAnswer =
  | boolean
  | readonly [
      status: "new",
      fence: number,
      number: number,
      tookOver: boolean,
      steps: readonly KeptStep[] | undefined,
    ]
  | readonly [status: "pending", leaseLeftMs: number, elapsedMs: number | undefined]
  /** The index of the outcome in the reply's `outcomes`. */
  | readonly [status: "completed", outcome: number]
  | readonly [status: "conflict", state: RecordState]
  | readonly [status: "unknown", fence: number]
  | readonly [status: "read", record: StoreRecord | undefined]
  | readonly [status: "purged", removed: number]
  | readonly [status: "listed", part: ListPart]
  | readonly [status: "counted", report: UndecidedReport | OverdueReport]
  | readonly [status: "named", page: NamespacePage]
  | readonly [status: "settings", facts: SqliteSettings]
  | readonly [status: "failed", error: unknown];

/** The answers to one message, in the order of its calls. `undefined`: the call was not run and must be sent again. */
export interface CallReply {
  readonly answers: readonly (CallAnswer | undefined)[];
  /** Each distinct outcome once: thousands of waiters for one large outcome share a single copy. */
  readonly outcomes: readonly string[];
}

export function toClaimCall(request: ClaimRequest): ClaimCall {
  const { id, token, leaseMs, retentionMs, hold, fingerprint, takeover, parts } = request;
  const { namespace, scope, operation, key } = parts;
  return [
    "claim",
    id,
    token,
    leaseMs,
    retentionMs,
    hold,
    fingerprint,
    takeover,
    namespace,
    scope,
    operation,
    key,
  ];
}

export function toClaimRequest(call: ClaimCall): ClaimRequest {
  const [, id, token, leaseMs, retentionMs, hold, fingerprint, takeover, namespace, scope, operation, key] =
    call;
  const parts = { namespace, scope, operation, key };
  return { id, token, leaseMs, retentionMs, hold, fingerprint, takeover, parts };
}

/** Converts an answer to the value that the store's method returns. */
export function toResult(answer: CallAnswer, outcomes: readonly string[]): unknown {
  if (typeof answer === "boolean") return answer;
  switch (answer[0]) {
    case "new": {
      const [status, fence, number, tookOver, steps] = answer;
      const granted = { status, fence, number, tookOver };
      return (steps === undefined ? granted : { ...granted, steps }) satisfies ClaimAnswer;
    }
    case "pending":
      return pendingAnswer(answer[1], answer[2]);
    case "completed":
      return { status: "completed", outcome: outcomes[answer[1]] as string } satisfies ClaimAnswer;
    case "conflict":
      return { status: "conflict", state: answer[1] } satisfies ClaimAnswer;
    case "unknown":
      return { status: "unknown", fence: answer[1] } satisfies ClaimAnswer;
    default:
      return answer[1];
  }
}

/** Messages to the store's worker other than calls. */
export type ToWorker =
  | readonly [kind: "watch", ids: readonly string[]]
  | readonly [kind: "unwatch", id: string];

/** Sent by the worker without a request. */
export type FromWorker =
  /** These watched records are no longer pending. */
  readonly [kind: "wake", ids: readonly string[]] | readonly [kind: "opened", file: OpenedFile];

/** Prepares a reply for another thread by copying its errors. Most replies contain none and are returned unchanged. */
export function copyErrors(reply: CallReply): CallReply {
  return mapErrors(reply, copyError);
}

/** Undoes `copyErrors`. */
export function restoreErrors(reply: CallReply): CallReply {
  return mapErrors(reply, (error) => restoreError(error as CopiedError));
}

export function isFailed(answer: CallAnswer | undefined): answer is readonly ["failed", unknown] {
  return typeof answer === "object" && answer[0] === "failed";
}

function mapErrors(reply: CallReply, change: (error: unknown) => unknown): CallReply {
  if (!reply.answers.some(isFailed)) return reply;
  return {
    answers: reply.answers.map((answer) =>
      isFailed(answer) ? (["failed", change(answer[1])] as const) : answer,
    ),
    outcomes: reply.outcomes,
  };
}

/** The ids that these calls settled: their waiters should claim again. */
export function settledIds(calls: readonly StoreCall[], answers: CallReply["answers"]): ReadonlySet<string> {
  const ids = new Set<string>();
  for (const [index, call] of calls.entries()) {
    if (answers[index] !== true) continue;
    if (call[0] === "complete" || call[0] === "abandon" || call[0] === "forget") ids.add(call[1]);
  }
  return ids;
}
