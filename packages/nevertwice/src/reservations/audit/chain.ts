/** A chain of events, folded one by one into the little that is needed to judge it and the row it belongs to. */
import { type EventKind, hashOf, type JournalEvent } from "../journal.ts";
import type { Judgement } from "./findings.ts";

/** What was written when it was placed; parts are undefined if the event cannot be read. */
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
  count: number;
  lastNumber: number;
  lastHash: string;
  lastAt: number;
  placed: PlacedNote | undefined;
  /** How often it was placed. */
  placements: number;
  end: EndNote | undefined;
  ends: number;
  /** Events that cannot be where they are: after an end, or after `closed`. */
  readonly misplaced: string[];
  readonly backwards: string[];
  readonly gaps: string[];
  readonly wrongHashes: string[];
  readonly withoutKey: string[];
  givenBack: number;
  governed: GovernedNote | undefined;
  closedAt: number | undefined;
}

const FEW = 3;
const GOVERNING: readonly EventKind[] = ["declared", "adjusted", "suspended", "resumed", "closed"];
const ENDING: readonly EventKind[] = ["confirmed", "released", "expired"];

export function openChain(subject: string): Chain {
  return {
    subject,
    count: 0,
    lastNumber: 0,
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
    givenBack: 0,
    governed: undefined,
    closedAt: undefined,
  };
}

/** Takes the next event, in the order of their numbers. */
export function addTo(chain: Chain, event: JournalEvent): void {
  const { number, kind, at, keyId, previous, hash } = event;
  const named = `event ${number} (${kind})`;
  if (number !== chain.lastNumber + 1)
    note(chain.gaps, `${named} is where ${chain.lastNumber + 1} should be`);
  else if (previous !== chain.lastHash) note(chain.gaps, `${named} does not follow the hash before it`);
  if (hashOf(event) !== hash) note(chain.wrongHashes, `${named} is not what was hashed`);
  if (keyId === undefined && kind !== "expired") note(chain.withoutKey, `${named} names no key`);
  if (at < chain.lastAt) note(chain.backwards, `${named} is before the one before it`);
  take(chain, event, named);
  chain.count++;
  chain.lastNumber = number;
  chain.lastHash = hash;
  chain.lastAt = at;
}

function take(chain: Chain, { kind, at, detail, subject }: JournalEvent, named: string): void {
  const { resource, requester, units, expiresAt, capacity, state } = parsed(detail);
  if (GOVERNING.includes(kind) !== subject.startsWith("resource:"))
    note(chain.misplaced, `${named} is of no such thing`);
  else if (kind === "placed") {
    chain.placements++;
    chain.placed ??= { at, resource, requester, units, expiresAt };
  } else if (ENDING.includes(kind)) {
    if (chain.end !== undefined) note(chain.misplaced, `${named} follows its end, ${chain.end.kind}`);
    chain.end ??= { kind, at, units };
    chain.ends++;
  } else if (kind === "given-back") {
    if (chain.end?.kind !== "confirmed") note(chain.misplaced, `${named} follows no confirmed`);
    chain.givenBack += Number(units);
  } else {
    if (chain.closedAt !== undefined) note(chain.misplaced, `${named} follows closed`);
    if ((kind === "declared") !== (chain.governed === undefined))
      note(chain.misplaced, `${named} is not where it can be`);
    chain.governed = { capacity, state };
    if (kind === "closed") chain.closedAt ??= at;
  }
}

/** What holds of every chain, whatever it belongs to. */
export function judgeChain(judgement: Judgement, chain: Chain): void {
  const { subject, gaps, wrongHashes, withoutKey, count } = chain;
  judgement.pass("J1", count - gaps.length);
  for (const problem of gaps) judgement.ask("J1", subject, false, problem);
  judgement.pass("J2", count - wrongHashes.length);
  for (const problem of wrongHashes) judgement.ask("J2", subject, false, problem);
  judgement.ask("J5", subject, withoutKey.length === 0, () => withoutKey.join("; "));
}

/** What an event says, or nothing that can be read. */
export function parsed(detail: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(detail);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function note(list: string[], problem: string): void {
  if (list.length < FEW) list.push(problem);
}
