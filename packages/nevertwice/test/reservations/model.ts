/**
 * A model of what reservations promise, as simple as possible: it keeps no counters and looks everything up in the list of
 * all past events. It shares no code with the library. If a promise allows several results, the model continues with each.
 */
import { isDeepStrictEqual } from "node:util";
import type { ActionName } from "../../src/reservations/action-request.ts";
import type { Answer, EventKind, Reason } from "../../src/reservations/index.ts";

export interface Call {
  readonly action: ActionName;
  readonly key: string;
  readonly scope?: string | undefined;
  readonly parameters: Readonly<Record<string, unknown>>;
}

export interface Hold {
  readonly id: string;
  readonly resource: string;
  readonly requester: string;
  readonly units: number;
  readonly placedAt: number;
  readonly expiresAt: number;
  readonly state: "held" | "confirmed" | "released" | "expired";
  readonly endedAt?: number;
  readonly confirmed: number;
  readonly returned: number;
}

export interface Pool {
  readonly capacity: number;
  readonly state: "open" | "suspended" | "closed";
  readonly isDeclared: boolean;
}

export interface Bound {
  readonly call: Call;
  readonly answer: Answer;
  readonly recordedAt: number;
  readonly windowEndsAt: number;
  readonly keptUntil: number;
}

export interface Logged {
  readonly subject: string;
  readonly kind: EventKind;
  readonly at: number;
}

export interface Terms {
  readonly windowMs: number;
  readonly historyMs: number;
  readonly maxDurationMs: number;
}

export interface Model {
  readonly terms: Terms;
  readonly holds: readonly Hold[];
  readonly pools: ReadonlyMap<string, Pool>;
  readonly keys: ReadonlyMap<string, Bound>;
  readonly log: readonly Logged[];
}

export function emptyModel(terms: Terms): Model {
  return { terms, holds: [], pools: new Map(), keys: new Map(), log: [] };
}

export function toName({ key, scope = "" }: Pick<Call, "key" | "scope">): string {
  return JSON.stringify([scope, key]);
}

/** The possible states after this answer to this call; none if the answer is not allowed. */
export function after(model: Model, call: Call, now: number, answer: Answer): Model[] {
  if (call.key === "" || Buffer.byteLength(call.key) > 256)
    return says(answer, "invalid-request") ? [model] : [];
  const bound = model.keys.get(toName(call));
  if (bound !== undefined && now < bound.keptUntil) {
    const isSame = bound.call.action === call.action && isDeepStrictEqual(asGiven(bound.call), asGiven(call));
    const isRight = isSame ? isDeepStrictEqual(bound.answer, answer) : says(answer, "token-collision");
    return isRight ? [model] : [];
  }
  return decided(model, call, now, answer).map((next) => bind(next, call, now, answer));
}

/** The parameters of the call, with defaults. */
export function asGiven({ action, parameters }: Call): object {
  return action === "placeHold" ? { units: 1, ...parameters } : parameters;
}

export function occupied({ state, units, confirmed, returned }: Hold): number {
  if (state === "held") return units;
  return state === "confirmed" ? confirmed - returned : 0;
}

export function taken({ holds }: Model, resource: string): number {
  return holds.filter((hold) => hold.resource === resource).reduce((sum, hold) => sum + occupied(hold), 0);
}

export function findPool({ pools }: Model, name: string): Pool {
  return pools.get(name) ?? { capacity: 1, state: "open", isDeclared: false };
}

export function elapsed({ holds }: Model, now: number): Hold[] {
  return holds
    .filter(({ state, expiresAt }) => state === "held" && expiresAt <= now)
    .sort((a, b) => a.expiresAt - b.expiresAt);
}

/** Removes the answers of keys past their time. */
export function purged(model: Model, now: number): Model {
  return { ...model, keys: new Map([...model.keys].filter(([, { keptUntil }]) => now < keptUntil)) };
}

function bind(model: Model, call: Call, now: number, answer: Answer): Model {
  const windowEndsAt = now + model.terms.windowMs;
  const keptUntil = windowEndsAt + model.terms.historyMs;
  const bound = { call, answer, recordedAt: now, windowEndsAt, keptUntil };
  const log = answer.ok
    ? model.log
    : [...model.log, { subject: refusedSubject(model, call), kind: "refused", at: now } as const];
  return { ...model, log, keys: new Map(model.keys).set(toName(call), bound) };
}

/** A refusal is an event of the resource that the call is about, or of none. */
function refusedSubject({ holds }: Model, { parameters }: Call): string {
  const { id, resource } = parameters as { readonly id?: unknown; readonly resource?: unknown };
  const name = holds.find((hold) => hold.id === id)?.resource ?? resource;
  return isText(name) ? `resource:${name}` : "request";
}

function decided(model: Model, call: Call, now: number, answer: Answer): Model[] {
  const { action } = call;
  if (action === "placeHold") return placed(model, call, now, answer);
  if (action === "confirm" || action === "release" || action === "expire" || action === "giveBack")
    return resolved(model, call, now, answer);
  return governed(model, call, now, answer);
}

function placed(model: Model, call: Call, now: number, answer: Answer): Model[] {
  const { resource, requester, units, durationMs } = asGiven(call) as Record<string, unknown>;
  const isPlain =
    isText(resource) &&
    isText(requester) &&
    isFrom(units, 1) &&
    isFrom(durationMs, 1) &&
    durationMs <= model.terms.maxDurationMs;
  if (!isPlain) return only(model, answer, "invalid-request");
  const { state, capacity } = findPool(model, resource);
  if (state === "suspended") return only(model, answer, "pool-suspended");
  if (state === "closed") return only(model, answer, "pool-closed");
  return withRoomFor(model, resource, units, now).flatMap((roomy) => {
    if (taken(roomy, resource) + units > capacity) return only(roomy, answer, "resource-unavailable");
    if (!answer.ok || !("id" in answer) || roomy.holds.some(({ id }) => id === answer.id)) return [];
    const { id } = answer;
    const expiresAt = now + durationMs;
    const hold = {
      id,
      resource,
      requester,
      units,
      placedAt: now,
      expiresAt,
      state: "held",
      confirmed: 0,
      returned: 0,
    } as const;
    const log = [...roomy.log, { subject: `commitment:${id}`, kind: "placed", at: now } as const];
    return [{ ...roomy, holds: [...roomy.holds, hold], log }];
  });
}

/** Expires elapsed holds, oldest first, as few as needed. Of equally old holds, any may be first. */
function withRoomFor(model: Model, resource: string, units: number, now: number): Model[] {
  if (taken(model, resource) + units <= findPool(model, resource).capacity) return [model];
  const old = elapsed(model, now).filter((hold) => hold.resource === resource);
  return old.length === 0
    ? [model]
    : old
        .filter(({ expiresAt }) => expiresAt === old[0]?.expiresAt)
        .flatMap((hold) =>
          withRoomFor(
            put(model, { ...hold, state: "expired", endedAt: now }, "expired", now),
            resource,
            units,
            now,
          ),
        );
}

function resolved(model: Model, { action, parameters }: Call, now: number, answer: Answer): Model[] {
  const { id, units } = parameters;
  if (typeof id !== "string" || id === "") return only(model, answer, "invalid-request");
  const hold = model.holds.find((one) => one.id === id);
  if (hold === undefined) return only(model, answer, "not-known");
  if (action === "giveBack") return givenBack(model, hold, units, now, answer);
  if (hold.state !== "held") return only(model, answer, "not-held");
  // A hold never ends before it was placed, even if the clock was set back.
  const endedAt = Math.max(now, hold.placedAt);
  const isOver = hold.expiresAt <= now;
  if (action === "release")
    return done(put(model, { ...hold, state: "released", endedAt }, "released", endedAt), answer);
  if (action === "expire")
    return isOver
      ? done(put(model, { ...hold, state: "expired", endedAt }, "expired", endedAt), answer)
      : only(model, answer, "window-not-elapsed");
  if (isOver) return only(model, answer, "window-elapsed");
  if (units !== undefined && !isFrom(units, 1)) return only(model, answer, "invalid-request");
  const confirmed = units ?? hold.units;
  if (confirmed > hold.units) return only(model, answer, "units-exceeded");
  return done(put(model, { ...hold, state: "confirmed", endedAt, confirmed }, "confirmed", endedAt), answer);
}

function givenBack(model: Model, hold: Hold, units: unknown, now: number, answer: Answer): Model[] {
  if (hold.state !== "confirmed") return only(model, answer, "invalid-request");
  if (units !== undefined && !isFrom(units, 1)) return only(model, answer, "invalid-request");
  const left = occupied(hold);
  const returned = units ?? left;
  if (left === 0 || returned > left) return only(model, answer, "units-exceeded");
  return done(put(model, { ...hold, returned: hold.returned + returned }, "given-back", now), answer);
}

function governed(model: Model, { action, parameters }: Call, now: number, answer: Answer): Model[] {
  const { resource: name, capacity } = parameters;
  if (!isText(name)) return only(model, answer, "invalid-request");
  const pool = findPool(model, name);
  const change = (to: Partial<Pool>, kind: EventKind): Model[] => {
    const pools = new Map(model.pools).set(name, { ...pool, ...to });
    return done(
      { ...model, pools, log: [...model.log, { subject: `resource:${name}`, kind, at: now }] },
      answer,
    );
  };
  if (action === "declare" || action === "adjust") {
    if (!isFrom(capacity, 0)) return only(model, answer, "invalid-request");
    if (action === "declare" && pool.isDeclared) return only(model, answer, "invalid-request");
  }
  if (action !== "declare") {
    if (!pool.isDeclared) return only(model, answer, "not-known");
    if (pool.state === "closed") return only(model, answer, "pool-closed");
  }
  if (action === "suspend") return change({ state: "suspended" }, "suspended");
  if (action === "resume") return change({ state: "open" }, "resumed");
  if (action === "close") return change({ state: "closed" }, "closed");
  if ((capacity as number) < taken(model, name)) return only(model, answer, "units-exceeded");
  return action === "declare"
    ? change({ capacity: capacity as number, isDeclared: true }, "declared")
    : change({ capacity: capacity as number }, "adjusted");
}

function put(model: Model, hold: Hold, kind: EventKind, at: number): Model {
  const holds = model.holds.map((one) => (one.id === hold.id ? hold : one));
  return { ...model, holds, log: [...model.log, { subject: `commitment:${hold.id}`, kind, at }] };
}

function done(model: Model, answer: Answer): Model[] {
  return isDeepStrictEqual(answer, { ok: true }) ? [model] : [];
}

function only(model: Model, answer: Answer, reason: Reason): Model[] {
  return says(answer, reason) ? [model] : [];
}

function says(answer: Answer, reason: Reason): boolean {
  return !answer.ok && answer.reason === reason;
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.trim() !== "";
}

function isFrom(value: unknown, least: number): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= least;
}
