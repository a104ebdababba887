/**
 * Lets requests that were read together go on together. A server reads what its sockets have, one by one; if each request
 * went all its way alone, between two calls to the system, the processor would find nothing of it in its caches. One
 * that comes alone waits for nobody: the turn is over as soon as no other socket is ready.
 */

let turn: Promise<void> | undefined;

/** Undefined where the platform knows no such turns. */
export function endOfTurn(): Promise<void> | undefined {
  if (typeof setImmediate !== "function") return undefined;
  turn ??= new Promise((resolve) => {
    setImmediate(() => {
      turn = undefined;
      resolve();
    });
  });
  return turn;
}
