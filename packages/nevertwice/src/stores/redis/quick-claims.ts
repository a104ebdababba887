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
  const answers: QuickAnswer[] = [];
  const claimGroup = async (terms: string, group: readonly Indexed[]): Promise<void> => {
    const keys = group.map(({ request }) => toKey(request.id));
    const args: Evaluation = [QUICK_CLAIM.sha, String(keys.length), ...keys];
    args.push(...terms.split(" "), ...group.map(({ request }) => claimLines(request)));
    const reply = await runScript(evaluate, QUICK_CLAIM, args);
    const [now, fence, found] = reply as readonly [unknown, unknown, readonly unknown[]];
    const written = { now: Number(now), fence: Number(fence) };
    for (const [at, { request, index }] of group.entries())
      answers[index] = judge(request, found[at], written);
  };
  await Promise.all([...groupByTerms(requests)].map(([terms, group]) => claimGroup(terms, group)));
  return answers;
}

interface Indexed {
  readonly request: ClaimRequest;
  readonly index: number;
}

/** By lease and retention, as the script takes them: all its claims have the same. Callers rarely use different ones at once. */
function groupByTerms(requests: readonly ClaimRequest[]): ReadonlyMap<string, Indexed[]> {
  const groups = new Map<string, Indexed[]>();
  for (const [index, request] of requests.entries()) {
    const terms = `${formatMs(request.leaseMs)} ${formatMs(request.retentionMs)}`;
    const group = groups.get(terms);
    if (group === undefined) groups.set(terms, [{ request, index }]);
    else group.push({ request, index });
  }
  return groups;
}

function judge(
  request: ClaimRequest,
  found: unknown,
  { now, fence }: { readonly now: number; readonly fence: number },
): QuickAnswer {
  // A client may be configured to return numbers as text.
  if (found === 1 || found === "1") return { status: "new", fence, number: 1, tookOver: false };
  const record = typeof found === "string" ? parseText(found) : undefined;
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
