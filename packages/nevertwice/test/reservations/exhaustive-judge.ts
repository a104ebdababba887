/** Judges a commit by its events and rows alone. The judge knows the promises, but shares no rule with the library. */
import { isDeepStrictEqual } from "node:util";
import type { KeptCommitment } from "../../src/reservations/store.ts";
import { type Bound, type Decision, type Op, partText, type State, type World } from "./exhaustive-world.ts";

/** The first problem, if there is one. */
export function wrongWith(
  world: World,
  before: State,
  after: State,
  op: Op,
  decision: Decision,
): string | undefined {
  return (
    wrongAnswers(world, before, op, decision) ??
    wrongEvents(before, decision) ??
    wrongRows(before, after) ??
    wrongSums(after)
  );
}

/** Finds an answer that is missing although its key is recorded. */
export function lostAnswer({ rules: { windowMs } }: World, { bound, keys, now }: State): string | undefined {
  for (const [key, { at, answer }] of bound)
    if (now < at + windowMs && !isDeepStrictEqual(keys.get(key)?.answer, answer))
      return `the answer of ${key} is gone at ${now}, and its window ends at ${at + windowMs}`;
  return undefined;
}

/** What the judge remembers after this commit. */
export function boundAfter(
  { rules: { windowMs } }: World,
  { bound }: State,
  { parts }: Op,
  { at, answers }: Decision,
): ReadonlyMap<string, Bound> {
  const next = new Map(bound);
  parts.forEach((part, index) => {
    const known = next.get(part.key);
    const answer = answers[index];
    if (answer === undefined || (known !== undefined && at < known.at + windowMs)) return;
    next.set(part.key, { part: partText(part), answer, at });
  });
  return next;
}

function wrongAnswers(
  { rules: { windowMs } }: World,
  { bound }: State,
  { parts }: Op,
  { at, answers, writes }: Decision,
): string | undefined {
  const known = new Map(bound);
  for (const [index, part] of parts.entries()) {
    const answer = answers[index];
    if (answer === undefined) return `${partText(part)} has no answer`;
    const first = known.get(part.key);
    if (first === undefined || at >= first.at + windowMs) {
      known.set(part.key, { part: partText(part), answer, at });
      continue;
    }
    const isFirstHere = !isDeepStrictEqual(first, bound.get(part.key));
    if (!isFirstHere && writes.events.some(({ keyId }) => keyId === part.key))
      return `${partText(part)} had a second effect within its window`;
    if (first.part !== partText(part)) {
      if (answer.ok || answer.reason !== "token-collision")
        return `${partText(part)} was let through: ${first.part} has the key`;
    } else if (!isDeepStrictEqual(answer, first.answer)) return `${partText(part)} was answered in two ways`;
  }
  for (const { key } of parts)
    if (writes.events.filter(({ keyId }) => keyId === key).length > 1)
      return `${key} had two effects at once`;
  return undefined;
}

function wrongEvents(before: State, { clock, writes: { events } }: Decision): string | undefined {
  const states = new Map([...before.commitments].map(([id, { state }]) => [id, state as string]));
  const ends = new Map([...before.commitments].map(([id, { expiresAt }]) => [id, expiresAt]));
  for (const { subject, kind, at, detail } of events) {
    const id = subject.slice("commitment:".length);
    const state = states.get(id);
    const expiresAt = ends.get(id) ?? Number.NaN;
    if (at !== clock) return `${subject} was ${kind} at ${at}, when the clock said ${clock}`;
    if (kind === "refused") continue;
    if (kind === "placed") {
      if (state !== undefined) return `${subject} was placed twice`;
      states.set(id, "held");
      ends.set(id, JSON.parse(detail).expiresAt);
    } else if (kind === "given-back") {
      if (state !== "confirmed") return `${subject} was given back when it was ${state}`;
    } else {
      if (state !== "held") return `${subject} was ${kind} when it was ${state}`;
      if (kind === "confirmed" && clock >= expiresAt)
        return `${subject} was confirmed at ${clock}, and was over at ${expiresAt}`;
      if (kind === "expired" && clock < expiresAt)
        return `${subject} expired at ${clock}, before ${expiresAt}`;
      states.set(id, kind);
    }
  }
  return undefined;
}

function wrongRows(before: State, after: State): string | undefined {
  for (const [id, old] of before.commitments) {
    const row = after.commitments.get(id);
    if (row === undefined) return `${id} is gone`;
    if (!isDeepStrictEqual(placing(row), placing(old))) return `${id} is not what was placed`;
    if (old.state !== "held" && (row.state !== old.state || row.endedAt !== old.endedAt))
      return `${id} ended twice`;
  }
  return undefined;
}

function wrongSums({ resources, commitments }: State): string | undefined {
  for (const { name, taken, capacity } of resources.values()) {
    const rows = [...commitments.values()].filter(({ resource }) => resource === name);
    const sum = rows.reduce((total, row) => total + due(row), 0);
    if (rows.some((row) => row.occupied > due(row) || row.occupied < 0))
      return `a hold takes up what it may not of ${name}`;
    const occupied = rows.reduce((total, row) => total + row.occupied, 0);
    if (occupied !== taken) return `${taken} of ${name} are taken, and its holds take up ${occupied}`;
    if (taken > capacity || sum < taken) return `${taken} of ${name} are taken, of ${capacity}`;
  }
  return undefined;
}

/** The most units that a commitment may occupy. */
function due({ state, units, confirmedUnits = 0 }: KeptCommitment): number {
  if (state === "held") return units;
  return state === "confirmed" ? confirmedUnits : 0;
}

function placing({ id, resource, requester, units, placedAt, expiresAt }: KeptCommitment): object {
  return { id, resource, requester, units, placedAt, expiresAt };
}
