/**
 * The common claims, by QUICK_CLAIM: a script that writes new claims and hands every other record to the client as it is.
 * Redis has one thread for all clients, so what they can do themselves, it should not do. Only two kinds of record are
 * answered here, by the server's time in the same answer: a completed one, and one that another token holds. Everything else
 * is undecided and goes to the script CLAIM, which judges anew.
 */
import { fingerprintsDiffer } from "../../core/fingerprint.ts";
import { CLOCK_BACK_MARGIN_MS } from "../../core/record.ts";
import type { ClaimAnswer, ClaimRequest } from "../../core/store.ts";
import { QUICK_CLAIM } from "../redis-lua.ts";
import { type Evaluation, type RedisAdapter, runScript } from "./client.ts";
import { claimLines, escapeLine, formatMs, parseText } from "./record-text.ts";

/** The answer for a claim that only the script CLAIM can decide. */
export const UNDECIDED = "undecided";

type QuickAnswer = ClaimAnswer | typeof UNDECIDED;

/** Claims that hold or take over need the whole table. */
export function isQuick({ hold, takeover }: ClaimRequest): boolean {
  return !hold && takeover === undefined;
}

export async function claimQuickly(
  evaluate: RedisAdapter["evaluate"],
  toKey: (id: string) => string,
  requests: readonly ClaimRequest[],
): Promise<readonly QuickAnswer[]> {
  const [first] = requests;
  if (first === undefined || requests.every((request) => haveSameTerms(first, request)))
    return claimGroup(evaluate, toKey, requests);
  const answers: QuickAnswer[] = [];
  const claimSame = async (group: readonly Indexed[]): Promise<void> => {
    const requestsOfGroup = group.map(({ request }) => request);
    const answersOfGroup = await claimGroup(evaluate, toKey, requestsOfGroup);
    for (const [at, { index }] of group.entries()) answers[index] = answersOfGroup[at] ?? UNDECIDED;
  };
  await Promise.all(groupByTerms(requests).map(claimSame));
  return answers;
}

interface Indexed {
  readonly request: ClaimRequest;
  readonly index: number;
}

/** Lease and retention: the script takes them once for all its claims. */
function haveSameTerms(a: ClaimRequest, b: ClaimRequest): boolean {
  return a.leaseMs === b.leaseMs && a.retentionMs === b.retentionMs;
}

/** Callers rarely use different leases or retentions at once. */
function groupByTerms(requests: readonly ClaimRequest[]): readonly (readonly Indexed[])[] {
  const groups: Indexed[][] = [];
  for (const [index, request] of requests.entries()) {
    const group = groups.find(([first]) => first !== undefined && haveSameTerms(first.request, request));
    if (group === undefined) groups.push([{ request, index }]);
    else group.push({ request, index });
  }
  return groups;
}

/** Claims with the same lease and retention. */
async function claimGroup(
  evaluate: RedisAdapter["evaluate"],
  toKey: (id: string) => string,
  requests: readonly ClaimRequest[],
): Promise<readonly QuickAnswer[]> {
  const { leaseMs = 0, retentionMs = 0 } = requests[0] ?? {};
  const args: Evaluation = [QUICK_CLAIM.sha, String(requests.length)];
  for (const { id } of requests) args.push(toKey(id));
  args.push(formatMs(leaseMs), formatMs(retentionMs));
  for (const request of requests) args.push(claimLines(request));
  const reply = await runScript(evaluate, QUICK_CLAIM, args);
  const [time, newFence, found] = reply as readonly [unknown, unknown, unknown];
  const now = Number(time);
  const fence = Number(newFence);
  const isFoundList = Array.isArray(found);
  return requests.map((request, index): QuickAnswer => {
    const record: unknown = isFoundList ? found[index] : found;
    // A client may be configured to return numbers as text.
    if (record === 1 || record === "1") return { status: "new", fence, number: 1, tookOver: false };
    return typeof record === "string" ? judge(request, record, now) : UNDECIDED;
  });
}

function judge(request: ClaimRequest, text: string, now: number): QuickAnswer {
  const record = parseText(text);
  if (record === undefined) return UNDECIDED;
  const { state, completedAt, retentionMs, leaseEndsAt, leaseMs, fingerprint } = record;
  const isCompleted = state === "completed" && now < completedAt + retentionMs;
  const leaseLeftMs = leaseEndsAt - now;
  const isHeldByAnother =
    state === "pending" &&
    leaseLeftMs > 0 &&
    leaseLeftMs <= leaseMs + CLOCK_BACK_MARGIN_MS &&
    record.token !== escapeLine(request.token);
  if (!isCompleted && !isHeldByAnother) return UNDECIDED;
  if (request.fingerprint && fingerprint && fingerprintsDiffer(fingerprint, escapeLine(request.fingerprint)))
    return { status: "conflict", state };
  return isCompleted ? { status: "completed", outcome: record.rest } : { status: "pending", leaseLeftMs };
}
