/**
 * Decides a group of actions: duplicate prevention, the registry of resources and the life of a hold together. Pure: the
 * rows that a transaction locked and one reading of the clock go in; the answers and the rows to write come out.
 *
 *   key seen ──────▶ same action and same digest: the stored answer · otherwise token-collision
 *   key not seen ──▶ the action is decided ──▶ its answer is stored under the key, a rejection too
 */

import { type ActionRequest, differences } from "./action-request.ts";
import { type Answer, type Reason, type Rejected, rejection } from "./answer.ts";
import { isAvailable } from "./availability.ts";
import {
  confirm,
  expire,
  isName,
  isUnits,
  NAME,
  type Placement,
  place,
  placementProblem,
  release,
  type Transition,
} from "./commitment.ts";
import { check, record } from "./duplicate-prevention.ts";
import { eraseRequester } from "./erased-requester.ts";
import { type EventKind, NO_EVENTS, saltedDigest, unboundRequest } from "./journal.ts";
import { type Allotment, adjust, close, declare, giveBack, resume, suspend, take } from "./registry.ts";
import type {
  KeptCommitment,
  KeptResource,
  KeyRecord,
  LockedRows,
  NeededRows,
  Rules,
  Writes,
} from "./store.ts";
import { createWorkingSet, type WorkingSet } from "./working-set.ts";

export interface GroupDecision {
  readonly answers: readonly Answer[];
  readonly writes: Writes;
}

/** The rows that a store must lock before it decides these actions. */
export function neededRows(group: readonly ActionRequest[]): NeededRows {
  const placements = new Map<string, number>();
  const resources = new Set<string>();
  const commitmentIds = new Set<string>();
  for (const { action, parameters } of group) {
    const { id, resource, units } = parameters;
    if (isName(resource)) resources.add(resource);
    if (isName(resource) && isUnits(units) && action === "placeHold")
      placements.set(resource, (placements.get(resource) ?? group.length) + units);
    if (typeof id === "string") commitmentIds.add(id);
  }
  return {
    keyIds: [...new Set(group.flatMap(({ keyId, erasesKey = keyId }) => [keyId, erasesKey]))].sort(),
    commitmentIds: [...commitmentIds].sort(),
    resources: [...resources].sort(),
    placements: [...placements]
      .map(([resource, most]) => ({ resource, most: Math.min(most, Number.MAX_SAFE_INTEGER) }))
      .sort((a, b) => (a.resource < b.resource ? -1 : 1)),
  };
}

/** Decides the actions in order; a later action sees the changes of an earlier one. `checkpoint` is the transaction's id. */
export function decide(
  group: readonly ActionRequest[],
  found: LockedRows,
  now: number,
  rules: Rules,
  checkpoint: string,
): GroupDecision {
  const rows = createWorkingSet(found, now, rules, checkpoint);
  const answers = group.map((request) => answerAction(rows, request));
  return { answers, writes: rows.writes() };
}

function answerAction(rows: WorkingSet, request: ActionRequest): Answer {
  const { now, rules } = rows;
  const kept = rows.key(request.keyId);
  if (kept !== undefined && (check(kept, now) === "seen" || isInHistory(kept, now, rules)))
    return repeatAnswer(kept, request);
  const { answer, commitment } = carryOut(rows, request);
  // A rejected sweep must not be stored: the clock may have been set back, and a later sweep has to decide again.
  if (!answer.ok && request.isSweep) throw new Error(`nothing to expire: ${answer.reason}`);
  if (!answer.ok) noteRefusal(rows, request, answer);
  const { recordedAt, windowEndsAt } = record(kept, now, rules.windowMs);
  const { action, digest, parameters, keyId: id, namespace, scope, key } = request;
  rows.putKey({
    id,
    namespace,
    scope,
    key,
    action,
    digest,
    parameters,
    answer,
    commitment,
    recordedAt,
    windowEndsAt,
    keptUntil: windowEndsAt + rules.historyMs,
    windowMs: rules.windowMs,
    salt: request.salt,
  });
  return answer;
}

/** Every refusal is an event of the resource that the request is about, if there is one. */
function noteRefusal(rows: WorkingSet, request: ActionRequest, { reason, detail: why }: Rejected): void {
  const { action, keyId } = request;
  const { id, resource } = request.parameters;
  const about = typeof id === "string" ? rows.commitment(id) : undefined;
  const name = about?.resource ?? (isName(resource) ? resource : undefined);
  const detail = { action, reason, why, commitment: about?.id };
  rows.note(name, unboundRequest(keyId, rows.now), { kind: "refused", by: request, detail });
}

function isInHistory(kept: KeyRecord, now: number, { historyMs }: Rules): boolean {
  return historyMs > 0 && now < kept.keptUntil;
}

function repeatAnswer(kept: KeyRecord, { action, digest, parameters }: ActionRequest): Answer {
  if (kept.action !== action)
    return rejection("token-collision", `this key was used for ${kept.action}; use a new one for ${action}`);
  if (kept.digest === digest) return kept.answer;
  const all = differences(kept.parameters, parameters);
  // Once the requester is erased, it cannot be compared.
  const known = kept.salt === undefined ? all.filter((name) => name !== "requester") : all;
  const names = (known.length === 0 ? all : known).join(", ");
  return rejection(
    "token-collision",
    `this key was used with another value of ${names}; use a new one for another request`,
  );
}

interface ActionResult {
  readonly answer: Answer;
  readonly commitment?: string | undefined;
}

function carryOut(rows: WorkingSet, request: ActionRequest): ActionResult {
  const { id, units } = request.parameters;
  if (request.denial !== undefined)
    return {
      answer: request.denial,
      commitment: typeof id === "string" ? rows.commitment(id)?.id : undefined,
    };
  switch (request.action) {
    case "placeHold":
      return placeHold(rows, request);
    case "confirm":
      return end(rows, request, "confirmed", (found, now) =>
        confirm(found, now, units as number | undefined),
      );
    case "release":
      return end(rows, request, "released", release);
    case "expire":
      return end(rows, request, "expired", expire);
    case "erase":
      return { answer: eraseRequester(rows, request), commitment: rows.commitment(String(id))?.id };
    case "giveBack":
      return { answer: returnUnits(rows, request), commitment: rows.commitment(String(id))?.id };
    default:
      return { answer: govern(rows, request) };
  }
}

function placeHold(rows: WorkingSet, request: ActionRequest): ActionResult {
  const { parameters, newId, salt } = request;
  const { rules, now } = rows;
  const placement = parameters as unknown as Placement;
  const problem = placementProblem(placement, rules.maxDurationMs);
  if (problem !== undefined) return { answer: rejection(problem.rejected, problem.detail) };
  const { units, requester } = placement;
  let allotment = take(rows.resource(placement.resource), units);
  // Expire holds whose time is over, oldest first, until there is enough room.
  for (const elapsed of isFull(allotment) ? rows.elapsed(placement.resource) : []) {
    if (!isFull(allotment)) break;
    settle(rows, elapsed, "expired", expire(elapsed, now), undefined);
    allotment = take(rows.resource(placement.resource), units);
  }
  if ("rejected" in allotment) return { answer: rejection(allotment.rejected, allotment.detail) };
  const { taken } = allotment.resource;
  const resource = rows.resource(placement.resource);
  const { available } = rules;
  if (available !== undefined && !isAvailable(available, { resource, requester, units, now }))
    return { answer: rejection("resource-unavailable", "available() did not allow this hold") };
  rows.putResource({ ...resource, taken });
  const placed = place(newId, placement, now);
  const { expiresAt } = placed;
  rows.putCommitment(
    { ...placed, namespace: rules.namespace, requesterSalt: salt, occupied: units, ...NO_EVENTS },
    {
      kind: "placed",
      by: request,
      detail: { resource: placement.resource, requester: saltedDigest(salt, requester), units, expiresAt },
    },
  );
  return { answer: { ok: true, id: newId }, commitment: newId };
}

function isFull(allotment: Allotment): boolean {
  return "rejected" in allotment && allotment.rejected === "resource-unavailable";
}

/** Confirms, releases or expires a hold. */
function end(
  rows: WorkingSet,
  request: ActionRequest,
  kind: "confirmed" | "released" | "expired",
  transition: (found: KeptCommitment | undefined, now: number) => Transition,
): ActionResult {
  const { id } = request.parameters;
  if (typeof id !== "string" || id === "")
    return { answer: rejection("invalid-request", "id must be the id of a commitment") };
  const found = rows.commitment(id);
  return { answer: settle(rows, found, kind, transition(found, rows.now), request), commitment: found?.id };
}

/** Records the end of a hold and frees the units that it no longer occupies. */
function settle(
  rows: WorkingSet,
  found: KeptCommitment | undefined,
  kind: EventKind,
  transition: Transition,
  by: ActionRequest | undefined,
): Answer {
  if ("rejected" in transition) return rejection(transition.rejected, transition.detail);
  const { commitment } = transition;
  const before = found as KeptCommitment;
  const occupied = commitment.confirmedUnits ?? 0;
  free(rows, before.resource, before.occupied - occupied);
  const { state, endedAt, confirmedUnits } = commitment;
  rows.putCommitment(
    { ...before, state, endedAt, confirmedUnits, occupied },
    { kind, by, at: endedAt, detail: { units: occupied } },
  );
  return { ok: true };
}

function free(rows: WorkingSet, name: string, units: number): void {
  const resource = rows.resource(name);
  if (units > 0) rows.putResource({ ...resource, ...giveBack(resource, units) });
}

/** Gives back some or all of the units that were confirmed. */
function returnUnits(rows: WorkingSet, request: ActionRequest): Answer {
  const { id, units } = request.parameters;
  if (typeof id !== "string" || id === "")
    return rejection("invalid-request", "id must be the id of a commitment");
  const found = rows.commitment(id);
  if (found === undefined) return rejection("not-known", "no commitment has this id");
  if (found.state !== "confirmed")
    return rejection(
      "invalid-request",
      `the commitment is ${found.state}; only confirmed units can be given back`,
    );
  if (units !== undefined && !isUnits(units))
    return rejection("invalid-request", "units must be a whole number from 1");
  const returned = units ?? found.occupied;
  if (returned > found.occupied || returned === 0)
    return rejection("units-exceeded", `only ${found.occupied} units are left to give back`);
  free(rows, found.resource, returned);
  rows.putCommitment(
    { ...found, occupied: found.occupied - returned },
    { kind: "given-back", by: request, detail: { units: returned } },
  );
  return { ok: true };
}

const GOVERNING = {
  declare: { kind: "declared", change: (found, name, capacity) => declare(found, name, capacity) },
  adjust: { kind: "adjusted", change: (found, _, capacity) => adjust(found, capacity) },
  suspend: { kind: "suspended", change: (found) => suspend(found) },
  resume: { kind: "resumed", change: (found) => resume(found) },
  close: { kind: "closed", change: (found) => close(found) },
} as const satisfies Record<
  string,
  { kind: EventKind; change: (found: KeptResource | undefined, name: string, capacity: unknown) => Allotment }
>;

function govern(rows: WorkingSet, request: ActionRequest): Answer {
  const { action, parameters } = request;
  const { resource: name, capacity } = parameters;
  if (!isName(name)) return rejection("invalid-request", `resource must be ${NAME}`);
  const { kind, change } = GOVERNING[action as keyof typeof GOVERNING];
  const allotment = change(rows.storedResource(name), name, capacity);
  if ("rejected" in allotment) return rejection(allotment.rejected as Reason, allotment.detail);
  const { resource } = allotment;
  rows.putResource(
    { ...rows.resource(name), ...resource },
    { kind, by: request, detail: { capacity: resource.capacity, state: resource.state } },
  );
  return { ok: true };
}
