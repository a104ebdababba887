/** The steps of the store: the arguments of each script in redis-lua.ts, and what its replies mean. */
import { stepLine, stepsIn } from "../../core/kept-steps.ts";
import { pendingAnswer } from "../../core/record.ts";
import type {
  AbandonRequest,
  ClaimAnswer,
  ClaimRequest,
  CompleteRequest,
  ForgetRequest,
  KeepStepRequest,
  RecordState,
  RenewRequest,
} from "../../core/store.ts";
import { scopeTurn } from "../call-queue.ts";
import { CLAIM_SHARING } from "../claim-sharing.ts";
import {
  ABANDON,
  CLAIM,
  CLAIM_MARKED,
  CLAIM_REPLICATED,
  COMPLETE,
  FORGET,
  KEEP_STEP,
  type LuaScript,
  OUTCOME_MARK,
  RENEW,
} from "../redis-lua.ts";
import { escapeLine, formatMs, formatParts } from "./record-text.ts";
import { checkReadable, stepsText } from "./records.ts";
import type { Grouping, ScriptStep } from "./step-batches.ts";

export const CLAIM_GROUPING: Grouping<ClaimRequest, ClaimAnswer> = {
  sizeOf: ({ token, fingerprint = "", parts }) =>
    token.length + fingerprint.length + parts.scope.length + parts.key.length,
  turnOf: ({ parts }) => scopeTurn(parts),
  sharing: CLAIM_SHARING,
};

export const CLAIM_STEP = claimStep(CLAIM);
export const CLAIM_STEP_REPLICATED = claimStep(CLAIM_REPLICATED);
export const CLAIM_STEP_MARKED: ScriptStep<ClaimRequest, ClaimAnswer> = {
  ...claimStep(CLAIM_MARKED),
  toAnswer(request, reply) {
    const answer = claimAnswer(request, reply);
    if (answer.status !== "completed") return answer;
    return { ...answer, outcome: answer.outcome.slice(OUTCOME_MARK.length) };
  },
};

export const COMPLETE_STEP: ScriptStep<CompleteRequest, boolean> = {
  script: COMPLETE,
  toArguments(calls) {
    const args = [""];
    let owners = "";
    for (const { token, retentionMs, outcome } of calls) {
      owners += `${formatMs(retentionMs)} ${escapeLine(token)}\n`;
      args.push(outcome);
    }
    args[0] = owners;
    return args;
  },
  grouping: { sizeOf: ({ token, outcome }) => token.length + outcome.length },
  toAnswer: isDone,
};

export const ABANDON_STEP = ownerStep(ABANDON, ({ as }: AbandonRequest) => [as]);

export const RENEW_STEP = ownerStep(RENEW, ({ leaseMs }: RenewRequest) => [formatMs(leaseMs)]);

export const KEEP_STEP_STEP = ownerStep(KEEP_STEP, (request: KeepStepRequest) => {
  const { start, end } = stepLine(request);
  return [start, end];
});

export const FORGET_STEP: ScriptStep<ForgetRequest, boolean> = {
  script: FORGET,
  toArguments: (calls) => calls.flatMap(({ fence, reopen = false }) => [String(fence), reopen ? "1" : "0"]),
  grouping: {},
  toAnswer: isDone,
};

function claimStep(script: LuaScript): ScriptStep<ClaimRequest, ClaimAnswer> {
  return {
    script,
    toArguments: (calls) => calls.flatMap(claimArguments),
    grouping: CLAIM_GROUPING,
    toAnswer: claimAnswer,
  };
}

function claimArguments(request: ClaimRequest): string[] {
  const { token, leaseMs, retentionMs, hold, takeover, parts, fingerprint = "" } = request;
  const fence = takeover === undefined ? "" : String(takeover);
  return [
    escapeLine(token),
    formatMs(leaseMs),
    formatMs(retentionMs),
    hold ? "1" : "0",
    fence,
    formatParts(parts),
    escapeLine(fingerprint),
  ];
}

function claimAnswer({ id, token }: ClaimRequest, reply: unknown): ClaimAnswer {
  checkReadable(id, reply);
  const [status, first, number, tookOver, lines] = reply as [ClaimAnswer["status"], ...unknown[]];
  switch (status) {
    case "new": {
      const fence = Number(first);
      const granted = { status, fence, number: Number(number), tookOver: Number(tookOver) === 1 };
      if (typeof lines !== "string") return granted;
      return { ...granted, steps: stepsIn(id, { token, steps: stepsText(token, lines) }) };
    }
    case "pending":
      return pendingAnswer(Number(first), number === undefined ? undefined : Number(number));
    case "completed":
      return { status, outcome: first as string };
    case "conflict":
      return { status, state: first as RecordState };
    case "unknown":
      return { status, fence: Number(first) };
  }
}

/** A step of the owner of a record: its token, and the `values` of the step. */
function ownerStep<Call extends { readonly id: string; readonly token: string }>(
  script: LuaScript,
  values: (call: Call) => readonly string[],
): ScriptStep<Call, boolean> {
  return {
    script,
    toArguments: (calls) => calls.flatMap((call) => [escapeLine(call.token), ...values(call)]),
    grouping: { sizeOf: (call) => values(call).reduce((sum, text) => sum + text.length, call.token.length) },
    toAnswer: isDone,
  };
}

function isDone({ id }: { readonly id: string }, reply: unknown): boolean {
  if (reply === 1) return true;
  checkReadable(id, reply);
  return Number(reply) === 1;
}
