/**
 * The wiring: commitments, the registry and the guard against duplicates, decided together. Pure: what a transaction
 * found and its one reading of the clock go in, the answers and all that is to be written come out.
 *
 *   key seen ──────▶ same action, same digest: the answer that was kept · else token-collision
 *   key not seen ──▶ the action is decided ──▶ its answer is kept under the key, whatever it is
 */
import { type Answer, type Reason, rejection } from "./answer.ts";
import { type Asked, differences } from "./asked.ts";
import { type Books, openBooks } from "./books.ts";
import {
  confirm,
  expire,
  isName,
  isUnits,
  NAME,
  type Placement,
  place,
  placeable,
  release,
  type Transition,
} from "./commitment.ts";
import { check, record } from "./duplicate-prevention.ts";
import { type EventKind, NO_EVENTS } from "./journal.ts";
import type { Found, KeptCommitment, KeptResource, KeyRecord, Needs, Rules, Writes } from "./ledger.ts";
import { type Allotment, adjust, close, declare, giveBack, resume, suspend, take } from "./registry.ts";

export interface Decided {
  readonly answers: readonly Answer[];
  readonly writes: Writes;
}

/** The rows that a store must lock for these actions. */
export function needsOf(group: readonly Asked[]): Needs {
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
    keyIds: [...new Set(group.map(({ keyId }) => keyId))].sort(),
    commitmentIds: [...commitmentIds].sort(),
    resources: [...resources].sort(),
    placements: [...placements]
      .map(([resource, most]) => ({ resource, most: Math.min(most, Number.MAX_SAFE_INTEGER) }))
      .sort((a, b) => (a.resource < b.resource ? -1 : 1)),
  };
}

/** Decides the actions in their order; a later one sees what an earlier one wrote. */
export function decide(
  group: readonly Asked[],
  found: Found,
  now: number,
  rules: Rules,
  checkpoint: string,
): Decided {
  const books = openBooks(found, now, rules, checkpoint);
  const answers = group.map((asked) => answerTo(books, asked));
  return { answers, writes: books.writes() };
}

function answerTo(books: Books, asked: Asked): Answer {
  const { now, rules } = books;
  const kept = books.key(asked.keyId);
  if (kept !== undefined && (check(kept, now) === "seen" || isInHistory(kept, now, rules)))
    return answerAgain(kept, asked);
  const { answer, commitment } = carryOut(books, asked);
  const { recordedAt, windowEndsAt } = record(kept, now, rules.windowMs);
  const { action, digest, parameters, keyId: id, namespace, scope, key } = asked;
  books.putKey({
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
  });
  return answer;
}

function isInHistory(kept: KeyRecord, now: number, { historyMs }: Rules): boolean {
  return historyMs > 0 && now < kept.keptUntil;
}

function answerAgain(kept: KeyRecord, { action, digest, parameters }: Asked): Answer {
  if (kept.action !== action)
    return rejection("token-collision", `this key was used for ${kept.action}; use a new one for ${action}`);
  if (kept.digest === digest) return kept.answer;
  const names = differences(kept.parameters, parameters).join(", ");
  return rejection(
    "token-collision",
    `this key was used with another value of ${names}; use a new one for another request`,
  );
}

interface Outcome {
  readonly answer: Answer;
  readonly commitment?: string | undefined;
}

function carryOut(books: Books, asked: Asked): Outcome {
  const { id, units } = asked.parameters;
  switch (asked.action) {
    case "placeHold":
      return placeHold(books, asked);
    case "confirm":
      return end(books, asked, "confirmed", (found, now) => confirm(found, now, units as number | undefined));
    case "release":
      return end(books, asked, "released", release);
    case "expire":
      return end(books, asked, "expired", expire);
    case "giveBack":
      return { answer: returnUnits(books, asked), commitment: books.commitment(String(id))?.id };
    default:
      return { answer: govern(books, asked) };
  }
}

function placeHold(books: Books, { parameters, newId, keyId }: Asked): Outcome {
  const { rules, now } = books;
  const asked = parameters as unknown as Placement;
  const wrong = placeable(asked, rules.maxDurationMs);
  if (wrong !== undefined) return { answer: rejection(wrong.rejected, wrong.detail) };
  const { units, requester } = asked;
  let allotment = take(books.resource(asked.resource), units);
  // Holds whose time is over make room, as many as are needed and no more.
  for (const elapsed of books.elapsed(asked.resource)) {
    if (!isFull(allotment)) break;
    settle(books, elapsed, "expired", expire(elapsed, now), undefined);
    allotment = take(books.resource(asked.resource), units);
  }
  if ("rejected" in allotment) return { answer: rejection(allotment.rejected, allotment.detail) };
  const { resource } = allotment;
  if (rules.available?.({ resource: books.resource(asked.resource), requester, units, now }) === false)
    return { answer: rejection("resource-unavailable", "it may not be held now") };
  books.putResource({ ...books.resource(asked.resource), taken: resource.taken });
  const placed = place(newId, asked, now);
  const { expiresAt } = placed;
  books.putCommitment(
    { ...placed, namespace: rules.namespace, occupied: units, ...NO_EVENTS },
    { kind: "placed", keyId, detail: { resource: asked.resource, requester, units, expiresAt } },
  );
  return { answer: { ok: true, id: newId }, commitment: newId };
}

function isFull(allotment: Allotment): boolean {
  return "rejected" in allotment && allotment.rejected === "resource-unavailable";
}

/** One of the three ends of a hold. */
function end(
  books: Books,
  { parameters, keyId }: Asked,
  kind: "confirmed" | "released" | "expired",
  transit: (found: KeptCommitment | undefined, now: number) => Transition,
): Outcome {
  const { id } = parameters;
  if (typeof id !== "string" || id === "")
    return { answer: rejection("invalid-request", "id must be that of a commitment") };
  const found = books.commitment(id);
  return { answer: settle(books, found, kind, transit(found, books.now), keyId), commitment: found?.id };
}

/** Writes the end of a hold, and gives back what it no longer takes up. */
function settle(
  books: Books,
  found: KeptCommitment | undefined,
  kind: EventKind,
  transition: Transition,
  keyId: string | undefined,
): Answer {
  if ("rejected" in transition) return rejection(transition.rejected, transition.detail);
  const { commitment } = transition;
  const before = found as KeptCommitment;
  const occupied = commitment.confirmedUnits ?? 0;
  free(books, before.resource, before.occupied - occupied);
  const { state, endedAt, confirmedUnits } = commitment;
  books.putCommitment(
    { ...before, state, endedAt, confirmedUnits, occupied },
    { kind, keyId, at: endedAt, detail: { units: occupied } },
  );
  return { ok: true };
}

function free(books: Books, name: string, units: number): void {
  const resource = books.resource(name);
  if (units > 0) books.putResource({ ...resource, ...giveBack(resource, units) });
}

/** What was confirmed is given back, all of it or some. */
function returnUnits(books: Books, { parameters, keyId }: Asked): Answer {
  const { id, units } = parameters;
  if (typeof id !== "string" || id === "")
    return rejection("invalid-request", "id must be that of a commitment");
  const found = books.commitment(id);
  if (found === undefined) return rejection("not-known", "there is no commitment with this id");
  if (found.state !== "confirmed")
    return rejection("invalid-request", `it is ${found.state}; only what was confirmed is given back`);
  if (units !== undefined && !isUnits(units))
    return rejection("invalid-request", "units must be a whole number from 1");
  const returned = units ?? found.occupied;
  if (returned > found.occupied || returned === 0)
    return rejection("units-exceeded", `${found.occupied} are left to give back`);
  free(books, found.resource, returned);
  books.putCommitment(
    { ...found, occupied: found.occupied - returned },
    { kind: "given-back", keyId, detail: { units: returned } },
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

function govern(books: Books, { action, parameters, keyId }: Asked): Answer {
  const { resource: name, capacity } = parameters;
  if (!isName(name)) return rejection("invalid-request", `resource must be ${NAME}`);
  const { kind, change } = GOVERNING[action as keyof typeof GOVERNING];
  const allotment = change(books.declared(name), name, capacity);
  if ("rejected" in allotment) return rejection(allotment.rejected as Reason, allotment.detail);
  const { resource } = allotment;
  books.putResource(
    { ...books.resource(name), ...resource },
    { kind, keyId, detail: { capacity: resource.capacity, state: resource.state } },
  );
  return { ok: true };
}
