/**
 * How many calls of a batch may be under way. A store that is far away answers late however little it has to do, so while
 * every write takes long, more calls share a write and more writes are in flight. A write beyond the usual number starts only
 * with as many calls as a usual group has at most: a store that is slow because it is overloaded gets larger groups, and not
 * more of them.
 */

export interface FlightRoom {
  /** How many calls may share a write. */
  readonly maxCalls: number;
  /** How many writes may be in flight at once. */
  readonly maxFlights: number;
}

/** A write that takes longer counts as one to a store that is far away. */
const FAR_MS = 20;
/** So many writes in a row must take long: one may also wait for a disk, or for the process itself. */
const FAR_WRITES = 8;

export interface Room {
  /** The calls that the next write may take; 0 if it must wait. */
  callsFor(queued: number, flights: number): number;
  /** A write was answered after so many milliseconds. */
  landed(ms: number): void;
}

export function createRoom(near: FlightRoom, far: FlightRoom = near): Room {
  let farWrites = 0;
  return {
    callsFor(queued, flights) {
      const isFar = farWrites >= FAR_WRITES;
      const { maxCalls, maxFlights } = isFar ? far : near;
      if (flights >= maxFlights) return 0;
      return flights < near.maxFlights || queued >= near.maxCalls ? maxCalls : 0;
    },
    landed(ms) {
      farWrites = ms >= FAR_MS ? farWrites + 1 : 0;
    },
  };
}
