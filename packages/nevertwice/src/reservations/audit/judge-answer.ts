/** Judges the answer of a key: whether its event says the same, and whether both are about what the key was used for. */
import { type ActionName, digestParameters } from "../action-request.ts";
import { type Answer, DENIALS, type Reason } from "../answer.ts";
import {
  commitmentSubject,
  type EventKind,
  type JournalEvent,
  resourceSubject,
  saltedDigest,
} from "../journal.ts";
import type { KeyRecord } from "../store.ts";
import { parseDetail } from "./chain.ts";
import type { Judgement } from "./findings.ts";

/** The parts of a key's event that the audit keeps in memory. */
export type Effect = Pick<JournalEvent, "subject" | "kind" | "at" | "detail">;

/** The window that the event's key was recorded with, if the event contains it. */
export function ownWindow({ detail }: Pick<JournalEvent, "detail">): number | undefined {
  const { windowMs } = parseDetail(detail);
  return Number.isSafeInteger(windowMs) && (windowMs as number) >= 1 ? (windowMs as number) : undefined;
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
  erase: { kind: "erased", reasons: ["not-known"] },
  declare: { kind: "declared", reasons: ["units-exceeded"] },
  adjust: { kind: "adjusted", reasons: ["not-known", "pool-closed", "units-exceeded"] },
  suspend: { kind: "suspended", reasons: ["not-known", "pool-closed"] },
  resume: { kind: "resumed", reasons: ["not-known", "pool-closed"] },
  close: { kind: "closed", reasons: ["not-known", "pool-closed"] },
};

/** Whether the event is the one that the key's answer reports. */
export function isOwnEffect(
  { answer, action, commitment, parameters }: KeyRecord,
  { subject, kind, detail }: Effect,
): boolean {
  if (!answer.ok) return kind === "refused" && parseDetail(detail).action === action;
  const of = isGoverning(action)
    ? resourceSubject(String(parameters.resource))
    : commitmentSubject(String(commitment));
  return kind === ACTIONS[action].kind && subject === of;
}

const ALWAYS_POSSIBLE: readonly Reason[] = ["invalid-request", ...DENIALS];
const NEVER_KEPT: readonly Reason[] = [
  "registry-unavailable",
  "token-collision",
  "storage-failure",
  "recording-failure",
];

export function findAnswerProblem({ action, digest, answer }: KeyRecord): string | undefined {
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

/** `effect` is the event of this recording, if there is one. */
export function judgeAnswer(
  judgement: Judgement,
  subject: string,
  key: KeyRecord,
  effect: Effect | undefined,
): void {
  const { answer, action, recordedAt } = key;
  const { kind, reasons } = ACTIONS[action];
  const idempotent = action === "placeHold" ? "R1" : "R2";
  const unanswered = answerlessProblem(key, effect);
  judgement.check(idempotent, subject, unanswered === undefined, () => unanswered as string);
  const misbound = commitmentProblem(key, effect);
  judgement.check("R3", subject, misbound === undefined, () => misbound as string);
  const unlike = bindingProblem(key, kind, effect);
  judgement.check("R4", subject, unlike === undefined, () => unlike as string);
  if (!answer.ok)
    judgement.check(
      "R5",
      subject,
      [...ALWAYS_POSSIBLE, ...reasons].includes(answer.reason),
      () => `${action} cannot be rejected with ${answer.reason}`,
    );
  if (effect === undefined) return;
  const eventMs = ownWindow(effect) ?? key.windowMs;
  const isSame = key.windowMs === undefined || eventMs === key.windowMs;
  judgement.check("D2", subject, effect.at === recordedAt && isSame, () =>
    effect.at === recordedAt
      ? `recorded with a window of ${key.windowMs} ms, but its event has ${eventMs} ms`
      : `recorded at ${recordedAt}, but ${effect.kind} was at ${effect.at}`,
  );
  const keptMs = parseDetail(effect.detail).keptMs ?? eventMs;
  judgement.check(
    "R7",
    subject,
    keptMs === undefined || key.keptUntil - recordedAt === keptMs,
    () => `its answer is kept for ${key.keptUntil - recordedAt} ms, but its event says ${String(keptMs)}`,
  );
}

/** The event of an answer says the same as the answer. */
function answerlessProblem({ action, answer }: KeyRecord, effect: Effect | undefined): string | undefined {
  if (effect === undefined)
    return `${action} was ${answer.ok ? "answered ok" : "rejected"}, but has no event`;
  if (answer.ok)
    return effect.kind === "refused" ? `${action} was answered ok, but its event says refused` : undefined;
  if (effect.kind !== "refused") return `${action} was rejected, but has the event ${effect.kind}`;
  const { reason, why } = parseDetail(effect.detail);
  if (reason !== answer.reason) return `its reason is ${answer.reason}, but its event says ${String(reason)}`;
  return why === answer.detail ? undefined : "the text of its answer is not that of its event";
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
  const { request } = parseDetail(effect.detail);
  if (key.salt !== undefined && request !== saltedDigest(key.salt, digest))
    return "its digest is not that of its event";
  if (effect.kind === "refused") return key.answer.ok ? undefined : refusedProblem(key, effect);
  if (effect.kind !== kind) return `it was used for ${action}, but its event is ${effect.kind}`;
  const done = parseDetail(effect.detail);
  const names: readonly string[] =
    action === "placeHold" ? ["resource", "units"] : action in CAPACITY ? ["capacity"] : ["units"];
  const differs = names.filter((name) => parameters[name] !== undefined && parameters[name] !== done[name]);
  if (action === "placeHold" && done.expiresAt !== effect.at + Number(parameters.durationMs))
    differs.push("durationMs");
  if (isGoverning(action) && effect.subject !== resourceSubject(String(parameters.resource)))
    differs.push("resource");
  return differs.length === 0 ? undefined : `its event differs from its parameters in ${differs.join(", ")}`;
}

/** A rejected action belongs to the commitment that it was about. */
function refusedProblem({ commitment }: KeyRecord, { detail }: Effect): string | undefined {
  const about = parseDetail(detail).commitment;
  return about === commitment
    ? undefined
    : `it belongs to ${String(commitment)}, but its event to ${String(about)}`;
}

const CAPACITY: Readonly<Partial<Record<ActionName, true>>> = { declare: true, adjust: true };

/** Whether the stored parameters equal those of the request. Values that JSON cannot store occur only in rejected requests. */
function isRecomputable({ answer, parameters, salt }: KeyRecord): boolean {
  if (salt === undefined) return false;
  if (answer.ok) return true;
  if (answer.reason === "invalid-request" || answer.reason === "not-known") return false;
  return ["units", "durationMs", "capacity"].every(
    (name) => parameters[name] === undefined || Number.isSafeInteger(parameters[name]),
  );
}

function isGoverning(action: ActionName): boolean {
  return !["placeHold", "confirm", "release", "expire", "giveBack", "erase"].includes(action);
}

function placedId(answer: Answer): string | undefined {
  return "id" in answer ? answer.id : undefined;
}
