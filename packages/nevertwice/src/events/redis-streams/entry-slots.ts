/** The slots in which entries are processed at the same time. Claimed entries use at most half of them, so that new entries always find one. */
import type { StreamEntry } from "./group.ts";

export interface EntrySlots {
  /** How many more entries fit: new ones, or entries claimed from other consumers. */
  room(areClaimed: boolean): number;
  take(entries: readonly StreamEntry[], areClaimed: boolean): void;
  /** Resolves once a slot becomes free. */
  vacated(): Promise<void>;
  /** Resolves once all slots are free. */
  idle(): Promise<void>;
  taken(): number;
}

/** Handles an entry, and never rejects. After `release` the entry may be taken again, although its slot is not free yet. */
export type HandleEntry = (entry: StreamEntry, release: () => void) => Promise<void>;

export function createEntrySlots(concurrency: number, handle: HandleEntry): EntrySlots {
  const taken = new Set<Promise<void>>();
  const handledIds = new Set<string>();
  const mostClaimed = Math.max(1, Math.floor(concurrency / 2));
  let claimed = 0;

  async function occupy(entry: StreamEntry, isClaimed: boolean): Promise<void> {
    let isHeld = true;
    const release = () => {
      if (isHeld) handledIds.delete(entry.id);
      isHeld = false;
    };
    handledIds.add(entry.id);
    if (isClaimed) claimed++;
    await handle(entry, release);
    release();
    if (isClaimed) claimed--;
  }

  return {
    room(areClaimed) {
      const room = concurrency - taken.size;
      return areClaimed ? Math.min(room, mostClaimed - claimed) : room;
    },
    take(entries, areClaimed) {
      for (const entry of entries) {
        // Already being processed here, but its idle time was not reset in time.
        if (handledIds.has(entry.id)) continue;
        const slot = occupy(entry, areClaimed).then(() => void taken.delete(slot));
        taken.add(slot);
      }
    },
    vacated: () => Promise.race(taken),
    async idle() {
      await Promise.all(taken);
    },
    taken: () => taken.size,
  };
}
