/** Judges a key: its row, and whether the row agrees with the events of the key. */
import { toIdentity } from "../../core/identity.ts";
import { type ActionName, digestParameters, OPERATION } from "../action-request.ts";

import type { Answer, Reason } from "../answer.ts";
import { commitmentSubject, type EventKind, type JournalEvent, resourceSubject } from "../journal.ts";
import type { KeyRecord } from "../store.ts";
import { parseDetail } from "./chain.ts";
import { type Judgement, openJudgement } from "./findings.ts";

/** The parts of a key's event that the audit keeps in memory. */
export type Effect = Pick<JournalEvent, "subject" | "kind" | "at" | "detail">;

/** Windows for records that do not contain their own, which earlier releases did not store. */
export interface KeyWindows {
  /** All values that `windowMs` ever had. */
  readonly all: readonly number[];
  readonly shortest: number;
}

/** The window that the event's key was recorded with, if the event contains it. */
function ownWindow({ detail }: Pick<JournalEvent, "detail">): number | undefined {
  const { windowMs } = parseDetail(detail);
  return Number.isSafeInteger(windowMs) && (windowMs as number) >= 1 ? (windowMs as number) : undefined;
}

export function eventWindow(event: Pick<JournalEvent, "detail">, { shortest }: KeyWindows): number {
  return ownWindow(event) ?? shortest;
}

interface ActionRule {
  readonly kind: EventKind;
  readonly reasons: readonly Reason[];
}

const ACTIONS: Readonly<Record<ActionName, ActionRule>> = {
  placeHold: { kind: "placed", reasons: ["resource-unavailable", "pool-suspended", "pool-closed"] },
  confirm: { kind: "confirmed", reasons: ["not-known", "not-held", "window-elapsed", "units-exceeded"] },
  release: { kind: "released", reasons: ["not-known", "not-held"] },
  expire: { kind: "expired", reasons: ["not-known", "not-held", "window-not-elapsed"] },
  giveBack: { kind: "given-back", reasons: ["not-known", "units-exceeded"] },
  declare: { kind: "declared", reasons: ["units-exceeded"] },
  adjust: { kind: "adjusted", reasons: ["not-known", "pool-closed", "units-exceeded"] },
  suspend: { kind: "suspended", reasons: ["not-known", "pool-closed"] },
  resume: { kind: "resumed", reasons: ["not-known", "pool-closed"] },
  close: { kind: "closed", reasons: ["not-known", "pool-closed"] },
};

function keySubject(id: string): string {
  return `key:${id}`;
}

/** `now` was read after the row. `effects` are all events of the key, also those of its earlier recordings. */
export function judgeKey(
  key: KeyRecord,
  effects: readonly Effect[],
  now: number,
  windows: KeyWindows,
): Judgement {
  const judgement = openJudgement();
  const subject = keySubject(key.id);
  const { recordedAt, windowEndsAt, keptUntil } = key;
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

/** Whether the event is the one that the key's answer reports. */
function isOwnEffect(
  { answer, action, commitment, parameters }: KeyRecord,
  { subject, kind }: Effect,
): boolean {
  const of = isGoverning(action)
    ? resourceSubject(String(parameters.resource))
    : commitmentSubject(String(commitment));
  return answer.ok && kind === ACTIONS[action].kind && subject === of;
}

/** Judges a key that has events but no row. `now` was read after the row was not found. */
export function judgeAbsentKey(
  id: string,
  effects: readonly Effect[],
  now: number,
  windows: KeyWindows,
): Judgement {
  const judgement = openJudgement();
  const early = effects.find((effect) => now < effect.at + eventWindow(effect, windows));
  judgement.check(
    "R7",
    keySubject(id),
    early === undefined,
    () => `it was used at ${early?.at} and removed before its window ended`,
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

/** `effect` is the event of this recording, if there is one. */
function judgeAnswer(
  judgement: Judgement,
  subject: string,
  key: KeyRecord,
  effect: Effect | undefined,
): void {
  const { answer, action, recordedAt } = key;
  const { kind, reasons } = ACTIONS[action];
  const idempotent = action === "placeHold" ? "R1" : "R2";
  judgement.check(idempotent, subject, answer.ok === (effect !== undefined), () =>
    answer.ok
      ? `${action} was answered ok, but has no event`
      : `${action} was rejected, but has the event ${effect?.kind}`,
  );
  const misbound = commitmentProblem(key, effect);
  judgement.check("R3", subject, misbound === undefined, () => misbound as string);
  const unlike = bindingProblem(key, kind, effect);
  judgement.check("R4", subject, unlike === undefined, () => unlike as string);
  if (!answer.ok)
    judgement.check(
      "R5",
      subject,
      answer.reason === "invalid-request" || reasons.includes(answer.reason),
      () => `${action} cannot be rejected with ${answer.reason}`,
    );
  else if (effect !== undefined) {
    const eventMs = ownWindow(effect) ?? key.windowMs;
    const isSame = key.windowMs === undefined || eventMs === key.windowMs;
    judgement.check("D2", subject, effect.at === recordedAt && isSame, () =>
      effect.at === recordedAt
        ? `recorded with a window of ${key.windowMs} ms, but its event has ${eventMs} ms`
        : `recorded at ${recordedAt}, but ${effect.kind} was at ${effect.at}`,
    );
  }
}

const NEVER_KEPT: readonly Reason[] = ["token-collision", "storage-failure", "recording-failure"];

function findAnswerProblem({ action, digest, answer }: KeyRecord): string | undefined {
  if (!(action in ACTIONS)) return `${String(action)} is not an action`;
  if (typeof digest !== "string" || digest === "") return "it has no digest";
  const { ok, reason, id } = (answer ?? {}) as { ok?: unknown; reason?: unknown; id?: unknown };
  if (ok === true) {
    const isWhole = action !== "placeHold" || (typeof id === "string" && id !== "");
    return isWhole ? undefined : "it placed a hold, but its answer has no id";
  }
  if (ok !== false || typeof reason !== "string") return "it has no decided answer";
  return NEVER_KEPT.includes(reason as Reason) ? `its answer is ${reason}, which is never stored` : undefined;
}

/** The key, its answer and its event must all belong to the same commitment. */
function commitmentProblem(key: KeyRecord, effect: Effect | undefined): string | undefined {
  const { answer, action, commitment, parameters } = key;
  if (!answer.ok || isGoverning(action)) return undefined;
  const named = action === "placeHold" ? placedId(answer) : parameters.id;
  if (commitment !== named)
    return `it belongs to ${String(commitment)}, but its ${action} to ${String(named)}`;
  if (effect !== undefined && effect.subject !== commitmentSubject(commitment as string))
    return `it belongs to ${String(commitment)}, but its event to ${effect.subject}`;
  return undefined;
}

function bindingProblem(key: KeyRecord, kind: EventKind, effect: Effect | undefined): string | undefined {
  const { action, parameters, digest } = key;
  if (isRecomputable(key) && digestParameters(action, parameters) !== digest)
    return "its digest does not match its action and parameters";
  if (effect === undefined) return undefined;
  if (effect.kind !== kind) return `it was used for ${action}, but its event is ${effect.kind}`;
  const done = parseDetail(effect.detail);
  const names: readonly string[] =
    action === "placeHold"
      ? ["resource", "requester", "units"]
      : action in CAPACITY
        ? ["capacity"]
        : ["units"];
  const differs = names.filter((name) => parameters[name] !== undefined && parameters[name] !== done[name]);
  if (action === "placeHold" && done.expiresAt !== effect.at + Number(parameters.durationMs))
    differs.push("durationMs");
  if (isGoverning(action) && effect.subject !== resourceSubject(String(parameters.resource)))
    differs.push("resource");
  return differs.length === 0 ? undefined : `its event differs from its parameters in ${differs.join(", ")}`;
}

const CAPACITY: Readonly<Partial<Record<ActionName, true>>> = { declare: true, adjust: true };

/** Whether the stored parameters equal those of the request. Values that JSON cannot store occur only in rejected requests. */
function isRecomputable({ answer, parameters }: KeyRecord): boolean {
  if (answer.ok) return true;
  if (answer.reason === "invalid-request" || answer.reason === "not-known") return false;
  return ["units", "durationMs", "capacity"].every(
    (name) => parameters[name] === undefined || Number.isSafeInteger(parameters[name]),
  );
}

function isGoverning(action: ActionName): boolean {
  return !["placeHold", "confirm", "release", "expire", "giveBack"].includes(action);
}

function placedId(answer: Answer): string | undefined {
  return "id" in answer ? answer.id : undefined;
}

function computeId({ namespace, scope, key }: KeyRecord): string | undefined {
  try {
    return toIdentity({ namespace, scope, operation: OPERATION, key }).id;
  } catch {
    return undefined;
  }
}
