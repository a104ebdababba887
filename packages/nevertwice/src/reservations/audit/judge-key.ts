/** Judges a key: its row, and whether the row agrees with the events of the key. */
import { toIdentity } from "../../core/identity.ts";
import { OPERATION } from "../action-request.ts";
import { commitmentSubject, type JournalEvent } from "../journal.ts";
import type { KeyRecord } from "../store.ts";
import { parseDetail } from "./chain.ts";
import { type Judgement, openJudgement } from "./findings.ts";
import { type Effect, findAnswerProblem, isOwnEffect, judgeAnswer, ownWindow } from "./judge-answer.ts";

/** Windows for records that do not contain their own, which earlier releases did not store. */
export interface KeyWindows {
  /** All values that `windowMs` ever had. */
  readonly all: readonly number[];
  readonly shortest: number;
}

export function eventWindow(event: Pick<JournalEvent, "detail">, { shortest }: KeyWindows): number {
  return ownWindow(event) ?? shortest;
}

/** How long the answer of the event's key is kept. */
function keptFor(event: Effect, windows: KeyWindows): number {
  const { keptMs } = parseDetail(event.detail);
  return Number.isSafeInteger(keptMs) ? (keptMs as number) : eventWindow(event, windows);
}

function keySubject(id: string): string {
  return `key:${id}`;
}

/** One recording of a key: it may be recorded again once its window is over. */
function recordingId(id: string, commitment: string | undefined): string {
  return `${id} ${commitmentSubject(String(commitment))}`;
}

/** The recordings whose requester this event says was erased. */
export function erasedKeys({
  kind,
  subject,
  detail,
}: Pick<JournalEvent, "kind" | "subject" | "detail">): readonly { id: string; recording: string }[] {
  const keys = kind === "erased" ? parseDetail(detail).keys : undefined;
  return Array.isArray(keys) ? keys.map((id) => ({ id: String(id), recording: `${id} ${subject}` })) : [];
}

/**
 * `now` was read after the row. `effects` are all events of the key, also those of its earlier recordings. `erased`: the
 * recordings whose requester was erased, by an event.
 */
export function judgeKey(
  key: KeyRecord,
  effects: readonly Effect[],
  now: number,
  windows: KeyWindows,
  erased: ReadonlySet<string>,
): Judgement {
  const judgement = openJudgement();
  const subject = keySubject(key.id);
  const { recordedAt, windowEndsAt, keptUntil } = key;
  const isErased = key.action === "placeHold" && erased.has(recordingId(key.id, key.commitment));
  const answerProblem = findAnswerProblem(key);
  judgement.check("D3", subject, answerProblem === undefined, () => answerProblem as string);
  judgeRecording(judgement, subject, key, now, windows);
  judgement.check(
    "R6",
    subject,
    computeId(key) === key.id,
    "its id is not the hash of its namespace, scope and key",
  );
  judgement.check(
    "R7",
    subject,
    !(keptUntil < windowEndsAt),
    () => `its answer is kept until ${keptUntil}, but its window ends at ${windowEndsAt}`,
  );
  if (answerProblem !== undefined) return judgement;
  const end = Math.max(windowEndsAt, recordedAt + (key.windowMs ?? windows.shortest));
  const within = effects.filter(({ at }) => at >= recordedAt && at < end);
  const own = within.find((effect) => isOwnEffect(key, effect)) ?? within[0];
  // If `recordedAt` was changed, the event of this recording is outside of the window.
  const moved = own === undefined ? effects.find((effect) => isOwnEffect(key, effect)) : undefined;
  judgeAnswer(judgement, subject, key, own ?? moved);
  judgement.check("R4", subject, (key.salt === undefined) === isErased, () =>
    isErased
      ? "its requester was erased, but its salt is there"
      : "it has no salt, and no event says that it was erased",
  );
  for (const effect of effects) {
    if (within.includes(effect) || effect === moved) continue;
    const isDisplaced = effect.at < recordedAt && recordedAt - effect.at < eventWindow(effect, windows);
    judgement.check("R7", subject, effect.at < recordedAt && !isDisplaced, () =>
      isDisplaced
        ? `it was recorded again at ${recordedAt}, within the window of ${effect.kind} at ${effect.at}`
        : `the recording of ${effect.kind} at ${effect.at} is missing`,
    );
  }
  return judgement;
}

/** Judges a key that has events but no row. `now` was read after the row was not found. */
export function judgeAbsentKey(
  id: string,
  effects: readonly Effect[],
  now: number,
  windows: KeyWindows,
): Judgement {
  const judgement = openJudgement();
  const early = effects.find((effect) => now < effect.at + keptFor(effect, windows));
  judgement.check(
    "R7",
    keySubject(id),
    early === undefined,
    () => `it was used at ${early?.at} and removed before its time was over`,
  );
  return judgement;
}

/** Judges the events alone: a key has at most one event within a window. */
export function judgeEffects(id: string, effects: readonly Effect[], windows: KeyWindows): Judgement {
  const judgement = openJudgement();
  const subject = keySubject(id);
  const sorted = [...effects].sort((a, b) => a.at - b.at);
  for (const [index, effect] of sorted.entries()) {
    const before = sorted[index - 1];
    const isTwice = before !== undefined && effect.at - before.at < eventWindow(before, windows);
    const text = () =>
      `${before?.kind} ${before?.subject} and ${effect.kind} ${effect.subject} within one window`;
    judgement.check("R8", subject, !isTwice, text);
    if (effect.kind === "placed")
      judgement.check("R3", subject, !isTwice || before?.subject === effect.subject, text);
  }
  return judgement;
}

function judgeRecording(
  judgement: Judgement,
  subject: string,
  { recordedAt, windowEndsAt, keptUntil, windowMs }: KeyRecord,
  now: number,
  { all }: KeyWindows,
): void {
  judgement.check("D1", subject, recordedAt <= now && windowEndsAt > recordedAt, () =>
    recordedAt <= now
      ? `recorded at ${recordedAt}, but its window ends at ${windowEndsAt}`
      : `recorded at ${recordedAt}, but now is ${now}`,
  );
  judgement.check(
    "D4",
    subject,
    Number.isSafeInteger(windowEndsAt) && Number.isSafeInteger(keptUntil),
    () => `its window ends at ${windowEndsAt}, and its answer is kept until ${keptUntil}`,
  );
  const length = windowEndsAt - recordedAt;
  const inForce = windowMs === undefined ? all : [windowMs];
  judgement.check("D2", subject, inForce.includes(length), () =>
    windowMs === undefined
      ? `its window is ${length} ms long, but windowMs was only ever ${all.join(" or ")}`
      : `its window is ${length} ms long, but it was recorded with ${windowMs}`,
  );
}

function computeId({ namespace, scope, key }: KeyRecord): string | undefined {
  try {
    return toIdentity({ namespace, scope, operation: OPERATION, key }).id;
  } catch {
    return undefined;
  }
}
