/**
 * Provisional Commitment: units are held for a while, and then confirmed, released or expired, exactly once. Pure: the
 * stored commitment and the time go in, the commitment to write comes out. This file knows no keys and no stores.
 *
 *             confirm, before expiresAt
 *   held ──▶ confirmed
 *     ├────▶ released     release, at any time
 *     └────▶ expired      expire, from expiresAt on
 */
import { utf8Bytes } from "../core/bytes.ts";
import { MAX_PART_BYTES } from "../core/identity.ts";

export const COMMITMENT_STATES = ["held", "confirmed", "released", "expired"] as const;

/** The state of a commitment: held, confirmed, or how it ended. */
export type CommitmentState = (typeof COMMITMENT_STATES)[number];

/** A stored commitment. It is never deleted, and the values it was placed with never change. */
export interface Commitment {
  /** The id of the commitment. */
  readonly id: string;
  /** The resource that is held. */
  readonly resource: string;
  /** Who it is held for. */
  readonly requester: string;
  /** How many units were held. */
  readonly units: number;
  /** When it was placed, in milliseconds since the epoch. */
  readonly placedAt: number;
  /** When the hold ends unless it is confirmed, in milliseconds since the epoch. */
  readonly expiresAt: number;
  /** Whether it is held, confirmed, or how it ended. */
  readonly state: CommitmentState;
  /** When it was confirmed, released or expired. */
  readonly endedAt: number | undefined;
  /** How many of its units were confirmed; only in state `confirmed`. */
  readonly confirmedUnits: number | undefined;
}

export type CommitmentRejection =
  | "invalid-request"
  | "not-known"
  | "not-held"
  | "window-elapsed"
  | "window-not-elapsed"
  | "units-exceeded";

/** The commitment to write, or why nothing is written. */
export type Transition =
  | { readonly commitment: Commitment }
  | { readonly rejected: CommitmentRejection; readonly detail: string };

export interface Placement {
  readonly resource: string;
  readonly requester: string;
  readonly units: number;
  readonly durationMs: number;
}

/** The rule for names of resources and requesters, for messages. */
export const NAME = `a string that is not blank, of up to ${MAX_PART_BYTES} bytes`;

/** Why the hold cannot be placed. `maxDurationMs` is the longest time that a hold may last. */
export function placementProblem(
  placement: Placement,
  maxDurationMs: number,
): { rejected: "invalid-request"; detail: string } | undefined {
  const { resource, requester, units, durationMs } = placement;
  if (!isName(resource)) return invalid(`resource must be ${NAME}`);
  if (!isName(requester)) return invalid(`requester must be ${NAME}`);
  if (!isUnits(units)) return invalid("units must be a whole number from 1");
  if (!Number.isSafeInteger(durationMs) || durationMs < 1 || durationMs > maxDurationMs)
    return invalid(`durationMs must be a whole number from 1 to ${maxDurationMs}`);
  return undefined;
}

export function place(
  id: string,
  { resource, requester, units, durationMs }: Placement,
  now: number,
): Commitment {
  return {
    id,
    resource,
    requester,
    units,
    placedAt: now,
    expiresAt: now + durationMs,
    state: "held",
    endedAt: undefined,
    confirmedUnits: undefined,
  };
}

/** Rejected from `expiresAt` on, that instant included. `units`: how many to confirm; default all. */
export function confirm(found: Commitment | undefined, now: number, units?: number): Transition {
  const problem = notHeldRejection(found);
  if (problem !== undefined) return problem;
  const commitment = found as Commitment;
  if (isElapsed(commitment, now)) return rejected("window-elapsed", "the hold's time is over");
  if (units !== undefined && !isUnits(units))
    return rejected("invalid-request", "units must be a whole number from 1");
  const confirmed = units ?? commitment.units;
  if (confirmed > commitment.units)
    return rejected("units-exceeded", `cannot confirm ${confirmed} units: only ${commitment.units} are held`);
  return {
    commitment: {
      ...commitment,
      state: "confirmed",
      endedAt: endTime(commitment, now),
      confirmedUnits: confirmed,
    },
  };
}

/** Also works after `expiresAt`, until the expiry is recorded. */
export function release(found: Commitment | undefined, now: number): Transition {
  const problem = notHeldRejection(found);
  if (problem !== undefined) return problem;
  const commitment = found as Commitment;
  return { commitment: { ...commitment, state: "released", endedAt: endTime(commitment, now) } };
}

export function expire(found: Commitment | undefined, now: number): Transition {
  const problem = notHeldRejection(found);
  if (problem !== undefined) return problem;
  const commitment = found as Commitment;
  if (!isElapsed(commitment, now)) return rejected("window-not-elapsed", "the hold's time is not over yet");
  return { commitment: { ...commitment, state: "expired", endedAt: now } };
}

/** Whether its requester was erased. A requester is never empty otherwise. */
export function isErased({ requester }: Pick<Commitment, "requester">): boolean {
  return requester === "";
}

export function isElapsed({ expiresAt }: Commitment, now: number): boolean {
  return now >= expiresAt;
}

/** Never earlier than `placedAt`, even if the clock was set back. */
function endTime({ placedAt }: Commitment, now: number): number {
  return Math.max(now, placedAt);
}

function notHeldRejection(found: Commitment | undefined): Transition | undefined {
  if (found === undefined) return rejected("not-known", "no commitment has this id");
  if (found.state !== "held") return rejected("not-held", `the commitment is already ${found.state}`);
  return undefined;
}

function rejected(reason: CommitmentRejection, detail: string): Transition {
  return { rejected: reason, detail };
}

function invalid(detail: string): { rejected: "invalid-request"; detail: string } {
  return { rejected: "invalid-request", detail };
}

export function isUnits(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1;
}

/** Whether it can name a resource or a requester: a string that every store can write and find again. */
export function isName(text: unknown): text is string {
  return (
    typeof text === "string" && text.trim() !== "" && text.isWellFormed() && utf8Bytes(text) <= MAX_PART_BYTES
  );
}
