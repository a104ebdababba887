/** Calls as a statement's parameters, and its rows as their answers. */
import { NevertwiceError } from "../../core/errors.ts";
import { partsFrom, partsText } from "../../core/parts.ts";
import type {
  AbandonRequest,
  ClaimAnswer,
  ClaimRequest,
  CompleteRequest,
  RecordState,
  RenewRequest,
  StoreRecord,
} from "../../core/store.ts";
import type { Row } from "./client.ts";
import { leftMs, microseconds, momentMs, plainArray, textArray } from "./wire.ts";

/** In the order of the calls; undefined: this one was not done, ask again. */
type Answers<Answer> = readonly (Answer | undefined)[];

export interface StepCalls<Call, Answer> {
  readonly parametersOf: (calls: readonly Call[]) => readonly string[];
  readonly answersOf: (calls: readonly Call[], rows: readonly Row[]) => Answers<Answer>;
  /** Bytes, about. */
  readonly sizeOf?: (call: Call) => number;
  /** Calls of one id do not share a statement. */
  readonly idOf?: (call: Call) => string;
}

interface ReadCall {
  readonly id: string;
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

function claimAnswers(calls: readonly ClaimRequest[], rows: readonly Row[]): Answers<ClaimAnswer> {
  const answers: (ClaimAnswer | undefined)[] = new Array(calls.length).fill(undefined);
  const outcomes = new Map<string, string>();
  const inserted: [id: string, answer: ClaimAnswer][] = [];
  const completed: number[] = [];
  for (const [position, status, detail, number, tookOver, id] of rows) {
    const index = Number(position) - 1;
    if (status === "outcome") outcomes.set(id as string, detail as string);
    else if (status === "completed") completed.push(index);
    else {
      const answer = claimAnswer(status as string, detail as string, Number(number), tookOver === "true");
      if (position === null) inserted.push([id as string, answer]);
      else answers[index] = answer;
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
      return { status: "pending", leaseLeftMs: leftMs(detail) };
  }
}

/** An insert answers by id: it was the first call of that id that would write, so the first without an answer. */
function placeInserted(
  calls: readonly ClaimRequest[],
  answers: (ClaimAnswer | undefined)[],
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

function ownerParameters(
  calls: readonly { readonly id: string; readonly token: string }[],
): readonly string[] {
  return [textArray(calls.map(({ id }) => id)), textArray(calls.map(({ token }) => token))];
}

function settleAnswers(calls: readonly unknown[], rows: readonly Row[]): Answers<boolean> {
  const answers: (boolean | undefined)[] = new Array(calls.length).fill(undefined);
  for (const [position, answer] of rows) answers[Number(position) - 1] = answer === "yes";
  return answers;
}

/** The first column says whether a replica answered, which may not know of the last claims. */
export function fromPrimary(rows: readonly Row[]): readonly Row[] {
  if (rows[0]?.[0] !== "true") return rows;
  throw new NevertwiceError("store-unsafe", "Postgres: it is a replica; connect to the primary.");
}

/** A row says whose it is only where there is a record. */
function readAnswers(calls: readonly ReadCall[], rows: readonly Row[]): Answers<ReadAnswer> {
  const found = new Map(fromPrimary(rows).map((row) => [row[1], row]));
  return calls.map(({ id }) => ({ record: recordOf(found.get(id) ?? []) }));
}

/** A record as it was read, or undefined where there is none. */
export function recordOf(row: Row): StoreRecord | undefined {
  const [, id, parts, fingerprint, state, token, fence, number, hold] = row;
  const [claimedAt, leaseLeft, completedAt, keptUntil, outcome] = row.slice(9);
  if (typeof id !== "string") return undefined;
  return {
    id,
    parts: typeof parts === "string" ? partsFrom(parts) : undefined,
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
  };
}

const idOf = ({ id }: { readonly id: string }) => id;

/** Claims of one id may share a statement, since at most one of them writes; the steps of owners may not. */
export const claimStep: StepCalls<ClaimRequest, ClaimAnswer> = {
  parametersOf: claimParameters,
  answersOf: claimAnswers,
  sizeOf: ({ parts, fingerprint }) => 256 + parts.key.length + (fingerprint?.length ?? 0),
};

export const completeStep: StepCalls<CompleteRequest, boolean> = {
  parametersOf: completeParameters,
  answersOf: settleAnswers,
  sizeOf: ({ outcome }) => outcome.length,
  idOf,
};

export const abandonStep: StepCalls<AbandonRequest, boolean> = {
  parametersOf: abandonParameters,
  answersOf: settleAnswers,
  idOf,
};

export const renewStep: StepCalls<RenewRequest, boolean> = {
  parametersOf: renewParameters,
  answersOf: settleAnswers,
  idOf,
};

export const readStep: StepCalls<ReadCall, ReadAnswer> = {
  parametersOf: (calls) => [textArray(new Set(calls.map(({ id }) => id)))],
  answersOf: readAnswers,
};
