/**
 * Counts held keys for a quota. They stay in the store until they are decided, long after the block in which they were
 * counted is free again: without this count, a caller could leave any number of them behind.
 */
import type { Engine } from "../core/engine.ts";
import { isNevertwiceError } from "../core/errors.ts";

/** A list is read page by page, and no further than this: it is read once for each block. */
const PAGES = 10;
const PAGE = 1_000;

export interface UndecidedKeys {
  /** Undefined for keys without an owner. */
  readonly scope: string | undefined;
  readonly isForAllScopes: boolean;
  /** Only keys whose last claim is older than this, in milliseconds since the epoch. */
  readonly claimedBefore: number;
  readonly most: number;
}

/** The count, up to `most` and to what ten pages hold. 0 for a store that cannot list. */
export async function countUndecided(
  engine: Engine,
  { scope, isForAllScopes, claimedBefore, most }: UndecidedKeys,
): Promise<number> {
  let count = 0;
  let after: string | undefined;
  try {
    for (let pages = 0; pages < PAGES && count < most; pages++) {
      const page = await engine.list({ state: "lapsed", limit: PAGE, scope: scope || undefined, after });
      count += page.records.filter(
        (record) =>
          record.held &&
          record.claimedAt < claimedBefore &&
          (isForAllScopes || (record.scope || undefined) === scope),
      ).length;
      after = page.next;
      if (after === undefined) break;
    }
  } catch (error) {
    if (!isNevertwiceError(error, "options-invalid")) throw error;
  }
  return Math.min(count, most);
}
