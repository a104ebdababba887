/**
 * Lets a process end only while its worker is outside SQLite. A process that ends tears its threads down where they are,
 * and a native driver torn out of a call aborts the whole process: exit code 134 instead of its own.
 *
 * Of the shared cells two are written by one side and read by the other. The worker says that it goes in and then looks
 * whether it may; the process says that nobody may and then looks whether the worker is in. Whichever comes second sees
 * the other.
 */

const IS_IN = 0;
const IS_SHUT = 1;
const TIMES = 2;
const YES = 1;
const NO = 0;

/** Longer than SQLite waits for a lock: what is inside comes out. */
const LONGEST_MS = 10_000;

export type Gate = Int32Array<SharedArrayBuffer>;

export function createGate(): Gate {
  return new Int32Array(new SharedArrayBuffer(12));
}

/** The worker's side: does the work, unless the process is ending. */
export function pass(gate: Gate, work: () => void): void {
  Atomics.store(gate, IS_IN, YES);
  Atomics.add(gate, TIMES, 1);
  try {
    if (Atomics.load(gate, IS_SHUT) === NO) work();
  } finally {
    Atomics.store(gate, IS_IN, NO);
    Atomics.notify(gate, IS_IN);
  }
}

/** How often the worker went in: what was sent to it later than that has not begun. */
export function timesPassed(gate: Gate): number {
  return Atomics.load(gate, TIMES);
}

const guarded = new Set<Gate>();

/** The process's side: before it ends, the gate is shut and the worker outside. The answer takes that back. */
export function guardExit(gate: Gate): () => void {
  if (guarded.size === 0) process.on("exit", shutAll);
  guarded.add(gate);
  return () => {
    guarded.delete(gate);
    if (guarded.size === 0) process.off("exit", shutAll);
  };
}

function shutAll(): void {
  for (const gate of guarded) {
    Atomics.store(gate, IS_SHUT, YES);
    Atomics.wait(gate, IS_IN, YES, LONGEST_MS);
  }
}
