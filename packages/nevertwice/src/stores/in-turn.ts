/**
 * Operator calls run one after another: all of them together hold at most one connection of a client, however many stores
 * share it, and the other connections are left to payments.
 */
import { canShareAcrossCalls } from "#platform";
import { NevertwiceError } from "../core/errors.ts";

/** Runs a call when the earlier ones have ended, unless its caller has cancelled by then: it would hold up the others. */
export type Turns = <T>(call: () => Promise<T>, isCancelled?: () => boolean) => Promise<T>;

/**
 * A call that has waited for so long is not run: twice the engine's default timeout for a call, so its caller has given up
 * even if it cannot say so.
 */
const LONGEST_WAIT_MS = 10_000;

const turnsByClient = new WeakMap<object, Turns>();

/** `client` is what the application has handed in: a pool, or a client of Redis. The options are those of its first store. */
export function turnsFor(client: object, options: TurnsOptions = {}): Turns {
  const turns = turnsByClient.get(client) ?? createTurns(options);
  turnsByClient.set(client, turns);
  return turns;
}

export interface TurnsOptions {
  /** After each call, the next one waits for so many times as long as it took; default 0. */
  readonly rest?: number;
  /** How many calls run at once; default 1. */
  readonly lanes?: number;
}

export function createTurns({ rest = 0, lanes = 1 }: TurnsOptions = {}): Turns {
  // In a Worker, a call must not wait for the promise of another request.
  if (!canShareAcrossCalls) return (call) => call();
  const each = Array.from({ length: lanes }, () => createLane(rest));
  let calls = 0;
  return (call, isCancelled) => (each[calls++ % lanes] as Turns)(call, isCancelled);
}

function createLane(rest: number): Turns {
  let last: Promise<unknown> = Promise.resolve();
  return (call, isCancelled) => {
    const queuedAt = performance.now();
    const take = () => {
      const isLate = isCancelled?.() || performance.now() - queuedAt >= LONGEST_WAIT_MS;
      return isLate ? Promise.reject(notInTime()) : call();
    };
    let startedAt = queuedAt;
    const next = last.then(() => {
      startedAt = performance.now();
      return take();
    });
    const over = next.catch(() => undefined);
    last = rest === 0 ? over : over.then(() => resting(rest * (performance.now() - startedAt)));
    return next;
  };
}

/** A call that takes several turns, between which those of other calls go. */
export interface TurnsOfCall {
  run<T>(step: () => Promise<T>): Promise<T>;
  /**
   * How long its own turns have taken. A limit must not count the waiting for others: a busy store would answer less, and a
   * count of what waits for a person would miss it.
   */
  spentMs(): number;
}

export function turnsOfCall(turns: Turns, signal: AbortSignal | undefined): TurnsOfCall {
  let spentMs = 0;
  return {
    run: (step) =>
      turns(
        async () => {
          const startedAt = performance.now();
          try {
            return await step();
          } finally {
            spentMs += performance.now() - startedAt;
          }
        },
        () => signal?.aborted === true,
      ),
    spentMs: () => spentMs,
  };
}

function resting(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function notInTime(): NevertwiceError {
  return new NevertwiceError(
    "unavailable",
    "other lists and reads of operators were still running: they run one at a time, so that payments keep the connections.",
  );
}
