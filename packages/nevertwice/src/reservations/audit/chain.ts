/** Folds the events of a subject, one by one, into the few facts that are needed to judge the events and their row. */
import { type EventKind, hashEvent, type JournalEvent, resourceSubject } from "../journal.ts";
import type { Judgement } from "./findings.ts";

/** The content of a `placed` event; a part is undefined if the event cannot be parsed. */
export interface PlacedNote {
  readonly at: number;
  readonly resource: unknown;
  readonly requester: unknown;
  readonly units: unknown;
  readonly expiresAt: unknown;
}

export interface EndNote {
  readonly kind: EventKind;
  readonly at: number;
  readonly units: unknown;
}

export interface GovernedNote {
  readonly capacity: unknown;
  readonly state: unknown;
}

export interface Chain {
  readonly subject: string;
  /** The resource of its first event. */
  readonly resource: string | undefined;
  count: number;
  lastNumber: number;
  /** The position of the last event in the chain of its resource. */
  lastEntry: number;
  lastHash: string;
  lastAt: number;
  placed: PlacedNote | undefined;
  /** The number of `placed` events. */
  placements: number;
  end: EndNote | undefined;
  ends: number;
  /** Events at an impossible position: after an end, or after `closed`. */
  readonly misplaced: string[];
  readonly backwards: string[];
  readonly gaps: string[];
  readonly wrongHashes: string[];
  readonly withoutKey: string[];
  /** Events of another resource than the first one. */
  readonly strays: string[];
  isErased: boolean;
  givenBack: number;
  governed: GovernedNote | undefined;
  closedAt: number | undefined;
}

/** The most problems remembered of each kind. */
const MAX_PROBLEMS = 3;
const GOVERNING: readonly EventKind[] = ["declared", "adjusted", "suspended", "resumed", "closed"];
const ENDING: readonly EventKind[] = ["confirmed", "released", "expired"];

export function openChain(subject: string, resource: string | undefined): Chain {
  return {
    subject,
    resource,
    count: 0,
    lastNumber: 0,
    lastEntry: 0,
    lastHash: "",
    lastAt: 0,
    placed: undefined,
    placements: 0,
    end: undefined,
    ends: 0,
    misplaced: [],
    backwards: [],
    gaps: [],
    wrongHashes: [],
    withoutKey: [],
    strays: [],
    isErased: false,
    givenBack: 0,
    governed: undefined,
    closedAt: undefined,
  };
}

/** Adds the next event. Events are added in the order of their numbers. */
export function addEvent(chain: Chain, event: JournalEvent): void {
  const { subject, number, entry, resource, kind, at, keyId, hash } = event;
  const named = `event ${number} (${kind})`;
  const isGoverned = subject === resourceSubject(String(resource));
  // A resource numbers its own events by their position in its chain, which also has those of its commitments.
  const expected = isGoverned ? Math.max(entry, chain.lastNumber + 1) : chain.lastNumber + 1;
  if (number !== expected) addProblem(chain.gaps, `${named} was found where event ${expected} should be`);
  if (resource !== chain.resource || isGoverned !== subject.startsWith("resource:"))
    addProblem(chain.strays, `${named} is in the chain of ${String(resource)}`);
  if (hashEvent(event) !== hash) addProblem(chain.wrongHashes, `${named} does not match its hash`);
  if (keyId === undefined && kind !== "expired") addProblem(chain.withoutKey, `${named} has no key`);
  if (at < chain.lastAt) addProblem(chain.backwards, `${named} is earlier than the previous event`);
  applyEvent(chain, event, named);
  chain.count++;
  chain.lastNumber = number;
  chain.lastEntry = entry;
  chain.lastHash = hash;
  chain.lastAt = at;
}

function applyEvent(chain: Chain, { kind, at, detail, subject }: JournalEvent, named: string): void {
  const { resource, requester, units, expiresAt, capacity, state } = parseDetail(detail);
  if (kind === "erased") {
    if (chain.end === undefined || chain.isErased)
      addProblem(chain.misplaced, `${named} cannot be at this position`);
    chain.isErased = true;
  } else if ((GOVERNING.includes(kind) || kind === "refused") !== subject.startsWith("resource:"))
    addProblem(chain.misplaced, `${named} cannot happen to ${subject}`);
  else if (kind === "placed") {
    chain.placements++;
    chain.placed ??= { at, resource, requester, units, expiresAt };
  } else if (ENDING.includes(kind)) {
    if (chain.end !== undefined)
      addProblem(chain.misplaced, `${named} comes after the end (${chain.end.kind})`);
    chain.end ??= { kind, at, units };
    chain.ends++;
  } else if (kind === "given-back") {
    if (chain.end?.kind !== "confirmed")
      addProblem(chain.misplaced, `${named} does not come after confirmed`);
    chain.givenBack += Number(units);
  } else if (kind !== "refused") {
    if (chain.closedAt !== undefined) addProblem(chain.misplaced, `${named} comes after closed`);
    if ((kind === "declared") !== (chain.governed === undefined))
      addProblem(chain.misplaced, `${named} cannot be at this position`);
    chain.governed = { capacity, state };
    if (kind === "closed") chain.closedAt ??= at;
  }
}

/** Checks the invariants that hold for every chain. */
export function judgeChain(judgement: Judgement, chain: Chain): void {
  const { subject, gaps, wrongHashes, withoutKey, strays, count } = chain;
  judgement.pass("J1", count - gaps.length);
  for (const problem of [...gaps, ...strays]) judgement.check("J1", subject, false, problem);
  judgement.pass("J2", count - wrongHashes.length);
  for (const problem of wrongHashes) judgement.check("J2", subject, false, problem);
  judgement.check("J5", subject, withoutKey.length === 0, () => withoutKey.join("; "));
}

/** The parsed detail of an event; empty if it is not a JSON object. */
export function parseDetail(detail: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(detail);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function addProblem(list: string[], problem: string): void {
  if (list.length < MAX_PROBLEMS) list.push(problem);
}
