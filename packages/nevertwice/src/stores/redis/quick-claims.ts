/**
 * The common claims, by scripts that write new claims and leave every other record to the client. Redis has one thread for all
 * clients, so what they can do themselves, it should not do. Only two kinds of record are answered here, by the server's time
 * in the script's answer: a completed one, and one that another token holds. Everything else is undecided and goes to the
 * script CLAIM, which judges anew.
 *
 * QUICK_CLAIM answers with the texts of the records that it found. If the last group mostly found records, as retries do, the
 * next one reads them with MGET, sent together with CLAIM_ABSENT, which costs the server less. The two commands are
 * not one moment, and need not be: a claim that was written is granted whatever was read, and a text that was read is how the
 * record stood at some time during the call.
 */
import { fingerprintsDiffer } from "../../core/fingerprint.ts";
import { CLOCK_BACK_MARGIN_MS, pendingAnswer } from "../../core/record.ts";
import type { ClaimAnswer, ClaimRequest } from "../../core/store.ts";
import { CLAIM_ABSENT, QUICK_CLAIM } from "../redis-lua.ts";
import type { RedisAdapter } from "./client.ts";
import type { ClientListeners } from "./client-listeners.ts";
import type { RunOnRecords } from "./node-groups.ts";
import { claimLines, escapeLine, formatMs, parseText } from "./record-text.ts";

/** The answer for a claim that only the script CLAIM can decide. */
export const UNDECIDED = "undecided";

export type QuickAnswer = ClaimAnswer | typeof UNDECIDED;

export interface QuickClaimsOptions {
  readonly adapter: Pick<RedisAdapter, "isCluster" | "readTexts">;
  readonly losses: ClientListeners["losses"];
  readonly toKey: (id: string) => string;
}

/** Answers claims in their order. */
export type QuickClaims = (
  requests: readonly ClaimRequest[],
  run: RunOnRecords,
) => Promise<readonly QuickAnswer[]>;

/** In smaller groups a second command costs the client more than it saves the server. */
const FEWEST_BESIDE = 8;

/** Claims that hold or take over need the whole table. */
export function isQuick({ hold, takeover }: ClaimRequest): boolean {
  return !hold && takeover === undefined;
}

export function createQuickClaims({ adapter, losses, toKey }: QuickClaimsOptions): QuickClaims {
  /** Whether at least half of the last group found a record. */
  let isMostlyFound = false;

  /** Claims with the same lease and retention. */
  async function claimGroup(
    requests: readonly ClaimRequest[],
    run: RunOnRecords,
  ): Promise<readonly QuickAnswer[]> {
    const isBeside = isMostlyFound && !adapter.isCluster && requests.length >= FEWEST_BESIDE;
    const { now, fence, found } = await (isBeside ? readBeside : claimOrRead)(requests, run);
    let texts = 0;
    const answers = requests.map((request, index): QuickAnswer => {
      const record = found[index];
      if (record === WRITTEN) return { status: "new", fence, number: 1, tookOver: false };
      if (typeof record !== "string") return UNDECIDED;
      texts++;
      return judge(request, record, now);
    });
    isMostlyFound = texts * 2 >= requests.length;
    return answers;
  }

  async function claimOrRead(requests: readonly ClaimRequest[], run: RunOnRecords): Promise<Found> {
    const args = formatTerms(requests);
    for (const request of requests) args.push(claimLines(request));
    const reply = (await run(QUICK_CLAIM, requests.map(toId), args)) as ScriptReply;
    const found = reply[2];
    return foundBy(
      reply,
      requests.map((_, index) => {
        const record: unknown = Array.isArray(found) ? found[index] : found;
        return isOne(record) ? WRITTEN : record;
      }),
    );
  }

  async function readBeside(requests: readonly ClaimRequest[], run: RunOnRecords): Promise<Found> {
    const ids = requests.map(toId);
    const args = formatTerms(requests);
    args.push(requests.map(claimLines).join(""));
    const before = losses();
    // Nothing depends on the texts: without them every claim that was not written is undecided.
    const reading = adapter.readTexts(ids.map(toKey)).catch(() => undefined);
    const reply = (await run(CLAIM_ABSENT, ids, args)) as ScriptReply;
    const read = await reading;
    // After a lost connection the script may have run on another server than the one that was read.
    const texts: readonly unknown[] = Array.isArray(read) && losses() === before ? read : [];
    const written = reply[2];
    if (!Array.isArray(written)) return foundBy(reply, texts);
    return foundBy(
      reply,
      requests.map((_, index) => (isOne(written[index]) ? WRITTEN : texts[index])),
    );
  }

  return async (requests, run) => {
    const [first] = requests;
    if (first === undefined || requests.every((request) => haveSameTerms(first, request)))
      return claimGroup(requests, run);
    const answers: QuickAnswer[] = [];
    const claimSame = async (group: readonly Indexed[]): Promise<void> => {
      const requestsOfGroup = group.map(({ request }) => request);
      const answersOfGroup = await claimGroup(requestsOfGroup, run);
      for (const [at, { index }] of group.entries()) answers[index] = answersOfGroup[at] ?? UNDECIDED;
    };
    await Promise.all(groupByTerms(requests).map(claimSame));
    return answers;
  };
}

/** The server's time in milliseconds, the fence of the claims that were written, and which ones were, as the script says. */
type ScriptReply = readonly [time: unknown, fence: unknown, written: unknown];

/** What no text equals, whatever another program has written. */
const WRITTEN = Symbol("written");

interface Found {
  readonly now: number;
  readonly fence: number;
  /** For each claim WRITTEN, or the text of its record. Anything else is undecided. */
  readonly found: readonly unknown[];
}

function foundBy([time, fence]: ScriptReply, found: readonly unknown[]): Found {
  return { now: Number(time), fence: Number(fence), found };
}

/** A client may be configured to return numbers as text. */
function isOne(reply: unknown): boolean {
  return reply === 1 || reply === "1";
}

const toId = ({ id }: ClaimRequest): string => id;

/** The lease and the retention of claims that have the same. */
function formatTerms([first]: readonly ClaimRequest[]): string[] {
  const { leaseMs = 0, retentionMs = 0 } = first ?? {};
  return [formatMs(leaseMs), formatMs(retentionMs)];
}

/** Lease and retention: the script takes them once for all its claims. */
function haveSameTerms(a: ClaimRequest, b: ClaimRequest): boolean {
  return a.leaseMs === b.leaseMs && a.retentionMs === b.retentionMs;
}

interface Indexed {
  readonly request: ClaimRequest;
  readonly index: number;
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

function judge(request: ClaimRequest, text: string, now: number): QuickAnswer {
  const record = parseText(text);
  if (record === undefined) return UNDECIDED;
  const { state, endsAt, retentionMs, leaseMs, fingerprint } = record;
  const isCompleted = state === "completed" && now < endsAt + retentionMs;
  const leaseLeftMs = endsAt - now;
  const isHeldByAnother =
    state === "pending" &&
    leaseLeftMs > 0 &&
    leaseLeftMs <= leaseMs + CLOCK_BACK_MARGIN_MS &&
    record.token !== escapeLine(request.token);
  if (!isCompleted && !isHeldByAnother) return UNDECIDED;
  if (request.fingerprint && fingerprint && fingerprintsDiffer(fingerprint, escapeLine(request.fingerprint)))
    return { status: "conflict", state };
  return isCompleted
    ? { status: "completed", outcome: record.rest }
    : pendingAnswer(leaseLeftMs, now - record.claimedAt);
}
