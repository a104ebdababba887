/**
 * Groups the requests that one turn of the event loop has read. A server reads its ready sockets one after the other. If
 * each request ran through all its stages alone, between two system calls, the processor would find neither code nor data
 * in its caches. A request that arrives alone does not wait: the turn ends as soon as no other socket is ready.
 */
import { canShareAcrossCalls } from "#platform";

let turn: Promise<void> | undefined;

/** Resolves at the end of this turn. Undefined on platforms without `setImmediate`, or where no two requests may share it. */
export function endOfTurn(): Promise<void> | undefined {
  if (!canShareAcrossCalls || typeof setImmediate !== "function") return undefined;
  turn ??= new Promise((resolve) => {
    setImmediate(() => {
      turn = undefined;
      resolve();
    });
  });
  return turn;
}
