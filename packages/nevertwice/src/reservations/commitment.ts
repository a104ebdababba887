/**
 * Provisional Commitment: something is held for a while, and then confirmed, released or expired, once. Pure: what was
 * found and the time go in, what is to be written comes out. It knows of no key, no store and no other resource.
 *
 *             confirm, before expiresAt
 *   held ──▶ confirmed
 *     ├────▶ released     release, at any time
 *     └────▶ expired      expire, from expiresAt on
 */
import { utf8Bytes } from "../core/bytes.ts";
import { MAX_PART_BYTES } from "../core/identity.ts";

export type CommitmentState = "held" | "confirmed" | "released" | "expired";

/** A commitment as it is stored. It is never deleted, and what it was placed with never changes. */
export interface Commitment {
  readonly id: string;
  readonly resource: string;
  readonly requester: string;
  readonly units: number;
  readonly placedAt: number;
  readonly expiresAt: number;
  readonly state: CommitmentState;
  /** When it left `held`: the one instant of its end, whichever that was. */
  readonly endedAt: number | undefined;
  /** How many of its units were confirmed. */
  readonly confirmedUnits: number | undefined;
}

export type CommitmentRejection =
  | "invalid-request"
  | "not-known"
  | "not-held"
  | "window-elapsed"
  | "window-not-elapsed"
  | "units-exceeded";

/** What to write, or why nothing is. */
export type Transition =
  | { readonly commitment: Commitment }
  | { readonly rejected: CommitmentRejection; readonly detail: string };

export interface Placement {
  readonly resource: string;
  readonly requester: string;
  readonly units: number;
  readonly durationMs: number;
}

/** What a resource and a requester are named by, in words. */
export const NAME = `text that is not blank, of up to ${MAX_PART_BYTES} bytes`;

/** `maxDurationMs` bounds how long anything may be held. */
export function placeable(
  asked: Placement,
  maxDurationMs: number,
): { rejected: "invalid-request"; detail: string } | undefined {
  const { resource, requester, units, durationMs } = asked;
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

/** At the very instant of its end a hold can no longer be confirmed. `units` are all of them unless it says fewer. */
export function confirm(found: Commitment | undefined, now: number, units?: number): Transition {
  const wrong = notHeld(found);
  if (wrong !== undefined) return wrong;
  const commitment = found as Commitment;
  if (isElapsed(commitment, now)) return rejected("window-elapsed", "the hold's time is over");
  if (units !== undefined && !isUnits(units))
    return rejected("invalid-request", "units must be a whole number from 1");
  const confirmed = units ?? commitment.units;
  if (confirmed > commitment.units)
    return rejected("units-exceeded", `${commitment.units} are held, and ${confirmed} cannot be confirmed`);
  return {
    commitment: {
      ...commitment,
      state: "confirmed",
      endedAt: endOf(commitment, now),
      confirmedUnits: confirmed,
    },
  };
}

/** Also after its time, as long as nobody has written that it expired. */
export function release(found: Commitment | undefined, now: number): Transition {
  const wrong = notHeld(found);
  if (wrong !== undefined) return wrong;
  const commitment = found as Commitment;
  return { commitment: { ...commitment, state: "released", endedAt: endOf(commitment, now) } };
}

export function expire(found: Commitment | undefined, now: number): Transition {
  const wrong = notHeld(found);
  if (wrong !== undefined) return wrong;
  const commitment = found as Commitment;
  if (!isElapsed(commitment, now)) return rejected("window-not-elapsed", "the hold's time is not over yet");
  return { commitment: { ...commitment, state: "expired", endedAt: now } };
}

export function isElapsed({ expiresAt }: Commitment, now: number): boolean {
  return now >= expiresAt;
}

/** A clock that was turned back ends nothing before it was placed. */
function endOf({ placedAt }: Commitment, now: number): number {
  return Math.max(now, placedAt);
}

function notHeld(found: Commitment | undefined): Transition | undefined {
  if (found === undefined) return rejected("not-known", "there is no commitment with this id");
  if (found.state !== "held") return rejected("not-held", `it is ${found.state} already`);
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

/** Of a resource or a requester: text that every store can keep and look up. */
export function isName(text: unknown): text is string {
  return (
    typeof text === "string" && text.trim() !== "" && text.isWellFormed() && utf8Bytes(text) <= MAX_PART_BYTES
  );
}
