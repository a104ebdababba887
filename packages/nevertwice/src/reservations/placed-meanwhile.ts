/**
 * The resources to lock are looked up before the locks are taken. A commitment that another transaction commits while this one
 * waits is found, but its resource is not locked, and its row was not read. Nothing may be decided from that.
 */
import type { LockedRows } from "./store.ts";

/** The transaction has not locked the resource of this commitment. Repeated, it will. */
export class PlacedMeanwhile extends Error {
  constructor(id: string) {
    super(`the commitment ${id} was placed while the transaction waited for a lock`);
  }
}

/** Throws `PlacedMeanwhile` if the resource of a commitment is not among the locked ones. */
export function requireLockedResources({ commitments }: LockedRows, names: readonly string[]): void {
  if (commitments.size === 0) return;
  const locked = new Set(names);
  for (const { id, resource } of commitments.values())
    if (!locked.has(resource)) throw new PlacedMeanwhile(id);
}
