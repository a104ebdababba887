/** Converts calls to the parameters of the small statements (`quick-sql.ts`), and their rows to answers. */
import { partsText } from "../../core/parts.ts";
import type { ClaimAnswer, ClaimRequest, CompleteRequest } from "../../core/store.ts";
import { microseconds, type PostgresRow, plainArray, toPending } from "./client.ts";
import { SEPARATOR } from "./quick-sql.ts";

/** How calls are tried with a small statement first. */
export interface QuickFormat<Call, Answer> {
  /** Whether a small statement can take the call. */
  readonly isQuick: (call: Call) => boolean;
  /** For several calls with different ids. */
  readonly toParameters: (calls: readonly Call[]) => readonly string[];
  readonly toParametersOfOne: (call: Call) => readonly string[];
  /** In the order of the calls, of which `sent` were in the statement. Undefined: the call is left open. */
  readonly toAnswers: (
    calls: readonly Call[],
    sent: readonly Call[],
    rows: readonly PostgresRow[],
  ) => readonly (Answer | undefined)[];
  /** The ids of those records that other callers wait for. */
  readonly toAwaited?: (sent: readonly Call[], rows: readonly PostgresRow[]) => readonly string[];
}

/** Whether a text can stand in a list: it is not empty, and the server would not split it. */
function isListable(text: string): boolean {
  return text !== "" && !text.includes(SEPARATOR);
}

function joined<Call>(calls: readonly Call[], textOf: (call: Call) => string): string {
  return calls.map(textOf).join(SEPARATOR);
}

function isQuickClaim({ token, fingerprint, takeover }: ClaimRequest): boolean {
  if (takeover !== undefined || !isListable(token)) return false;
  return fingerprint === undefined || isListable(fingerprint);
}

function claimParameters(calls: readonly ClaimRequest[]): readonly string[] {
  return [
    joined(calls, ({ id }) => id),
    // JSON, which never contains the separator.
    joined(calls, ({ parts }) => partsText(parts)),
    joined(calls, ({ fingerprint }) => fingerprint ?? ""),
    joined(calls, ({ token }) => token),
    plainArray(calls.map(({ leaseMs }) => microseconds(leaseMs))),
    plainArray(calls.map(({ retentionMs }) => microseconds(retentionMs))),
    plainArray(calls.map(({ hold }) => hold)),
  ];
}

function claimParametersOfOne(call: ClaimRequest): readonly string[] {
  const { id, parts, fingerprint = "", token, leaseMs, retentionMs, hold } = call;
  const texts = [id, partsText(parts), fingerprint, token];
  return [...texts, String(microseconds(leaseMs)), String(microseconds(retentionMs)), String(hold)];
}

function claimAnswers(
  calls: readonly ClaimRequest[],
  sent: readonly ClaimRequest[],
  rows: readonly PostgresRow[],
): readonly (ClaimAnswer | undefined)[] {
  const found = new Map(rows.map((row) => [row[0], row]));
  const sentById = sent === calls ? undefined : new Map(sent.map((call) => [call.id, call]));
  return calls.map((call) => {
    const row = found.get(call.id);
    if (row === undefined) return undefined;
    const asked = sentById?.get(call.id) ?? call;
    return call === asked || isJudgedAlike(call, asked, row) ? claimAnswer(row) : undefined;
  });
}

/** Whether the statement would have given a call the same row as another call with its id. */
function isJudgedAlike(call: ClaimRequest, asked: ClaimRequest, [, status, , owner]: PostgresRow): boolean {
  if (!isQuickClaim(call) || call.fingerprint !== asked.fingerprint) return false;
  return status === "completed" || (status === "pending" && owner !== call.token);
}

function claimAnswer([, status, detail]: PostgresRow): ClaimAnswer {
  const text = detail as string;
  switch (status) {
    case "completed":
      return { status, outcome: text };
    case "new":
      return { status, fence: Number(text), number: 1, tookOver: false };
    default:
      return toPending(text);
  }
}

/** An outcome may be empty: several calls have a separator between them, and one call has no list. */
function isQuickCompletion({ token, outcome }: CompleteRequest): boolean {
  return isListable(token) && !outcome.includes(SEPARATOR);
}

function completeParameters(calls: readonly CompleteRequest[]): readonly string[] {
  return [
    joined(calls, ({ id }) => id),
    joined(calls, ({ token }) => token),
    joined(calls, ({ outcome }) => outcome),
    plainArray(calls.map(({ retentionMs }) => microseconds(retentionMs))),
  ];
}

function completeParametersOfOne({ id, token, outcome, retentionMs }: CompleteRequest): readonly string[] {
  return [id, token, outcome, String(microseconds(retentionMs))];
}

/**
 * Completions have different ids. A record that was not completed may have been completed before, lost, or damaged: the full
 * statement tells.
 */
function completeAnswers(
  calls: readonly CompleteRequest[],
  sent: readonly CompleteRequest[],
  rows: readonly PostgresRow[],
): readonly (boolean | undefined)[] {
  const done = new Set(rows.map(([position]) => sent[Number(position) - 1]));
  return calls.map((call) => done.has(call) || undefined);
}

/** The ids of the calls whose rows say, in the given column, that waiters must be told. */
export function awaitedIds(
  calls: readonly { readonly id: string }[],
  rows: readonly PostgresRow[],
  column: number,
): readonly string[] {
  const awaited = rows.filter((row) => row[column] === "true");
  return awaited.map(([position]) => (calls[Number(position) - 1] as { readonly id: string }).id);
}

export const quickClaims: QuickFormat<ClaimRequest, ClaimAnswer> = {
  isQuick: isQuickClaim,
  toParameters: claimParameters,
  toParametersOfOne: claimParametersOfOne,
  toAnswers: claimAnswers,
};

export const quickCompletions: QuickFormat<CompleteRequest, boolean> = {
  isQuick: isQuickCompletion,
  toParameters: completeParameters,
  toParametersOfOne: completeParametersOfOne,
  toAnswers: completeAnswers,
  toAwaited: (sent, rows) => awaitedIds(sent, rows, 1),
};
