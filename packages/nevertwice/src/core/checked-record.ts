/**
 * Checks records that are read from a database, since other programs can write to it too. A record that no version of this
 * library writes is refused with `store-unsafe`: it may be wrong, and trusting it could run completed work again.
 */
import { damagedRecord } from "./damaged-record.ts";
import { isNevertwiceError } from "./errors.ts";
import { partsFrom } from "./parts.ts";
import type { Kept } from "./record.ts";
import type { Parts, UnreadableRecord } from "./store.ts";

/** A record as the store read it, before it is checked. Its `parts` and its `id` are not checked here. */
export type RawRecord = Readonly<Record<Exclude<keyof Kept, "id" | "parts" | "steps" | "history">, unknown>> &
  Pick<Kept, "id" | "parts"> & { readonly steps?: unknown; readonly history?: unknown };

/** Above this, a number cannot represent every microsecond. No clock and no retention of ours reaches it. */
export const LAST_MICROSECOND = 2 ** 54;

const STATES: readonly unknown[] = ["pending", "completed", "released"];

const isTime = (value: unknown) =>
  typeof value === "number" && value >= 0 && value <= Number.MAX_SAFE_INTEGER;
/** A whole number from 1. A fence is never 0: MySQL could not report whether it wrote one. */
const isCount = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 1;
const isFlag = (value: unknown) => typeof value === "boolean";
const isTextOrNone = (value: unknown) => value === undefined || typeof value === "string";

const CHECKS: Readonly<Record<keyof Omit<RawRecord, "id" | "parts">, (value: unknown) => boolean>> = {
  state: (value) => STATES.includes(value),
  token: (value) => typeof value === "string" && value !== "",
  fingerprint: isTextOrNone,
  outcome: isTextOrNone,
  steps: isTextOrNone,
  history: isTextOrNone,
  spent: isFlag,
  hold: isFlag,
  tookOver: isFlag,
  fence: isCount,
  number: isCount,
  claimedAt: isTime,
  leaseMs: isTime,
  leaseEndsAt: isTime,
  retentionMs: isTime,
  keptUntil: isTime,
  completedAt: (value) => value === undefined || isTime(value),
};

const CHECKED = Object.entries(CHECKS) as readonly [keyof typeof CHECKS, (value: unknown) => boolean][];

/** Returns the record, or throws `store-unsafe` if this library cannot have written it. */
export function checkedRecord(raw: RawRecord): Kept {
  for (const [name, isSound] of CHECKED) if (!isSound(raw[name])) throw damagedRecord(raw.id, name);
  const record = raw as Kept;
  const { state, completedAt, leaseEndsAt, keptUntil, outcome } = record;
  // State, outcome and completedAt are always written together, so a mismatch means that the state was changed by hand.
  if ((state === "completed") !== (outcome !== undefined)) throw damagedRecord(raw.id, "outcome");
  if ((state === "completed") !== (completedAt !== undefined)) throw damagedRecord(raw.id, "completedAt");
  // retention-ends: a retention that ends before it begins would let the work run again immediately.
  if (state !== "released" && keptUntil < (completedAt ?? leaseEndsAt))
    throw damagedRecord(raw.id, "keptUntil");
  return record;
}

/** Parses what `partsText` wrote; throws `store-unsafe` for anything else. */
export function checkedParts(id: string, text: unknown): Parts {
  try {
    const parts = partsFrom(text as string);
    if (Object.values(parts).every((part) => typeof part === "string")) return parts;
  } catch {
    // The text is not a JSON array.
  }
  throw damagedRecord(id, "parts");
}

/** A flag that the database keeps as 0 or 1. Anything else becomes undefined, which `checkedRecord` refuses. */
export function flagFrom(value: unknown): boolean | undefined {
  return value === 1 ? true : value === 0 ? false : undefined;
}

/** Reads each row. A damaged row is listed in `unreadable`, so that it does not hide the others. */
export function readEach<Row, Value>(
  rows: readonly Row[],
  idOf: (row: Row) => string,
  read: (row: Row) => Value,
): { readonly values: readonly Value[]; readonly unreadable: readonly UnreadableRecord[] } {
  const values: Value[] = [];
  const unreadable: UnreadableRecord[] = [];
  for (const row of rows) {
    try {
      values.push(read(row));
    } catch (error) {
      if (!isNevertwiceError(error, "store-unsafe")) throw error;
      unreadable.push({ id: idOf(row), reason: error.message });
    }
  }
  return { values, unreadable };
}
