/** A first-in, first-out list whose `take` does not move all remaining items each time. */
export interface Fifo<T> {
  readonly length: number;
  readonly first: T | undefined;
  add(item: T): void;
  take(count: number): T[];
}

/** After so many taken items the list is copied without them. */
const COMPACT_AT = 1_024;

export function createFifo<T>(): Fifo<T> {
  let list: T[] = [];
  let start = 0;
  return {
    get length() {
      return list.length - start;
    },
    get first() {
      return list[start];
    },
    add(item) {
      list.push(item);
    },
    take(count) {
      const taken = list.slice(start, start + count);
      start += taken.length;
      if (start === list.length || start >= COMPACT_AT) {
        list = list.slice(start);
        start = 0;
      }
      return taken;
    },
  };
}
