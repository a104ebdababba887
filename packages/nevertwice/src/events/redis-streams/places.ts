/** The places in which entries are worked on, so many at once. Old entries leave room for new ones, however many there are. */
import type { StreamEntry } from "./group.ts";

export interface Places {
  /** For how many more there is room: for entries that nobody was given yet, or for old ones. */
  room(areOld: boolean): number;
  take(entries: readonly StreamEntry[], areOld: boolean): void;
  /** Resolves once a place is given up. */
  vacated(): Promise<void>;
  /** Resolves once all are. */
  idle(): Promise<void>;
  taken(): number;
}

/** Works on an entry, and never rejects. From `letGo` on the entry may be taken again, though its place is not free yet. */
export type Serve = (entry: StreamEntry, letGo: () => void) => Promise<void>;

export function placesFor(concurrency: number, serve: Serve): Places {
  const taken = new Set<Promise<void>>();
  const workedOn = new Set<string>();
  const mostOld = Math.max(1, Math.floor(concurrency / 2));
  let old = 0;

  async function occupy(entry: StreamEntry, isOld: boolean): Promise<void> {
    let isOurs = true;
    const letGo = () => {
      if (isOurs) workedOn.delete(entry.id);
      isOurs = false;
    };
    workedOn.add(entry.id);
    if (isOld) old++;
    await serve(entry, letGo);
    letGo();
    if (isOld) old--;
  }

  return {
    room(areOld) {
      const room = concurrency - taken.size;
      return areOld ? Math.min(room, mostOld - old) : room;
    },
    take(entries, areOld) {
      for (const entry of entries) {
        // Ours already, and it was long not heard of.
        if (workedOn.has(entry.id)) continue;
        const place = occupy(entry, areOld).then(() => void taken.delete(place));
        taken.add(place);
      }
    },
    vacated: () => Promise.race(taken),
    async idle() {
      await Promise.all(taken);
    },
    taken: () => taken.size,
  };
}
