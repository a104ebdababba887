/** Converts the calls of each step to a statement's parameters, and its rows to answers. */

import { checkedParts } from "../../core/checked-record.ts";
import { damagedRecord } from "../../core/damaged-record.ts";
import { isNevertwiceError, type NevertwiceError } from "../../core/errors.ts";
import { historyIn } from "../../core/kept-history.ts";
import { stepLine, stepsIn } from "../../core/kept-steps.ts";
import { partsText } from "../../core/parts.ts";
import type {
  AbandonRequest,
  ClaimAnswer,
  ClaimRequest,
  CompleteRequest,
  KeepStepRequest,
  RecordState,
  RenewRequest,
  StoreRecord,
} from "../../core/store.ts";
import { scopeTurn } from "../call-queue.ts";
import type { SharingRules } from "../call-sharing.ts";
import { CLAIM_SHARING } from "../claim-sharing.ts";
import {
  leftMs,
  microseconds,
  momentMs,
  type PostgresRow,
  plainArray,
  textArray,
  toPending,
} from "./client.ts";
import { notPrimaryError } from "./errors.ts";
import { awaitedIds, type QuickFormat, quickClaims, quickCompletions } from "./quick-steps.ts";

/** In the order of the calls. An error concerns its call only. Undefined: the call was not carried out; repeat it. */
export type StepAnswers<Answer> = readonly (Answer | NevertwiceError | undefined)[];

export interface StepFormat<Call, Answer> {
  readonly toParameters: (calls: readonly Call[]) => readonly string[];
  /** Given if the calls are tried with a small statement first. */
  readonly quick?: QuickFormat<Call, Answer>;
  readonly toAnswers: (calls: readonly Call[], rows: readonly PostgresRow[]) => StepAnswers<Answer>;
  /** Whose call it is: calls of each are taken in turn. */
  readonly turnOf?: (call: Call) => string;
  /** Given if calls that mean the same are sent as one. */
  readonly sharing?: SharingRules<Call, Answer>;
  /** The ids of those records that other callers wait for. */
  readonly toAwaited?: (calls: readonly Call[], rows: readonly PostgresRow[]) => readonly string[];
  /** About how many bytes a call adds to the statement. */
  readonly sizeOf?: (call: Call) => number;
  /** Given if calls with the same id must not share a statement. */
  readonly idOf?: (call: Call) => string;
}

interface ReadCall {
  readonly id: string;
  readonly signal?: AbortSignal | undefined;
}

interface ReadAnswer {
  readonly record: StoreRecord | undefined;
}

function claimParameters(calls: readonly ClaimRequest[]): readonly string[] {
  return [
    textArray(calls.map(({ id }) => id)),
    textArray(calls.map(({ parts }) => partsText(parts))),
    textArray(calls.map(({ fingerprint }) => fingerprint)),
    textArray(calls.map(({ token }) => token)),
    plainArray(calls.map(({ leaseMs }) => microseconds(leaseMs))),
    plainArray(calls.map(({ retentionMs }) => microseconds(retentionMs))),
    plainArray(calls.map(({ hold }) => hold)),
    plainArray(calls.map(({ takeover }) => takeover)),
  ];
}

function claimAnswers(
  calls: readonly ClaimRequest[],
  rows: readonly PostgresRow[],
): StepAnswers<ClaimAnswer> {
  const answers: (ClaimAnswer | NevertwiceError | undefined)[] = new Array(calls.length).fill(undefined);
  const outcomes = new Map<string, string>();
  const inserted: [id: string, answer: ClaimAnswer][] = [];
  const completed: number[] = [];
  for (const [position, status, detail, number, tookOver, id] of rows) {
    const index = Number(position) - 1;
    if (status === "outcome") outcomes.set(id as string, detail as string);
    else if (status === "completed") completed.push(index);
    else if (status === "damaged") answers[index] = damagedIn(calls[index], detail);
    else {
      const answer = claimAnswer(status as string, detail as string, Number(number), tookOver === "true");
      if (position === null) inserted.push([id as string, answer]);
      else answers[index] = typeof id === "string" ? withSteps(calls[index], answer, id) : answer;
    }
  }
  for (const index of completed) {
    const outcome = outcomes.get((calls[index] as ClaimRequest).id) as string;
    answers[index] = { status: "completed", outcome };
  }
  if (inserted.length > 0) placeInserted(calls, answers, inserted);
  return answers;
}

function claimAnswer(status: string, detail: string, number: number, tookOver: boolean): ClaimAnswer {
  switch (status) {
    case "new":
      return { status, fence: Number(detail), number, tookOver };
    case "unknown":
      return { status, fence: Number(detail) };
    case "conflict":
      return { status, state: detail as RecordState };
    default:
      return toPending(detail);
  }
}

function withSteps(
  call: ClaimRequest | undefined,
  answer: ClaimAnswer,
  steps: string,
): ClaimAnswer | NevertwiceError {
  const { id = "", token = "" } = call ?? {};
  return orDamaged(() => ({ ...answer, steps: stepsIn(id, { token, steps }) }) as ClaimAnswer);
}

/** Returns an error of ours instead of throwing it: the other calls of the batch have their own answers. */
function orDamaged<Answer>(read: () => Answer): Answer | NevertwiceError {
  try {
    return read();
  } catch (error) {
    if (isNevertwiceError(error)) return error;
    throw error;
  }
}

/** An insert answers by id. The call that inserted is the first one of its id that has no other answer. */
function placeInserted(
  calls: readonly ClaimRequest[],
  answers: (ClaimAnswer | NevertwiceError | undefined)[],
  inserted: readonly (readonly [id: string, answer: ClaimAnswer])[],
): void {
  const first = new Map<string, number>();
  calls.forEach(({ id }, index) => {
    if (answers[index] === undefined && !first.has(id)) first.set(id, index);
  });
  for (const [id, answer] of inserted) answers[first.get(id) as number] = answer;
}

function completeParameters(calls: readonly CompleteRequest[]): readonly string[] {
  return [
    ...ownerParameters(calls),
    textArray(calls.map(({ outcome }) => outcome)),
    plainArray(calls.map(({ retentionMs }) => microseconds(retentionMs))),
  ];
}

function abandonParameters(calls: readonly AbandonRequest[]): readonly string[] {
  return [...ownerParameters(calls), textArray(calls.map((call) => call.as))];
}

function renewParameters(calls: readonly RenewRequest[]): readonly string[] {
  return [...ownerParameters(calls), plainArray(calls.map(({ leaseMs }) => microseconds(leaseMs)))];
}

function keepStepParameters(calls: readonly KeepStepRequest[]): readonly string[] {
  const lines = calls.map(stepLine);
  return [
    ...ownerParameters(calls),
    textArray(lines.map(({ start }) => start)),
    textArray(lines.map(({ end }) => end)),
  ];
}

function ownerParameters(
  calls: readonly { readonly id: string; readonly token: string }[],
): readonly string[] {
  return [textArray(calls.map(({ id }) => id)), textArray(calls.map(({ token }) => token))];
}

function settleAnswers(
  calls: readonly { readonly id: string }[],
  rows: readonly PostgresRow[],
): StepAnswers<boolean> {
  const answers: (boolean | NevertwiceError | undefined)[] = new Array(calls.length).fill(undefined);
  for (const [position, answer, damage] of rows) {
    const index = Number(position) - 1;
    answers[index] = answer === "damaged" ? damagedIn(calls[index], damage) : answer === "yes";
  }
  return answers;
}

function damagedIn(
  call: { readonly id: string } | undefined,
  column: string | null | undefined,
): NevertwiceError {
  return damagedRecord(call?.id ?? "", column ?? "row");
}

/**
 * Throws `unavailable` if the first column says that the server is no longer the primary, as it was when the store checked it:
 * it may lack the last claims.
 */
export function requirePrimary(rows: readonly PostgresRow[]): readonly PostgresRow[] {
  if (rows[0]?.[0] !== "true") return rows;
  throw notPrimaryError("it is read-only, as a replica or a demoted primary is", "unavailable");
}

/** A row contains an id only if there is a record. */
function readAnswers(calls: readonly ReadCall[], rows: readonly PostgresRow[]): StepAnswers<ReadAnswer> {
  const found = new Map(requirePrimary(rows).map((row) => [row[1], row]));
  return calls.map(({ id }) => orDamaged(() => ({ record: toStoreRecord(found.get(id) ?? []) })));
}

/** The record of a row, or undefined if there is none. Throws `store-unsafe` if it is damaged. */
export function toStoreRecord(row: PostgresRow): StoreRecord | undefined {
  const [, id, parts, fingerprint, state, token, fence, number, hold] = row;
  const [claimedAt, leaseLeft, completedAt, keptUntil, outcome, damage, lapsedAt, steps] = row.slice(9);
  const [history, spent, leaseEndsAt] = row.slice(17);
  if (typeof id !== "string") return undefined;
  if (typeof damage === "string") throw damagedRecord(id, damage);
  const record: StoreRecord = {
    id,
    parts: typeof parts === "string" ? checkedParts(id, parts) : undefined,
    fingerprint: fingerprint ?? undefined,
    state: state as RecordState,
    token: token as string,
    fence: Number(fence),
    number: Number(number),
    hold: hold === "true",
    claimedAt: momentMs(claimedAt as string),
    leaseLeftMs: leftMs(leaseLeft as string),
    completedAt: typeof completedAt === "string" ? momentMs(completedAt) : undefined,
    keptUntil: momentMs(keptUntil as string),
    outcome: outcome ?? undefined,
    ...(typeof lapsedAt === "string" && { lapsedAt: momentMs(lapsedAt) }),
    ...(typeof steps === "string" && { steps: stepsIn(id, { token: token as string, steps }) }),
  };
  // Only a read has this column, and only of migrated tables.
  if (spent === undefined) return record;
  const owner = { ...record, spent: spent === "true", leaseEndsAt: momentMs(leaseEndsAt as string) };
  return { ...record, history: historyIn({ ...owner, history: history ?? undefined }, record.state) };
}

const settledAwaited: StepFormat<{ readonly id: string }, boolean>["toAwaited"] = (calls, rows) =>
  awaitedIds(calls, rows, 3);

const readId = ({ id }: { readonly id: string }) => id;

/** Claims with the same id may share a statement, since at most one of them writes. The steps of owners may not. */
export const claimStep: StepFormat<ClaimRequest, ClaimAnswer> = {
  toParameters: claimParameters,
  quick: quickClaims,
  toAnswers: claimAnswers,
  turnOf: ({ parts }) => scopeTurn(parts),
  sharing: CLAIM_SHARING,
  sizeOf: ({ parts, fingerprint }) => 256 + parts.key.length + (fingerprint?.length ?? 0),
};

export const completeStep: StepFormat<CompleteRequest, boolean> = {
  toParameters: completeParameters,
  quick: quickCompletions,
  toAnswers: settleAnswers,
  toAwaited: settledAwaited,
  sizeOf: ({ outcome }) => outcome.length,
  idOf: readId,
};

export const abandonStep: StepFormat<AbandonRequest, boolean> = {
  toParameters: abandonParameters,
  toAnswers: settleAnswers,
  toAwaited: settledAwaited,
  idOf: readId,
};

export const renewStep: StepFormat<RenewRequest, boolean> = {
  toParameters: renewParameters,
  toAnswers: settleAnswers,
  idOf: readId,
};

export const keepStepStep: StepFormat<KeepStepRequest, boolean> = {
  toParameters: keepStepParameters,
  toAnswers: settleAnswers,
  sizeOf: ({ outcome }) => outcome.length,
  idOf: readId,
};

export const readStep: StepFormat<ReadCall, ReadAnswer> = {
  toParameters: (calls) => [textArray(new Set(calls.map(({ id }) => id)))],
  toAnswers: readAnswers,
};
