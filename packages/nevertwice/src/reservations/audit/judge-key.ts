/** Judges a key: its row by itself, and its row beside the events that it caused. */
import { identityOf } from "../../core/identity.ts";
import { OPERATION } from "../actions.ts";
import type { Answer, Reason } from "../answer.ts";
import { type ActionName, digestOf } from "../asked.ts";
import { commitmentSubject, type EventKind, type JournalEvent, resourceSubject } from "../journal.ts";
import type { KeyRecord } from "../ledger.ts";
import { parsed } from "./chain.ts";
import { type Judgement, openJudgement } from "./findings.ts";

/** What is remembered of an event that a key caused. */
export type Effect = Pick<JournalEvent, "subject" | "kind" | "at" | "detail">;

export interface Windows {
  /** All that were ever in force. */
  readonly all: readonly number[];
  readonly shortest: number;
}

interface Rule {
  readonly kind: EventKind;
  readonly reasons: readonly Reason[];
}

const ACTIONS: Readonly<Record<ActionName, Rule>> = {
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

/** `now` was read after the row. `effects` are all events that name the key, of whichever of its recordings. */
export function judgeKey(
  key: KeyRecord,
  effects: readonly Effect[],
  now: number,
  windows: Windows,
): Judgement {
  const judgement = openJudgement();
  const subject = keySubject(key.id);
  const { recordedAt, windowEndsAt, keptUntil } = key;
  const wrongOutcome = outcomeProblem(key);
  judgement.ask("D3", subject, wrongOutcome === undefined, () => wrongOutcome as string);
  judgeRecording(judgement, subject, key, now, windows);
  judgement.ask("R6", subject, idOf(key) === key.id, "it is not recorded under its own identity");
  judgement.ask(
    "R7",
    subject,
    !(keptUntil < windowEndsAt),
    () => `its answer is kept until ${keptUntil}, and its window ends at ${windowEndsAt}`,
  );
  if (wrongOutcome !== undefined) return judgement;
  const end = Math.max(windowEndsAt, recordedAt + windows.shortest);
  const within = effects.filter(({ at }) => at >= recordedAt && at < end);
  const own = within.find((effect) => isItsOwn(key, effect)) ?? within[0];
  // A recording that was moved has its event before it.
  const moved = own === undefined ? effects.find((effect) => isItsOwn(key, effect)) : undefined;
  judgeAnswer(judgement, subject, key, own ?? moved);
  for (const effect of effects) {
    if (within.includes(effect) || effect === moved) continue;
    const isDisplaced = effect.at < recordedAt && recordedAt - effect.at < windows.shortest;
    judgement.ask("R7", subject, effect.at < recordedAt && !isDisplaced, () =>
      isDisplaced
        ? `it was recorded anew at ${recordedAt}, within the window of ${effect.kind} at ${effect.at}`
        : `the recording of ${effect.kind} at ${effect.at} is not there`,
    );
  }
  return judgement;
}

/** Whether the event is what the key's answer speaks of. */
function isItsOwn({ answer, action, commitment, parameters }: KeyRecord, { subject, kind }: Effect): boolean {
  const of = isGoverning(action)
    ? resourceSubject(String(parameters.resource))
    : commitmentSubject(String(commitment));
  return answer.ok && kind === ACTIONS[action].kind && subject === of;
}

/** A key that has events and no row. `now` was read after its absence. */
export function judgeAbsentKey(
  id: string,
  effects: readonly Effect[],
  now: number,
  windows: Windows,
): Judgement {
  const judgement = openJudgement();
  const last = Math.max(...effects.map(({ at }) => at));
  judgement.ask(
    "R7",
    keySubject(id),
    now >= last + windows.shortest,
    () => `it was used at ${last} and is gone before its window has ended`,
  );
  return judgement;
}

/** What events alone say: at most one under a key in a window. */
export function judgeEffects(id: string, effects: readonly Effect[], windows: Windows): Judgement {
  const judgement = openJudgement();
  const subject = keySubject(id);
  const sorted = [...effects].sort((a, b) => a.at - b.at);
  for (const [index, effect] of sorted.entries()) {
    const before = sorted[index - 1];
    const isTwice = before !== undefined && effect.at - before.at < windows.shortest;
    const text = () =>
      `${before?.kind} ${before?.subject} and ${effect.kind} ${effect.subject} within one window`;
    judgement.ask("R8", subject, !isTwice, text);
    if (effect.kind === "placed")
      judgement.ask("R3", subject, !isTwice || before?.subject === effect.subject, text);
  }
  return judgement;
}

function judgeRecording(
  judgement: Judgement,
  subject: string,
  { recordedAt, windowEndsAt, keptUntil }: KeyRecord,
  now: number,
  { all }: Windows,
): void {
  judgement.ask("D1", subject, recordedAt <= now && windowEndsAt > recordedAt, () =>
    recordedAt <= now
      ? `recorded at ${recordedAt}, and its window ends at ${windowEndsAt}`
      : `recorded at ${recordedAt}, and it is ${now}`,
  );
  judgement.ask(
    "D4",
    subject,
    Number.isSafeInteger(windowEndsAt) && Number.isSafeInteger(keptUntil),
    () => `its window ends at ${windowEndsAt}, and its answer at ${keptUntil}`,
  );
  const windowMs = windowEndsAt - recordedAt;
  judgement.ask(
    "D2",
    subject,
    all.includes(windowMs),
    () => `its window is ${windowMs} ms long, and only ${all.join(" or ")} were in force`,
  );
}

/** `effects` are those within this recording's window. */
function judgeAnswer(
  judgement: Judgement,
  subject: string,
  key: KeyRecord,
  effect: Effect | undefined,
): void {
  const { answer, action, recordedAt } = key;
  const { kind, reasons } = ACTIONS[action];
  const idempotent = action === "placeHold" ? "R1" : "R2";
  judgement.ask(idempotent, subject, answer.ok === (effect !== undefined), () =>
    answer.ok
      ? `${action} was answered ok, and no event says so`
      : `${action} was refused, and ${effect?.kind} is there`,
  );
  const isBound = boundProblem(key, effect);
  judgement.ask("R3", subject, isBound === undefined, () => isBound as string);
  const unlike = bindingProblem(key, kind, effect);
  judgement.ask("R4", subject, unlike === undefined, () => unlike as string);
  if (!answer.ok)
    judgement.ask(
      "R5",
      subject,
      answer.reason === "invalid-request" || reasons.includes(answer.reason),
      () => `${action} was refused as ${answer.reason}`,
    );
  else if (effect !== undefined)
    judgement.ask(
      "D2",
      subject,
      effect.at === recordedAt,
      () => `recorded at ${recordedAt}, and ${effect.kind} was at ${effect.at}`,
    );
}

const NEVER_KEPT: readonly Reason[] = ["token-collision", "storage-failure", "recording-failure"];

function outcomeProblem({ action, digest, answer }: KeyRecord): string | undefined {
  if (!(action in ACTIONS)) return `${String(action)} is no action`;
  if (typeof digest !== "string" || digest === "") return "it has no digest";
  const { ok, reason, id } = (answer ?? {}) as { ok?: unknown; reason?: unknown; id?: unknown };
  if (ok === true) {
    const isWhole = action !== "placeHold" || (typeof id === "string" && id !== "");
    return isWhole ? undefined : "it placed something, and its answer has no id";
  }
  if (ok !== false || typeof reason !== "string") return "it has no decided answer";
  return NEVER_KEPT.includes(reason as Reason) ? `${reason} is never kept, and it is here` : undefined;
}

/** Which commitment the key names, its answer names and its event is of: one. */
function boundProblem(key: KeyRecord, effect: Effect | undefined): string | undefined {
  const { answer, action, commitment, parameters } = key;
  if (!answer.ok || isGoverning(action)) return undefined;
  const named = action === "placeHold" ? placedId(answer) : parameters.id;
  if (commitment !== named)
    return `it names ${String(commitment)}, and its ${action} was of ${String(named)}`;
  if (effect !== undefined && effect.subject !== commitmentSubject(commitment as string))
    return `it names ${String(commitment)}, and its event is of ${effect.subject}`;
  return undefined;
}

function bindingProblem(key: KeyRecord, kind: EventKind, effect: Effect | undefined): string | undefined {
  const { action, parameters, digest } = key;
  if (isRecomputable(key) && digestOf(action, parameters) !== digest)
    return "its digest is not that of its action and parameters";
  if (effect === undefined) return undefined;
  if (effect.kind !== kind) return `it was used for ${action}, and its event is ${effect.kind}`;
  const told = parsed(effect.detail);
  const names: readonly string[] =
    action === "placeHold"
      ? ["resource", "requester", "units"]
      : action in CAPACITY
        ? ["capacity"]
        : ["units"];
  const differs = names.filter((name) => parameters[name] !== undefined && parameters[name] !== told[name]);
  if (action === "placeHold" && told.expiresAt !== effect.at + Number(parameters.durationMs))
    differs.push("durationMs");
  if (isGoverning(action) && effect.subject !== resourceSubject(String(parameters.resource)))
    differs.push("resource");
  return differs.length === 0 ? undefined : `it asked for another ${differs.join(", ")} than was done`;
}

const CAPACITY: Readonly<Partial<Record<ActionName, true>>> = { declare: true, adjust: true };

/** Whether the parameters came back from the store as they were given: what JSON cannot keep is never accepted. */
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

function idOf({ namespace, scope, key }: KeyRecord): string | undefined {
  try {
    return identityOf({ namespace, scope, operation: OPERATION, key }).id;
  } catch {
    return undefined;
  }
}
