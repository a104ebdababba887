/**
 * What the store is asked and what it answers, as flat tuples: between threads they are copied, and tuples are copied in
 * two thirds of the time that objects take.
 */
import type { AbandonAs, ClaimAnswer, ClaimRequest, RecordState, StoreRecord } from "../../core/store.ts";
import type { Facts } from "./settings.ts";

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

export type ListCall = readonly [
  kind: "list",
  namespace: string,
  scope: string | undefined,
  state: RecordState | undefined,
  limit: number,
  after: string | undefined,
];

export type Call =
  | ClaimCall
  | ListCall
  | readonly [kind: "complete", id: string, token: string, outcome: string, retentionMs: number]
  | readonly [kind: "abandon", id: string, token: string, as: AbandonAs]
  | readonly [kind: "renew", id: string, token: string, leaseMs: number]
  | readonly [kind: "forget", id: string, fence: number, reopen: boolean]
  | readonly [kind: "read", id: string]
  | readonly [kind: "purge", limit: number]
  | readonly [kind: "settings"];

export type Answer =
  | boolean
  | readonly [status: "new", fence: number, number: number, tookOver: boolean]
  | readonly [status: "pending", leaseLeftMs: number]
  /** Where the outcome is among the reply's outcomes. */
  | readonly [status: "completed", outcome: number]
  | readonly [status: "conflict", state: RecordState]
  | readonly [status: "unknown", fence: number]
  | readonly [status: "read", record: StoreRecord | undefined]
  | readonly [status: "purged", removed: number]
  | readonly [status: "listed", records: readonly StoreRecord[], next: string | undefined]
  | readonly [status: "settings", facts: Facts]
  | readonly [status: "failed", error: unknown];

/** The answers to one message, in the order of its calls; `undefined`: not done, ask again. */
export interface Reply {
  readonly answers: readonly (Answer | undefined)[];
  /** Each once, however many answers have it: thousands of waiters for a large outcome get one copy between them. */
  readonly outcomes: readonly string[];
}

export function fromClaim(request: ClaimRequest): ClaimCall {
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

export function toClaim(call: ClaimCall): ClaimRequest {
  const [, id, token, leaseMs, retentionMs, hold, fingerprint, takeover, namespace, scope, operation, key] =
    call;
  const parts = { namespace, scope, operation, key };
  return { id, token, leaseMs, retentionMs, hold, fingerprint, takeover, parts };
}

/** An answer as the caller is given it. */
export function fromAnswer(answer: Answer, outcomes: readonly string[]): unknown {
  if (typeof answer === "boolean") return answer;
  switch (answer[0]) {
    case "new":
      return {
        status: "new",
        fence: answer[1],
        number: answer[2],
        tookOver: answer[3],
      } satisfies ClaimAnswer;
    case "pending":
      return { status: "pending", leaseLeftMs: answer[1] } satisfies ClaimAnswer;
    case "completed":
      return { status: "completed", outcome: outcomes[answer[1]] as string } satisfies ClaimAnswer;
    case "conflict":
      return { status: "conflict", state: answer[1] } satisfies ClaimAnswer;
    case "unknown":
      return { status: "unknown", fence: answer[1] } satisfies ClaimAnswer;
    case "listed":
      return { records: answer[1], next: answer[2] };
    default:
      return answer[1];
  }
}
