/** How many keys each scope has alive, as far as this process has seen them come: a flood of fresh keys fills no store. */

export interface Quota {
  /** Whether this scope has as many keys alive as it may. */
  isFull(scope: string): boolean;
  /** A fresh key of this scope was taken. */
  count(scope: string): void;
}

/** A ring of the times at which a scope's newest keys end: full while the oldest of them has not. */
interface Ends {
  readonly endsAt: number[];
  next: number;
}

/** How many scopes a call looks at to drop those that have nothing alive. */
const LOOK = 2;

export function createQuota(keys: number, liveMs: number, now: () => number): Quota {
  const scopes = new Map<string, Ends>();
  let lap = scopes.entries();

  function dropSome(): void {
    for (let looked = 0; looked < LOOK; looked++) {
      const { done, value } = lap.next();
      if (done) {
        lap = scopes.entries();
        return;
      }
      const [scope, { endsAt, next }] = value;
      const newest = endsAt[(next + endsAt.length - 1) % endsAt.length] ?? 0;
      if (newest <= now()) scopes.delete(scope);
    }
  }

  return {
    isFull(scope) {
      const ends = scopes.get(scope);
      if (ends === undefined || ends.endsAt.length < keys) return false;
      return (ends.endsAt[ends.next] as number) > now();
    },
    count(scope) {
      dropSome();
      let ends = scopes.get(scope);
      if (ends === undefined) {
        ends = { endsAt: [], next: 0 };
        scopes.set(scope, ends);
      }
      if (ends.endsAt.length < keys) ends.endsAt.push(now() + liveMs);
      else {
        ends.endsAt[ends.next] = now() + liveMs;
        ends.next = (ends.next + 1) % keys;
      }
    },
  };
}
