/**
 * Checks that the cells of a row agree with each other before an action relies on them. A row that contradicts itself was
 * edited or damaged, and acting on it could hold a unit twice: the action throws `store-unsafe` and writes nothing. Only
 * the audit checks a row against its events, since that means reading all of them.
 */
import { NevertwiceError } from "../core/errors.ts";
import type { KeptCommitment, KeptResource, KeyRecord } from "./store.ts";

export function consistentKey(key: KeyRecord): KeyRecord {
  const { id, recordedAt, windowEndsAt, keptUntil, windowMs } = key;
  if (!(recordedAt < windowEndsAt))
    throw contradiction(`key ${id}`, "its window does not end after it begins");
  if (windowMs !== undefined && windowEndsAt - recordedAt !== windowMs)
    throw contradiction(`key ${id}`, `its window is not the ${windowMs} ms that it was recorded with`);
  if (keptUntil < windowEndsAt)
    throw contradiction(`key ${id}`, "its answer is kept for less than its window");
  return key;
}

export function consistentCommitment(commitment: KeptCommitment): KeptCommitment {
  if (isConsistent(commitment)) return commitment;
  const { id, state, units, occupied } = commitment;
  throw contradiction(`commitment ${id}`, `it is ${state}, has ${units} units, and occupies ${occupied}`);
}

/** Whether the times and the units fit the state. */
export function isConsistent(commitment: KeptCommitment): boolean {
  const { state, units, placedAt, expiresAt, endedAt, confirmedUnits, occupied } = commitment;
  if (placedAt >= expiresAt || (state === "held") !== (endedAt === undefined)) return false;
  if ((state === "confirmed") !== (confirmedUnits !== undefined)) return false;
  if (state === "held") return occupied === units;
  return confirmedUnits === undefined
    ? occupied === 0
    : confirmedUnits <= units && occupied <= confirmedUnits;
}

export function consistentResource(resource: KeptResource): KeptResource {
  const { name, capacity, taken, state, isDeclared } = resource;
  if (taken > capacity)
    throw contradiction(`resource ${name}`, `${taken} units are taken of a capacity of ${capacity}`);
  if (!isDeclared && (capacity !== 1 || state !== "open"))
    throw contradiction(
      `resource ${name}`,
      `it is not declared, but has capacity ${capacity} and is ${state}`,
    );
  return resource;
}

function contradiction(what: string, problem: string): NevertwiceError {
  return new NevertwiceError(
    "store-unsafe",
    `the stored record of ${what} contradicts itself: ${problem}. Restore it from a backup; the audit shows more.`,
  );
}
